//! The rule of filling places, one step at a time: of all that is still allowed, one of the best
//! (tier, score) over the places that have room is taken, and so on. Plain lists, gone through.

use std::collections::{BTreeSet, HashMap};

use slotwise_core::model::CapLevel;

use crate::oracle::{PlainCampaign, Rank};

/// One showing in a visitor's history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) ad: usize,
    pub(crate) campaign: usize,
    pub(crate) advertiser: usize,
    pub(crate) at_us: i64,
}

/// What holds for a page; a single placement has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlainRules {
    /// 0: any number.
    pub(crate) campaign_max: usize,
    /// The competitive labels of each campaign.
    pub(crate) labels: Vec<BTreeSet<&'static str>>,
}

/// Places on the way to being filled.
pub(crate) struct Filling<'w> {
    campaigns: &'w [PlainCampaign],
    /// Of which campaign each ad is.
    of: Vec<usize>,
    rules: Option<PlainRules>,
    now_us: i64,
    pub(crate) seen: Vec<Seen>,
    /// The ads that were taken, in order.
    pub(crate) taken: Vec<usize>,
    is_taken: Vec<bool>,
    places: Vec<Place>,
}

struct Place {
    /// Best first.
    ranks: Vec<Rank>,
    /// Where each ad stands among them.
    at: HashMap<usize, usize>,
    /// All before it are not allowed any more.
    next: usize,
    open: usize,
}

impl<'w> Filling<'w> {
    /// `places` hold the eligible ads, best first, and how many are to be taken.
    pub(crate) fn new(
        campaigns: &'w [PlainCampaign],
        of: Vec<usize>,
        now_us: i64,
        past: &[Seen],
        places: Vec<(Vec<Rank>, usize)>,
    ) -> Self {
        let place = |(ranks, open): (Vec<Rank>, usize)| {
            let at = ranks.iter().enumerate().map(|(at, rank)| (rank.ad, at)).collect();
            Place { ranks, at, next: 0, open }
        };
        let is_taken = vec![false; of.len()];
        let places = places.into_iter().map(place).collect();
        let seen = past.to_vec();
        Self { campaigns, of, rules: None, now_us, seen, taken: Vec::new(), is_taken, places }
    }

    /// The same under the rules of a page.
    pub(crate) fn on_page(self, rules: PlainRules) -> Self {
        Self { rules: Some(rules), ..self }
    }

    /// The cap of the ad's campaign that is reached first, by its place among them.
    pub(crate) fn cap_reached(&self, ad: usize, now_us: i64) -> Option<usize> {
        let caps = &self.campaigns[self.of[ad]].caps;
        caps.iter().position(|cap| self.counted(ad, *cap, now_us) >= cap.1 as usize)
    }

    /// Showings that the cap counts for this ad.
    pub(crate) fn counted(&self, ad: usize, cap: (CapLevel, u32, i64), now_us: i64) -> usize {
        let (of, (level, _, window_us)) = (self.of[ad], cap);
        let counts = |seen: &&Seen| {
            let is_same = match level {
                CapLevel::Ad => seen.ad == ad,
                CapLevel::Campaign => seen.campaign == of,
                CapLevel::Advertiser => seen.advertiser == self.campaigns[of].advertiser,
            };
            is_same && now_us - seen.at_us < window_us
        };
        self.seen.iter().filter(counts).count()
    }

    /// Whether the ad, or as many of its campaign as may be, is on the page.
    pub(crate) fn is_campaign_on_page(&self, ad: usize) -> bool {
        let Some(rules) = &self.rules else { return self.is_taken[ad] };
        let same = self.taken.iter().filter(|taken| self.of[**taken] == self.of[ad]).count();
        self.is_taken[ad] || rules.campaign_max > 0 && same >= rules.campaign_max
    }

    /// Whether another advertiser with one of the campaign's labels is on the page.
    pub(crate) fn is_competitor_on_page(&self, ad: usize) -> bool {
        let Some(rules) = &self.rules else { return false };
        let of = self.of[ad];
        self.taken.iter().map(|taken| self.of[*taken]).any(|other| {
            self.campaigns[other].advertiser != self.campaigns[of].advertiser
                && !rules.labels[other].is_disjoint(&rules.labels[of])
        })
    }

    fn is_allowed(&self, ad: usize) -> bool {
        !self.is_campaign_on_page(ad)
            && !self.is_competitor_on_page(ad)
            && self.cap_reached(ad, self.now_us).is_none()
    }

    /// The best (tier, score) that is still allowed where there is room.
    pub(crate) fn best(&mut self) -> Option<(i32, f64)> {
        let mut best: Option<(i32, f64)> = None;
        for number in 0..self.places.len() {
            let place = &self.places[number];
            if place.open == 0 {
                continue;
            }
            // What is not allowed now will not be later: nothing is taken back.
            let left = place.ranks[place.next..].iter();
            let next = place.next + left.take_while(|rank| !self.is_allowed(rank.ad)).count();
            self.places[number].next = next;
            if let Some(rank) = self.places[number].ranks.get(next)
                && best.is_none_or(|best| best < (rank.tier, rank.score))
            {
                best = Some((rank.tier, rank.score));
            }
        }
        best
    }

    /// All that may be taken next, as (place, ad).
    pub(crate) fn choices(&mut self) -> Vec<(usize, usize)> {
        let Some((tier, score)) = self.best() else { return Vec::new() };
        let mut choices = Vec::new();
        for (number, place) in self.places.iter().enumerate().filter(|(_, place)| place.open > 0) {
            for rank in &place.ranks[place.next..] {
                if rank.tier == tier
                    && rank.score.to_bits() == score.to_bits()
                    && self.is_allowed(rank.ad)
                {
                    choices.push((number, rank.ad));
                }
            }
        }
        choices
    }

    /// Takes what somebody took next; stops the test where the rule forbids it.
    pub(crate) fn take(&mut self, place: usize, ad: usize) -> Rank {
        let best = self.best();
        let of = &self.places[place];
        let at = of.at.get(&ad);
        let rank = of.ranks[*at.unwrap_or_else(|| panic!("ad {ad} is not eligible in {place}"))];
        assert!(of.open > 0, "place {place} is full");
        assert!(self.is_allowed(ad), "ad {ad} is not allowed any more");
        let (tier, score) = best.expect("something is allowed");
        assert_eq!(
            (rank.tier, rank.score.to_bits()),
            (tier, score.to_bits()),
            "ad {ad} in {place} has {rank:?}, the best is {score}"
        );
        self.take_any(place, ad);
        rank
    }

    /// Takes it without asking.
    pub(crate) fn take_any(&mut self, place: usize, ad: usize) {
        let (campaign, at_us) = (self.of[ad], self.now_us);
        let advertiser = self.campaigns[campaign].advertiser;
        self.seen.push(Seen { ad, campaign, advertiser, at_us });
        self.taken.push(ad);
        self.is_taken[ad] = true;
        self.places[place].open -= 1;
    }
}
