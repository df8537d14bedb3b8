//! Random zones in plain values, large and small, and the markets that are made of them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use proptest::prelude::*;
use rand_core::Rng as _;
use rand_xoshiro::rand_core::SeedableRng;
use slotwise_core::decide::Rng;
use slotwise_core::index::Change;
use slotwise_core::model::{
    Ad, AdSerial, CampaignSerial, CapLevel, Exposure, Flight, Keywords, Placement, Profile, Status,
    Zone, ZoneSerial,
};

use crate::filling::Seen;
use crate::market::{DAY_US, HOUR_US, MINUTE_US, Market, Query, START_US, ad, capped, query, zone};
use crate::oracle::{PlainAd, PlainCampaign, PlainQuery};

/// Words that ads and requests choose from.
static WORDS: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..2_000).map(|word| format!("w{word}")).collect());

/// A seeded source of plain numbers.
pub(crate) struct Dice(Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::seed_from_u64(seed))
    }

    /// In [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.next_u64() % end as u64).unwrap()
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// How the ads of a zone are priced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Prices {
    Equal,
    Few,
    Zero,
    /// Few pay much, many pay little, hardly two the same.
    Spread,
    /// Micros so small that some scores are equal with other matches.
    Tiny,
}

/// What a random zone is made by. Everything else follows from the seed.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) ads: usize,
    pub(crate) prices: Prices,
    /// Different keywords: few make long lists, many make short ones.
    pub(crate) words: usize,
    /// Keywords of an ad at most.
    pub(crate) words_per_ad: usize,
    pub(crate) campaigns: usize,
    pub(crate) tiers: usize,
    /// Campaigns that do not serve now, and ads with excluded keywords.
    pub(crate) refused_percent: usize,
    /// Campaigns with caps.
    pub(crate) capped_percent: usize,
    pub(crate) zone_floor_ecpm_micros: i64,
    pub(crate) seed: u64,
}

/// Zones of up to `ads_max` ads, most of them small.
pub(crate) fn recipe(ads_max: usize) -> impl Strategy<Value = Recipe> {
    let ads = prop_oneof![
        12 => 0..=40.min(ads_max),
        6 => 0..=700.min(ads_max),
        2 => 0..=ads_max,
    ];
    let prices = prop::sample::select(vec![
        Prices::Equal,
        Prices::Few,
        Prices::Zero,
        Prices::Spread,
        Prices::Tiny,
    ]);
    let words = prop::sample::select(vec![1_usize, 4, 20, 64, 300, 2_000]);
    let words_per_ad = prop::sample::select(vec![0_usize, 1, 3, 8, 64]);
    let campaigns = prop::sample::select(vec![1_usize, 5, 40]);
    let tiers = prop_oneof![2 => Just(1_usize), 1 => 2..=4_usize];
    let refused = prop::sample::select(vec![0_usize, 0, 20, 60, 95]);
    let capped = prop::sample::select(vec![0_usize, 50, 100]);
    let floor = prop::sample::select(vec![0, 0, 0, 1, 100_000_000]);
    (ads, prices, words, words_per_ad, campaigns, tiers, refused, capped, floor, any::<u64>())
        .prop_map(|made| {
            let (ads, prices, words, words_per_ad, campaigns, tiers, refused, capped, floor, seed) =
                made;
            Recipe {
                ads,
                prices,
                words,
                // As normalising takes the time of a test, large zones have few.
                words_per_ad: words_per_ad.min(20_000 / ads.max(1)),
                campaigns,
                tiers,
                refused_percent: refused,
                capped_percent: capped,
                zone_floor_ecpm_micros: floor,
                seed,
            }
        })
}

/// A zone in plain values. Every ad's unit and serial is its place in `ads`, every campaign's
/// serial its place in `campaigns`.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) campaigns: Vec<PlainCampaign>,
    pub(crate) ads: Vec<PlainAd>,
    pub(crate) zone_floor_ecpm_micros: i64,
    /// How many different keywords there are.
    pub(crate) words: usize,
}

