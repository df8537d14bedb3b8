//! What an explanation says: each candidate's verdict is the first in the contract's order of all
//! that speaks against it, as a plain restatement finds it, and the details are right.

use std::collections::BTreeMap;

use proptest::prelude::*;
use slotwise_core::decide::{Decision, Explained, Explainer, Page, Reason, Strict, Verdict};
use slotwise_core::index::{Campaigns, Change};
use slotwise_core::model::{Ad, Blocks, CapLevel, Profile, Size, Status, Targeting};

use super::page::{Pages, Place, ZONES, places};
use crate::filling::{Filling, Seen};
use crate::market::{Market, SITE, START_US, cases, query};
use crate::oracle::{PlainAd, PlainCampaign, PlainQuery, Rank};
use crate::world::{Dice, World, profile_of, recipe};

/// What a campaign has beside its plain values.
#[derive(Clone, Copy, Debug, Default)]
struct Extra {
    is_for_other_hours: bool,
    requires_user: bool,
    has_budget: bool,
    strict_caps: bool,
}

/// What is known of the visitor when the decision is settled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    All,
    /// The profile, but not what other nodes showed.
    NotStrictly,
    Nothing,
}

const SIZE: Size = Size { width: 300, height: 250 };
const OTHER_SIZE: Size = Size { width: 728, height: 90 };

/// Pages with all that can speak against an ad.
struct Scene {
    pages: Pages,
    extras: Vec<Extra>,
    /// Ads of the other size.
    has_other_size: Vec<bool>,
    visitor_known: bool,
    /// This advertiser is not wanted.
    blocked: usize,
    known: Known,
    past: Vec<Seen>,
}

impl Scene {
    fn new(pages: Pages, known: Known, past: Vec<Seen>, dice: &mut Dice) -> Self {
        let mut extra = |_: usize| Extra {
            is_for_other_hours: dice.percent(10),
            requires_user: dice.percent(20),
            has_budget: dice.percent(20),
            strict_caps: dice.percent(30),
        };
        let extras = (0..pages.world.campaigns.len()).map(&mut extra).collect();
        let has_other_size = (0..pages.world.ads.len()).map(|_| dice.percent(10)).collect();
        let (visitor_known, blocked) = (dice.percent(50), dice.below(8));
        Self { pages, extras, has_other_size, visitor_known, blocked, known, past }
    }

    fn market(&self) -> Market {
        let mut market = self.pages.market();
        let campaigns = market.index.campaigns();
        let campaign = |(of, extra): (u32, &Extra)| {
            let row = campaigns.get(slotwise_core::model::CampaignSerial(of)).unwrap();
            let mut made = row.campaign.clone();
            let mut targeting = Targeting::default();
            targeting.set_hours([1]);
            made.targeting = extra.is_for_other_hours.then(|| Box::new(targeting));
            made.requires_user = extra.requires_user;
            made.has_budget = extra.has_budget;
            made.strict_caps = extra.strict_caps;
            Change::Campaign(made)
        };
        let ad = |at: usize| {
            let place = |zone: &&str| {
                let block = market.index.zone(SITE, zone).unwrap();
                let unit = at.to_string();
                block
                    .entries
                    .iter()
                    .find(|one| one.ad.unit.as_str() == unit)
                    .map(|one| one.ad.clone())
            };
            let made = ZONES.iter().find_map(place)?;
            let size = if self.has_other_size[at] { OTHER_SIZE } else { SIZE };
            Some(Change::Ad(Ad { size: Some(size), ..(*made).clone() }))
        };
        let campaigns = (0..).zip(&self.extras).map(campaign);
        let changes = campaigns.chain((0..self.has_other_size.len()).filter_map(ad)).collect();
        market.apply(changes);
        market
    }

    fn page(&self) -> Page {
        let (mut page, _) = query(1).split();
        page.visitor_known = self.visitor_known;
        page.blocks = Blocks::new([format!("adv{}", self.blocked).as_str()], [], []);
        page
    }

    /// Settles the decision as far as the visitor is known.
    fn settle(&self, decision: &mut Decision, campaigns: &Campaigns) -> Option<Profile> {
        let mut profile = profile_of(&self.past);
        decision.look(campaigns);
        let strict = match self.known {
            Known::All => Strict::Local,
            Known::NotStrictly => Strict::Withheld,
            Known::Nothing => {
                decision.admit_unknown(campaigns);
                return None;
            }
        };
        decision.admit(campaigns, &mut profile, 1, strict).unwrap();
        Some(profile)
    }

