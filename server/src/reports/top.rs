//! The ads with most events in the last minutes.

use std::collections::HashMap;
use std::sync::Arc;

use slotwise_core::model::{AccountSerial, AdSerial};

use super::stats::unknown;
use super::{MINUTE_US, QUARTER_MIN};
use crate::events::Kind;
use crate::ports::{CountReader, Counts, MinuteQuery, StoreError};
use crate::serials::Serials;

/// Which ads are asked for.
#[derive(Clone, Copy, Debug)]
pub struct TopQuery {
    /// Whose.
    pub account: AccountSerial,
    /// Which events count.
    pub kind: Kind,
    /// How many ads at most.
    pub count: usize,
    /// How many minutes back, the present one included.
    pub minutes: i64,
    /// The present, in microseconds of Unix time.
    pub now_us: i64,
}

/// An ad with its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopAd {
    /// Its campaign.
    pub campaign: Arc<str>,
    /// Its name there.
    pub unit: Arc<str>,
    /// Of the asked kind, late ones included.
    pub events: u64,
}

/// The ads with most events, most first; of equal ones in order of their names. Candidates are
/// those with most events in the quarters of an hour that the minutes touch, so that an ad which
/// had its events just before may take the place of another; the numbers are of the minutes.
///
/// # Errors
/// When the store does not answer.
pub async fn top(
    counts: &dyn CountReader,
    serials: &Serials,
    query: TopQuery,
) -> Result<Vec<TopAd>, StoreError> {
    let until_min = query.now_us.div_euclid(MINUTE_US) + 1;
    let from_min = until_min - query.minutes;
    let quarters = (
        from_min.div_euclid(QUARTER_MIN) * QUARTER_MIN,
        until_min.div_euclid(QUARTER_MIN) * QUARTER_MIN + QUARTER_MIN,
    );
    // An ad that was made again bears one name and has several numbers.
    let mut candidates: HashMap<[Arc<str>; 2], (u64, Vec<AdSerial>)> = HashMap::new();
    for pair in counts.pairs(query.account, quarters.0, quarters.1).await? {
        let name = match serials.ad(pair.ad) {
            Some(ad) => [ad.campaign.as_str().into(), ad.unit.as_str().into()],
            None => unknown(pair.ad.0),
        };
        let (events, ads) = candidates.entry(name).or_default();
        *events = events.saturating_add(of_kind(query.kind, pair.counts));
        if !ads.contains(&pair.ad) {
            ads.push(pair.ad);
        }
    }
    let mut candidates: Vec<_> = candidates.into_iter().collect();
    candidates.sort_by(|(a, (most, _)), (b, (more, _))| more.cmp(most).then_with(|| a.cmp(b)));
    candidates.truncate(query.count);
    let mut ads = Vec::with_capacity(candidates.len());
    for ([campaign, unit], (_, serials)) in candidates {
        let minutes =
            MinuteQuery { account: query.account, ads: Some(serials), from_min, until_min };
        let rows = counts.minutes(&minutes).await?;
        let sum =
            rows.iter().fold(Counts::default(), |sum, row| sum.plus(row.counts).plus(row.late));
        ads.push(TopAd { campaign, unit, events: of_kind(query.kind, sum) });
    }
    ads.retain(|ad| ad.events > 0);
    ads.sort_by(|a, b| {
        let names = || (&a.campaign, &a.unit).cmp(&(&b.campaign, &b.unit));
        b.events.cmp(&a.events).then_with(names)
    });
    Ok(ads)
}

fn of_kind(kind: Kind, counts: Counts) -> u64 {
    match kind {
        Kind::Impression => counts.impressions,
        Kind::Click => counts.clicks,
        Kind::Conversion => counts.conversions,
    }
}
