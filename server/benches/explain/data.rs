//! The zones and the requests, all from fixed seeds.

use std::f64::consts::TAU;

use prost_types::Duration;
use rand_core::{Rng as _, SeedableRng};
use slotwise_core::decide::Rng;
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::{
    Account, Ad, AdZone, Campaign, CampaignStatus, CapLevel, ChooseAdsRequest, FrequencyCap,
    RequestContext, Site, Targeting, Zone,
};

const ACCOUNT: &str = "net";
const SITE: &str = "news";
/// Words that ads and requests have: each is on a hundredth of the ads.
const VOCABULARY: usize = 1_000;
const WORDS_OF_AD: usize = 10;
const WORDS_OF_REQUEST: usize = 3;
const ADS_OF_CAMPAIGN: usize = 10;
const CAMPAIGNS_OF_ADVERTISER: usize = 3;
const COUNTRIES: [&str; 10] = ["AT", "BR", "CH", "DE", "ES", "FR", "GB", "IT", "PL", "US"];
const SECTIONS: [&str; 4] = ["news", "sport", "travel", "money"];
/// So many that most come back some times in a run.
const VISITORS: usize = 100_000;
/// Ads that a request asks for.
const COUNT: u32 = 3;
/// Short, so that a run has the same share of visitors at a cap all along.
const CAP_WINDOW_S: i64 = 60;

/// A zone and how many ads it has.
#[derive(Clone, Copy)]
pub(crate) struct ZoneOf {
    pub(crate) zone: &'static str,
    pub(crate) ads: usize,
}

/// The account, the site and `zones` with their campaigns and ads.
pub(crate) fn records(zones: &[ZoneOf]) -> Vec<Record> {
    let (account_id, site_id) = (ACCOUNT.to_owned(), SITE.to_owned());
    let mut records = vec![
        Record::Account(Account { account_id: account_id.clone(), ..Account::default() }),
        Record::Site(Site { site_id: site_id.clone(), account_id, ..Site::default() }),
    ];
    for &ZoneOf { zone, ads } in zones {
        let (site_id, zone_id) = (site_id.clone(), zone.to_owned());
        records.push(Record::Zone(Zone { site_id, zone_id, ..Zone::default() }));
        let campaigns = 0..ads.div_ceil(ADS_OF_CAMPAIGN);
        records.extend(campaigns.map(|at| Record::Campaign(campaign(zone, at))));
        let mut rng = Rng::seed_from_u64(ads as u64);
        records.extend((0..ads).map(|at| Record::Ad(ad(&mut rng, zone, at))));
    }
    records
}

/// The request of this number for `zone`.
pub(crate) fn request(zone: &str, number: u64) -> ChooseAdsRequest {
    let mut rng = Rng::seed_from_u64(number ^ (0x5107_3153 << 32));
    let section = SECTIONS[below(&mut rng, SECTIONS.len())];
    ChooseAdsRequest {
        site_id: SITE.to_owned(),
        zone_id: zone.to_owned(),
        user_id: format!("visitor-{}", below(&mut rng, VISITORS)),
        keywords: words(&mut rng, WORDS_OF_REQUEST),
        count: COUNT,
        context: Some(RequestContext {
            country: COUNTRIES[below(&mut rng, COUNTRIES.len())].to_owned(),
            values: [("section".to_owned(), section.to_owned())].into(),
            ..RequestContext::default()
        }),
        ..ChooseAdsRequest::default()
    }
}

/// Of 20 campaigns one is paused, five are capped, five are for a country and two for a section.
fn campaign(zone: &str, at: usize) -> Campaign {
    let (mut status, mut caps, mut targeting) = (CampaignStatus::Active, Vec::new(), None);
    match at % 20 {
        0 => status = CampaignStatus::Paused,
        1..6 => caps.push(FrequencyCap {
            level: CapLevel::Campaign.into(),
            impressions_max: 3,
            window: Some(Duration { seconds: CAP_WINDOW_S, nanos: 0 }),
        }),
        6..11 => {
            let countries = vec![COUNTRIES[at / 20 % COUNTRIES.len()].to_owned()];
            targeting = Some(Targeting { countries, ..Targeting::default() });
        }
        11..13 => {
            let section = SECTIONS[at / 20 % SECTIONS.len()];
            let expression = format!("section = \"{section}\"");
            targeting = Some(Targeting { expression, ..Targeting::default() });
        }
        _ => {}
    }
    Campaign {
        campaign_id: campaign_id(zone, at),
        account_id: ACCOUNT.to_owned(),
        status: status.into(),
        caps,
        targeting,
        ..Campaign::default()
    }
}

fn ad(rng: &mut Rng, zone: &str, at: usize) -> Ad {
    let (site_id, zone_id) = (SITE.to_owned(), zone.to_owned());
    Ad {
        campaign_id: campaign_id(zone, at / ADS_OF_CAMPAIGN),
        ad_unit_id: format!("ad{at}"),
        zones: vec![AdZone { site_id, zone_id, ..AdZone::default() }],
        ecpm_micros: Some(worth_micros(rng)),
        keywords: words(rng, WORDS_OF_AD),
        landing_url: format!("https://brand.example/{zone}/{at}"),
        ..Ad::default()
    }
}

fn campaign_id(zone: &str, at: usize) -> String {
    format!("{zone}{}:campaign{at}", at / CAMPAIGNS_OF_ADVERTISER)
}

/// The logarithm is normal with sigma 1; the median is 1.00.
fn worth_micros(rng: &mut Rng) -> i64 {
    // Box and Muller's transform; the first of the two is above 0.
    let [u, v] = [1.0 - unit(rng), unit(rng)];
    let normal = (-2.0 * u.ln()).sqrt() * (TAU * v).cos();
    (normal.exp() * 1e6).round() as i64
}

/// `len` different words.
fn words(rng: &mut Rng, len: usize) -> Vec<String> {
    let mut words = Vec::with_capacity(len);
    while words.len() < len {
        let word = format!("word{:03}", below(rng, VOCABULARY));
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Evenly from [0, 1).
fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Evenly from 0 to `end`, which is not reached; `end` is far below 2^32, so the bias is nothing.
fn below(rng: &mut Rng, end: usize) -> usize {
    (((rng.next_u64() >> 32) * end as u64) >> 32) as usize
}