    /// The first in the order of enum Verdict in `proto/slotwise/v1/decision.proto`, after all
    /// that `filling` holds was shown.
    fn verdict(&self, filling: &Filling<'_>, place: &Place, ad: usize, chosen: bool) -> Verdict {
        let plain = &self.pages.world.ads[ad];
        let (of, extra) =
            (&self.pages.world.campaigns[plain.campaign], self.extras[plain.campaign]);
        let price = self.pages.prices[ad][place.zone].unwrap();
        let is_known = self.known != Known::Nothing;
        let is_strict = extra.strict_caps && !of.caps.is_empty();
        let speaks = [
            (chosen, Verdict::Chosen),
            (of.status == Status::Paused, Verdict::CampaignPaused),
            (START_US < of.start_us, Verdict::FlightNotStarted),
            (START_US >= of.end_us, Verdict::FlightEnded),
            (self.has_other_size[ad], Verdict::Size),
            (price < place.asked.floor_ecpm_micros, Verdict::BelowFloor),
            (of.advertiser == self.blocked, Verdict::BlockedAdvertiser),
            (!plain.excluded.is_disjoint(&place.asked.keywords), Verdict::ExcludedKeyword),
            (extra.is_for_other_hours, Verdict::Targeting),
            (extra.requires_user && !self.visitor_known, Verdict::UserRequired),
            (is_known && filling.cap_reached(ad, START_US).is_some(), Verdict::FrequencyCapped),
            (self.known == Known::NotStrictly && is_strict, Verdict::ProfileUnavailable),
            (!is_known && self.is_recorded(of), Verdict::ProfileUnavailable),
            (extra.has_budget, Verdict::BudgetUnavailable),
            (filling.is_campaign_on_page(ad), Verdict::CampaignOnPage),
            (filling.is_competitor_on_page(ad), Verdict::CompetitorOnPage),
        ];
        let first = speaks.iter().find(|(speaks, _)| *speaks);
        first.map_or(Verdict::Outranked, |(_, verdict)| *verdict)
    }

    /// Whether a cap counts its showings: its own, or one over the whole advertiser.
    fn is_recorded(&self, campaign: &PlainCampaign) -> bool {
        let is_wide = |other: &&PlainCampaign| {
            other.advertiser == campaign.advertiser
                && other.caps.iter().any(|cap| cap.0 == CapLevel::Advertiser)
        };
        !campaign.caps.is_empty() || self.pages.world.campaigns.iter().any(|one| is_wide(&one))
    }

    /// Every ad of the place's zone, eligible or not, best first.
    fn all(&self, place: &Place) -> Vec<Rank> {
        let mut all = self.pages.clone();
        for campaign in &mut all.world.campaigns {
            let tier = campaign.tier;
            *campaign = PlainCampaign { tier, ..World::plain(Vec::new()).campaigns[0].clone() };
        }
        for ad in &mut all.world.ads {
            *ad = PlainAd { excluded: Default::default(), ..ad.clone() };
        }
        let asked = PlainQuery { floor_ecpm_micros: 0, ..place.asked.clone() };
        all.ranks(&Place { asked, ..place.clone() })
    }

    /// The words that go with a verdict.
    fn check_reason(&self, filling: &Filling<'_>, place: &Place, ad: usize, told: &Explained<'_>) {
        let plain = &self.pages.world.ads[ad];
        let of = &self.pages.world.campaigns[plain.campaign];
        match told.reason {
            Reason::FlightNotStarted { start_us } => assert_eq!(start_us, of.start_us),
            Reason::FlightEnded { end_us } => assert_eq!(end_us, of.end_us),
            Reason::Size { own } => assert_eq!(own, Some(OTHER_SIZE)),
            Reason::BelowFloor { ecpm_micros, floor_ecpm_micros } => {
                assert_eq!(Some(ecpm_micros), self.pages.prices[ad][place.zone]);
                assert_eq!(floor_ecpm_micros, place.asked.floor_ecpm_micros);
            }
            Reason::Blocked { entry, by_site, .. } => {
                assert_eq!((entry, by_site), (format!("adv{}", of.advertiser).as_str(), false));
            }
            Reason::ExcludedKeyword(word) => {
                assert!(plain.excluded.contains(word) && place.asked.keywords.contains(word));
            }
            Reason::Capped { cap, seen, free_at_us } => {
                let reached = of.caps[filling.cap_reached(ad, START_US).unwrap()];
                assert_eq!((cap.level, cap.impressions_max, cap.window_us), reached);
                assert_eq!(seen, filling.counted(ad, reached, START_US));
                let is_full = |now_us| filling.counted(ad, reached, now_us) >= reached.1 as usize;
                assert!(is_full(free_at_us - 1) && !is_full(free_at_us), "{free_at_us}");
            }
            Reason::AdOnPage => assert!(filling.taken.contains(&ad)),
            Reason::CampaignOnPage => assert!(!filling.taken.contains(&ad)),
            Reason::CompetitorOnPage(label) => {
                let labels = &self.pages.rules.labels;
                let other = |taken: &usize| self.pages.world.ads[*taken].campaign;
                let has = |of: usize| {
                    self.pages.world.campaigns[of].advertiser
                        != self.pages.world.campaigns[plain.campaign].advertiser
                        && labels[of].contains(label)
                };
                assert!(labels[plain.campaign].contains(label));
                assert!(filling.taken.iter().map(other).any(has), "{label}");
            }
            _ => {}
        }
    }

