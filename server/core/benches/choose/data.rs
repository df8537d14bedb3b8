//! The zones and the requests, all from fixed seeds.

use std::f64::consts::TAU;

use rand_core::Rng as _;
use rand_xoshiro::rand_core::SeedableRng;
use slotwise_core::decide::{Page, Query, Rng};
use slotwise_core::index::Change;
use slotwise_core::model::{
    Account, AccountSerial, Ad, AdSerial, Blocks, Campaign, CampaignId, CampaignSerial, Context,
    Country, Flight, Keywords, Names, Placement, Site, Status, Targeting, Zone, ZoneSerial,
};

pub(crate) const SITE: &str = "news";
pub(crate) const ZONE: &str = "top";
const ACCOUNT: &str = "net";
/// 2026-11-30T00:00:00Z.
const NOW_US: i64 = 1_795_996_800_000_000;

/// Keywords of each ad.
pub(crate) const WORDS_OF_AD: usize = 10;
/// Each campaign is for one of these, and each request comes from one.
const COUNTRIES: [&str; 10] = ["AT", "BR", "CH", "DE", "ES", "FR", "GB", "IT", "PL", "US"];
/// Fewest and most ads of a campaign; in a small zone there are ten campaigns at least.
const ADS_OF_CAMPAIGN: (usize, usize) = (10, 100);

/// How eCPM is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// The logarithm is normal with sigma 1; the median is 1.00.
    Lognormal,
    /// Evenly between 0 and 10.00.
    Uniform,
    /// 1.00 each.
    Equal,
}

/// Whom the campaigns are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// No clause.
    Everybody,
    /// Each for one of ten countries, from which the requests come in equal parts.
    OneOfTen,
    /// One campaign is for the country of the requests, all others for others.
    Handful,
}

/// One kind of zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) worth: Worth,
    pub(crate) aim: Aim,
    /// Words that ads have: each is on `WORDS_OF_AD / vocabulary` of them.
    pub(crate) vocabulary: usize,
}

/// What requests to a zone ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) count: usize,
    pub(crate) words: usize,
    /// Whether the words are some that no ad has.
    pub(crate) foreign: bool,
}

/// One ad, for the index and for the yardstick.
pub(crate) struct AdFacts {
    pub(crate) campaign: usize,
    pub(crate) ecpm_micros: i64,
    pub(crate) words: Vec<usize>,
}

/// One zone, for the index and for the yardstick.
pub(crate) struct ZoneFacts {
    pub(crate) kind: Kind,
    pub(crate) ads: Vec<AdFacts>,
    /// Of each campaign, the country that it is for, as a place in [`COUNTRIES`].
    pub(crate) countries: Vec<Option<usize>>,
}

/// One question.
pub(crate) struct Request {
    pub(crate) count: usize,
    pub(crate) words: Vec<String>,
    /// A place in [`COUNTRIES`].
    pub(crate) country: usize,
    pub(crate) seed: u64,
}

/// The word of this number: as ads have it, or one that no ad has.
pub(crate) fn word(number: usize, foreign: bool) -> String {
    format!("{}{number:04}", if foreign { "elsewhere" } else { "word" })
}

impl ZoneFacts {
    /// A zone of so many ads.
    pub(crate) fn new(kind: Kind, size: usize) -> Self {
        let mut rng = Rng::seed_from_u64(size as u64);
        let most = (size / 10).clamp(ADS_OF_CAMPAIGN.0, ADS_OF_CAMPAIGN.1);
        let (mut ads, mut countries) = (Vec::with_capacity(size), Vec::new());
        while ads.len() < size {
            let campaign = countries.len();
            countries.push(match kind.aim {
                Aim::Everybody => None,
                Aim::OneOfTen => Some(campaign % COUNTRIES.len()),
                // Not the first campaign, so that nothing depends on its place.
                Aim::Handful if campaign == 1 => Some(0),
                Aim::Handful => Some(1 + campaign % (COUNTRIES.len() - 1)),
            });
            let fewest = ADS_OF_CAMPAIGN.0;
            let len = fewest + below(&mut rng, most - fewest + 1);
            for _ in 0..len.min(size - ads.len()) {
                let ecpm_micros = kind.worth.draw_micros(&mut rng);
                let words = distinct(&mut rng, WORDS_OF_AD, kind.vocabulary);
                ads.push(AdFacts { campaign, ecpm_micros, words });
            }
        }
        Self { kind, ads, countries }
    }