impl Recipe {
    pub(crate) fn make(&self) -> World {
        let mut dice = Dice::new(self.seed);
        let campaigns = (0..self.campaigns).map(|_| self.campaign(&mut dice)).collect();
        let ads = (0..self.ads).map(|_| self.ad(&mut dice)).collect();
        let zone_floor_ecpm_micros = self.zone_floor_ecpm_micros;
        World { campaigns, ads, zone_floor_ecpm_micros, words: self.words }
    }

    fn campaign(&self, dice: &mut Dice) -> PlainCampaign {
        let refused = dice.percent(self.refused_percent);
        let how = dice.below(3);
        let caps = if dice.percent(self.capped_percent) { caps(dice) } else { Vec::new() };
        PlainCampaign {
            advertiser: dice.below(self.campaigns.div_ceil(2)),
            status: if refused && how == 0 { Status::Paused } else { Status::Active },
            start_us: if refused && how == 1 { START_US + 1 } else { START_US },
            end_us: if refused && how == 2 { START_US } else { START_US + 1 },
            tier: i32::try_from(dice.below(self.tiers)).unwrap() - 1,
            caps,
        }
    }

    fn ad(&self, dice: &mut Dice) -> PlainAd {
        let excluded = self.refused_percent > 0 && dice.percent(10);
        PlainAd {
            campaign: dice.below(self.campaigns),
            ecpm_micros: self.price(dice),
            keywords: some_words(dice, self.words, self.words_per_ad),
            excluded: some_words(dice, self.words, usize::from(excluded)),
        }
    }

    fn price(&self, dice: &mut Dice) -> i64 {
        match self.prices {
            Prices::Equal => 250_000_000,
            Prices::Few => dice.one_of(&[0, 1, 100_000_000, 200_000_000, 250_000_000]),
            Prices::Zero => 0,
            Prices::Spread => {
                let normal = (0..12).map(|_| dice.unit()).sum::<f64>() - 6.0;
                // From a few cents to some thousands: far below any limit.
                #[allow(clippy::cast_possible_truncation)]
                let micros = ((normal * 1.5).exp() * 1e6) as i64;
                micros
            }
            Prices::Tiny => i64::try_from(dice.below(20)).unwrap(),
        }
    }
}

fn caps(dice: &mut Dice) -> Vec<(CapLevel, u32, i64)> {
    let levels = [CapLevel::Ad, CapLevel::Campaign, CapLevel::Advertiser];
    let mut one = || {
        let impressions_max = u32::try_from(1 + dice.below(4)).unwrap();
        (dice.one_of(&levels), impressions_max, dice.one_of(&[MINUTE_US, HOUR_US, DAY_US]))
    };
    (0..2).map(|_| one()).collect()
}

/// Up to `up_to` of the first `words` words, the first ones much more often than the last.
fn some_words(dice: &mut Dice, words: usize, up_to: usize) -> BTreeSet<&'static str> {
    let many = dice.below(up_to + 1);
    let one = |_| {
        // Below `words`, as the unit is below 1.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let word = (dice.unit().powi(3) * words as f64) as usize;
        WORDS[word].as_str()
    };
    (0..many).map(one).collect()
}