    /// Everything that is said of one place.
    fn check(
        &self,
        explained: &Decision,
        campaigns: &Campaigns,
        profile: Option<&Profile>,
        at: usize,
        places: &[Place],
    ) {
        let winners: Vec<(usize, usize)> = explained
            .winners()
            .map(|winner| (winner.placement, winner.entry.ad.unit.as_str().parse().unwrap()))
            .collect();
        let open = |place: &Place| Place { count: usize::MAX, ..place.clone() };
        let open: Vec<_> = places.iter().map(open).collect();
        let (place, mut filling) = (&places[at], self.pages.filling(&open, &self.past));
        winners.iter().for_each(|(number, ad)| filling.take_any(*number, *ad));
        let chosen = |ad| winners.contains(&(at, ad));
        let ranks = self.all(place);
        let is_strictly_unknown = self.known == Known::NotStrictly;
        let explainer = || Explainer::new(explained, at, campaigns, profile, is_strictly_unknown);
        assert_eq!(explainer().candidates(), ranks.len());

        let mut expected: BTreeMap<usize, u32> = BTreeMap::new();
        for rank in &ranks {
            let verdict = self.verdict(&filling, place, rank.ad, chosen(rank.ad));
            *expected.entry(verdict as usize).or_default() += 1;
        }
        for ads in [1, 7, 64, usize::MAX / 2] {
            let mut explainer = explainer();
            while explainer.count(ads) {}
            let counts = explainer.counts().map(|(verdict, count)| (verdict as usize, count));
            assert_eq!(counts.collect::<BTreeMap<_, _>>(), expected, "{ads} at once");
        }
        for max in [0, 1, 5, 20, ranks.len(), ranks.len() + 10] {
            let first = explainer().first(max);
            assert_eq!(first.len(), max.min(ranks.len()));
            let mut named = Vec::new();
            for (told, rank) in first.iter().zip(&ranks) {
                let ad: usize = told.entry.ad.unit.as_str().parse().unwrap();
                let own = ranks.iter().find(|rank| rank.ad == ad).unwrap();
                assert_eq!((own.tier, own.score.to_bits()), (rank.tier, rank.score.to_bits()));
                assert_eq!(told.score.to_bits(), own.score.to_bits());
                assert_eq!(told.matched as usize, own.matched);
                let verdict = self.verdict(&filling, place, ad, chosen(ad));
                assert_eq!(told.reason.verdict(), verdict, "ad {ad}: {:?}", told.reason);
                self.check_reason(&filling, place, ad, told);
                named.push(*own);
            }
            assert_chosen_first(&named, &ranks, chosen);
        }
    }
}

/// No ad twice, and none that was not chosen before an equal one that was.
fn assert_chosen_first(named: &[Rank], all: &[Rank], chosen: impl Fn(usize) -> bool) {
    for (at, rank) in named.iter().enumerate() {
        let before = &named[..at];
        assert!(before.iter().all(|one| one.ad != rank.ad), "ad {} twice", rank.ad);
        let is_equal = |one: &&Rank| (one.tier, one.score) == (rank.tier, rank.score);
        if !chosen(rank.ad) {
            let mut equal = all.iter().filter(is_equal).filter(|one| chosen(one.ad));
            assert!(equal.all(|equal| before.iter().any(|one| one.ad == equal.ad)), "{rank:?}");
        }
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn every_candidate_gets_the_first_verdict_that_holds(
        recipe in recipe(400),
        showings in prop::sample::select(vec![0_usize, 10, 60]),
        known in prop::sample::select(vec![Known::All, Known::All, Known::NotStrictly, Known::Nothing]),
        is_page: bool,
    ) {
        let mut dice = Dice::new(recipe.seed ^ 7);
        let pages = Pages { are_single: !is_page, ..Pages::new(&recipe, false) };
        let past = pages.world.past(&mut dice, showings);
        let scene = Scene::new(pages, known, past, &mut dice);
        let market = scene.market();
        let campaigns = market.index.campaigns();
        for seed in 0..3 {
            let mut places = places(&scene.pages.world, &mut dice);
            if !is_page {
                places.truncate(1);
            }
            let mut decision = scene.pages.decision(&market, scene.page(), &places, seed, &[SIZE]);
            let profile = scene.settle(&mut decision, &campaigns);
            for at in 0..places.len() {
                scene.check(&decision, &campaigns, profile.as_ref(), at, &places);
            }
        }
    }
}