    /// The account, the site, the zone, the campaigns and the ads.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let blocks = Blocks::default();
        let time_zone = "".into();
        let mut changes = vec![
            Change::Account(Account { serial: AccountSerial(1), id: ACCOUNT.into(), time_zone }),
            Change::Site(Site { id: SITE.into(), account: ACCOUNT.into(), blocks }),
            self.zone(),
        ];
        changes.extend((0..self.countries.len()).map(|at| self.campaign(at, Status::Active)));
        changes.extend((0..self.ads.len()).map(|at| self.ad(at, self.ads[at].ecpm_micros)));
        changes
    }

    /// The zone.
    pub(crate) fn zone(&self) -> Change {
        Change::Zone(Zone {
            serial: ZoneSerial(1),
            site: SITE.into(),
            id: ZONE.into(),
            sizes: [].into(),
            floor_ecpm_micros: 0,
        })
    }

    /// The campaign at this place.
    pub(crate) fn campaign(&self, at: usize, status: Status) -> Change {
        let id = campaign_id(at);
        let targeting = self.countries[at].map(|country| {
            let mut targeting = Targeting::default();
            targeting.countries = [Country::new(COUNTRIES[country]).unwrap()].into();
            Box::new(targeting)
        });
        Change::Campaign(Campaign {
            serial: CampaignSerial(serial(at)),
            account: ACCOUNT.into(),
            advertiser: id.advertiser(),
            id,
            status,
            flight: Flight::OPEN,
            tier: 0,
            caps: [].into(),
            strict_caps: false,
            requires_user: false,
            has_budget: false,
            targeting,
            competitive_labels: Names::default(),
            price: None,
            categories: Vec::new(),
            advertiser_domains: Vec::new(),
        })
    }

    /// The ad at this place, worth so much.
    pub(crate) fn ad(&self, at: usize, ecpm_micros: i64) -> Change {
        let facts = &self.ads[at];
        let words: Vec<String> = facts.words.iter().map(|&number| word(number, false)).collect();
        let ecpm_micros = Some(ecpm_micros);
        Change::Ad(Ad {
            serial: AdSerial(serial(at)),
            campaign: campaign_id(facts.campaign),
            unit: format!("ad{at}").as_str().into(),
            placements: [Placement { site: SITE.into(), zone: ZONE.into(), ecpm_micros }].into(),
            keywords: Keywords::from_normalised(words.iter().map(String::as_str).collect()),
            excluded_keywords: Keywords::default(),
            size: None,
            zone_prices: [].into(),
        })
    }
}

impl Request {
    /// The request of this number: its words and its seed are its own.
    pub(crate) fn new(kind: Kind, ask: Ask, number: u64) -> Self {
        let mut rng = Rng::seed_from_u64(number ^ (0x5107_3153 << 32));
        let numbers = distinct(&mut rng, ask.words, kind.vocabulary);
        let words = numbers.into_iter().map(|number| word(number, ask.foreign)).collect();
        let country = match kind.aim {
            Aim::Everybody | Aim::Handful => 0,
            Aim::OneOfTen => below(&mut rng, COUNTRIES.len()),
        };
        Self { count: ask.count, words, country, seed: rng.next_u64() }
    }

    /// The question as the decision takes it.
    pub(crate) fn query(&self) -> (Page, Query) {
        let country = Country::new(COUNTRIES[self.country]);
        let context = Context { country, ..Context::default() };
        let page = Page { now_us: NOW_US, context, visitor_known: true, ..Page::default() };
        let words = self.words.iter().map(String::as_str).collect();
        let keywords = Keywords::from_normalised(words);
        (page, Query { count: self.count, keywords, ..Query::default() })
    }
}

impl Worth {
    fn draw_micros(self, rng: &mut Rng) -> i64 {
        match self {
            Self::Lognormal => {
                // Box and Muller's transform; the first of the two is above 0.
                let [u, v] = [1.0 - unit(rng), unit(rng)];
                let normal = (-2.0 * u.ln()).sqrt() * (TAU * v).cos();
                (normal.exp() * 1e6).round() as i64
            }
            Self::Uniform => below(rng, 10_000_000) as i64,
            Self::Equal => 1_000_000,
        }
    }
}

/// The id of the campaign at this place; three campaigns to an advertiser.
pub(crate) fn campaign_id(at: usize) -> CampaignId {
    format!("advertiser{}:campaign{at}", at / 3).as_str().into()
}

fn serial(at: usize) -> u32 {
    u32::try_from(at).unwrap() + 1
}

/// Evenly from [0, 1).
fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Evenly from 0 to `end`, which is not reached; `end` is far below 2^32, so the bias is nothing.
fn below(rng: &mut Rng, end: usize) -> usize {
    (((rng.next_u64() >> 32) * end as u64) >> 32) as usize
}

/// `len` different numbers below `end`.
fn distinct(rng: &mut Rng, len: usize, end: usize) -> Vec<usize> {
    let mut numbers = Vec::with_capacity(len);
    while numbers.len() < len {
        let number = below(rng, end);
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}