impl World {
    /// A zone of one campaign, with these prices and keywords.
    pub(crate) fn plain(ads: Vec<(i64, Vec<&'static str>)>) -> Self {
        let campaign = PlainCampaign {
            advertiser: 0,
            status: Status::Active,
            start_us: i64::MIN,
            end_us: i64::MAX,
            tier: 0,
            caps: Vec::new(),
        };
        let of = |(ecpm_micros, keywords): (i64, Vec<_>)| PlainAd {
            campaign: 0,
            ecpm_micros,
            keywords: keywords.into_iter().collect(),
            excluded: BTreeSet::new(),
        };
        Self {
            campaigns: vec![campaign],
            ads: ads.into_iter().map(of).collect(),
            zone_floor_ecpm_micros: 0,
            words: 1,
        }
    }

    pub(crate) fn campaign_id(&self, of: usize) -> String {
        format!("adv{}:{of}", self.campaigns[of].advertiser)
    }

    pub(crate) fn campaign(&self, of: usize) -> slotwise_core::model::Campaign {
        let plain = &self.campaigns[of];
        let serial = u32::try_from(of).unwrap();
        let mut made = capped(serial, &self.campaign_id(of), &plain.caps);
        made.status = plain.status;
        made.flight = Flight { start_us: plain.start_us, end_us: plain.end_us };
        made.tier = plain.tier;
        made
    }

    pub(crate) fn ad(&self, at: usize) -> Ad {
        let plain = &self.ads[at];
        let serial = u32::try_from(at).unwrap();
        let made = ad(serial, &self.campaign_id(plain.campaign), &at.to_string(), 0, &[]);
        let place =
            Placement { ecpm_micros: Some(plain.ecpm_micros), ..made.placements[0].clone() };
        let keywords = Keywords::new(plain.keywords.iter().copied());
        let excluded_keywords = Keywords::new(plain.excluded.iter().copied());
        Ad { placements: [place].into(), keywords, excluded_keywords, ..made }
    }

    pub(crate) fn zone(&self) -> Zone {
        Zone { floor_ecpm_micros: self.zone_floor_ecpm_micros, ..zone() }
    }

    pub(crate) fn market(&self) -> Market {
        let campaigns = (0..self.campaigns.len()).map(|of| self.campaign(of)).collect();
        let ads = (0..self.ads.len()).map(|at| self.ad(at)).collect();
        let mut market = Market::new(campaigns, ads);
        market.apply(vec![Change::Zone(self.zone())]);
        market
    }

    /// A question with up to `up_to` keywords, some of which nobody has.
    pub(crate) fn ask(&self, dice: &mut Dice, up_to: usize) -> PlainQuery {
        let mut keywords = some_words(dice, self.words, 4 * up_to);
        keywords.extend(some_words(dice, WORDS.len(), up_to / 4));
        while keywords.len() > up_to {
            let last = dice.below(keywords.len());
            let word = *keywords.iter().nth(last).unwrap();
            keywords.remove(word);
        }
        PlainQuery {
            now_us: START_US,
            keywords,
            floor_ecpm_micros: dice.one_of(&[0, 0, 0, 1, 200_000_000]),
            zone_floor_ecpm_micros: self.zone_floor_ecpm_micros,
        }
    }

    /// What a visitor may have seen: showings of some ads, near the ends of the windows too.
    pub(crate) fn past(&self, dice: &mut Dice, showings: usize) -> Vec<Seen> {
        if self.ads.is_empty() {
            return Vec::new();
        }
        let ages = [0, 1, MINUTE_US - 1, MINUTE_US, HOUR_US - 1, HOUR_US, DAY_US - 1, DAY_US];
        let mut one = || {
            let ad = dice.below(self.ads.len());
            self.seen(ad, START_US - dice.one_of(&ages))
        };
        (0..showings).map(|_| one()).collect()
    }

    pub(crate) fn seen(&self, ad: usize, at_us: i64) -> Seen {
        let campaign = self.ads[ad].campaign;
        Seen { ad, campaign, advertiser: self.campaigns[campaign].advertiser, at_us }
    }
}

/// The same question to the core.
pub(crate) fn query_of(plain: &PlainQuery, count: usize) -> Query {
    Query {
        now_us: plain.now_us,
        keywords: Keywords::new(plain.keywords.iter().copied()),
        floor_ecpm_micros: plain.floor_ecpm_micros,
        ..query(count)
    }
}

/// The profile of a visitor who has seen this.
pub(crate) fn profile_of(past: &[Seen]) -> Profile {
    let mut profile = Profile::default();
    // No decision of a test has such a high number.
    for (decision, seen) in (1 << 40..).zip(past) {
        let exposure = Exposure {
            at_us: seen.at_us,
            life_us: 30 * DAY_US,
            is_held: false,
            decision,
            zone: ZoneSerial(1),
            campaign: CampaignSerial(u32::try_from(seen.campaign).unwrap()),
            ad: AdSerial(u32::try_from(seen.ad).unwrap()),
        };
        let advertiser = format!("adv{}", seen.advertiser);
        profile.record(&advertiser.as_str().into(), exposure, START_US).unwrap();
    }
    profile.take_fresh();
    profile
}
