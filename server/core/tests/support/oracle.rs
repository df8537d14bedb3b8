//! The rule of choosing as ARCHITECTURE.md and the contract state it, written down naively: score every eligible ad,
//! sort by tier and score. Knows nothing of the core but its names for status and cap level.

use std::collections::{BTreeSet, HashMap};

use slotwise_core::model::{CapLevel, Status};

/// A campaign in plain values.
#[derive(Clone, Debug)]
pub(crate) struct PlainCampaign {
    pub(crate) advertiser: usize,
    pub(crate) status: Status,
    pub(crate) start_us: i64,
    pub(crate) end_us: i64,
    pub(crate) tier: i32,
    pub(crate) caps: Vec<(CapLevel, u32, i64)>,
}

/// An ad in plain values; keywords in their normal form.
#[derive(Clone, Debug)]
pub(crate) struct PlainAd {
    pub(crate) campaign: usize,
    pub(crate) ecpm_micros: i64,
    pub(crate) keywords: BTreeSet<&'static str>,
    pub(crate) excluded: BTreeSet<&'static str>,
}

/// A question in plain values; keywords in their normal form.
#[derive(Clone, Debug)]
pub(crate) struct PlainQuery {
    pub(crate) now_us: i64,
    pub(crate) keywords: BTreeSet<&'static str>,
    pub(crate) floor_ecpm_micros: i64,
    pub(crate) zone_floor_ecpm_micros: i64,
}

/// What an ad is ranked by: equal means bitwise equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rank {
    pub(crate) ad: usize,
    pub(crate) tier: i32,
    pub(crate) matched: usize,
    pub(crate) score: f64,
}

/// Every eligible ad, best first; equal ones stand next to each other in no order.
pub(crate) fn ranking(
    campaigns: &[PlainCampaign],
    ads: &[PlainAd],
    query: &PlainQuery,
) -> Vec<Rank> {
    let mut ranks = Vec::new();
    for (position, ad) in ads.iter().enumerate() {
        let campaign = &campaigns[ad.campaign];
        let eligible = campaign.status == Status::Active
            && campaign.start_us <= query.now_us
            && query.now_us < campaign.end_us
            && ad.ecpm_micros >= query.floor_ecpm_micros
            && ad.ecpm_micros >= query.zone_floor_ecpm_micros
            && ad.excluded.is_disjoint(&query.keywords);
        if eligible {
            let matched = ad.keywords.intersection(&query.keywords).count();
            let score = (ad.ecpm_micros as f64 / 1e6) * (1.1 + matched as f64).ln();
            ranks.push(Rank { ad: position, tier: campaign.tier, matched, score });
        }
    }
    ranks.sort_by(|a, b| b.tier.cmp(&a.tier).then(b.score.partial_cmp(&a.score).unwrap()));
    ranks
}

/// One visitor's whole history, never trimmed: (ad, campaign, advertiser, when).
#[derive(Debug, Default)]
pub(crate) struct History(Vec<(usize, usize, usize, i64)>);

impl History {
    /// Goes through `ranking` and shows each ad that holds under all caps of its campaign, up to
    /// `count`: what is promised of caps, one by one.
    pub(crate) fn show(
        &mut self,
        campaigns: &[PlainCampaign],
        ads: &[PlainAd],
        ranking: &[Rank],
        count: usize,
        now_us: i64,
    ) -> Vec<usize> {
        let mut shown = Vec::new();
        for rank in ranking {
            if shown.len() == count {
                break;
            }
            let of = ads[rank.ad].campaign;
            let campaign = &campaigns[of];
            let holds = campaign.caps.iter().all(|&(level, impressions_max, window_us)| {
                let counts = |&&(ad, its, advertiser, at_us): &&(usize, usize, usize, i64)| {
                    let same = match level {
                        CapLevel::Ad => ad == rank.ad,
                        CapLevel::Campaign => its == of,
                        CapLevel::Advertiser => advertiser == campaign.advertiser,
                    };
                    same && now_us - at_us < window_us
                };
                self.0.iter().filter(counts).count() < impressions_max as usize
            });
            if holds {
                self.0.push((rank.ad, of, campaign.advertiser, now_us));
                shown.push(rank.ad);
            }
        }
        shown
    }
}

/// Pearson's statistic for counts that should all be equal.
pub(crate) fn chi_square(counts: &HashMap<String, u32>, kinds: usize) -> f64 {
    let calls: u32 = counts.values().sum();
    let expected = f64::from(calls) / kinds as f64;
    let missing = (kinds - counts.len()) as f64 * expected;
    let off = |&count: &u32| (f64::from(count) - expected).powi(2) / expected;
    counts.values().map(off).sum::<f64>() + missing
}
