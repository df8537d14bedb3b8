//! Which ads have more events than one partition should bear.
//!
//! Each partition looks after the ads that lie in it while they are not hot. Of a hot one a
//! quarter of the events still lies here, so that whoever made it hot also sees it cool down.

use std::collections::HashMap;

use slotwise_core::model::AdSerial;

use crate::events::{HOT_SPREAD, HotAd, HotAds, Partition};
use crate::limits::{HOT_COLD_MINUTES, HOT_EVENTS_PER_MIN, HOT_NOTICE, HOT_TRACKED_MAX};

/// Counts the events of a partition's ads, minute by minute of when the log took them.
///
/// With many ads it counts as Misra and Gries do (1982): an ad's count is never above the truth,
/// and below it by at most the minute's events divided by [`HOT_TRACKED_MAX`].
#[derive(Debug)]
pub struct Heat {
    partition: Partition,
    minute: i64,
    counts: HashMap<AdSerial, u64>,
    /// The ads of the last whole minute, once it is over and until it is asked for.
    last: Option<HashMap<AdSerial, u64>>,
    /// For how many minutes a hot ad has been cold.
    cold: HashMap<AdSerial, u32>,
}

impl Heat {
    /// Nothing is known yet.
    pub fn new(partition: Partition) -> Self {
        let (counts, last, cold) = Default::default();
        Self { partition, minute: i64::MIN, counts, last, cold }
    }

    /// The log has come to `now_us`.
    pub fn reaches(&mut self, now_us: i64) {
        let minute = now_us.div_euclid(60_000_000);
        if minute > self.minute {
            let is_first = self.minute == i64::MIN;
            self.minute = minute;
            let whole = std::mem::take(&mut self.counts);
            self.last = (!is_first).then_some(whole);
        }
    }

    /// Takes an event of `ad`.
    pub fn takes(&mut self, ad: AdSerial) {
        if Partition::of_ad(ad) != self.partition {
            return;
        }
        if let Some(count) = self.counts.get_mut(&ad) {
            *count += 1;
        } else if self.counts.len() < HOT_TRACKED_MAX {
            self.counts.insert(ad, 1);
        } else {
            self.counts.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// Whether a minute is over that [`Self::judge`] has not seen.
    pub fn is_due(&self) -> bool {
        self.last.is_some()
    }

    /// What is to be written to the hot list after the last minute: ads that have become hot, and
    /// hot ones that have been cold for long enough. `now_us` is the clock's.
    pub fn judge(&mut self, list: &HotAds, now_us: i64) -> Vec<HotAd> {
        let Some(last) = self.last.take() else {
            return Vec::new();
        };
        let notice_ms = i64::try_from(HOT_NOTICE.as_millis()).unwrap_or(i64::MAX);
        let then_ms = now_us.div_euclid(1_000).saturating_add(notice_ms);
        let now_ms = now_us.div_euclid(1_000);
        let open: HashMap<_, _> = list
            .entries()
            .iter()
            .filter(|hot| hot.until_ms == i64::MAX && Partition::of_ad(hot.ad) == self.partition)
            .map(|hot| (hot.ad, *hot))
            .collect();
        let mut changes: Vec<_> = last
            .iter()
            .filter(|(ad, count)| **count > HOT_EVENTS_PER_MIN && !open.contains_key(ad))
            .map(|(ad, _)| HotAd { ad: *ad, from_ms: then_ms, until_ms: i64::MAX })
            .collect();
        self.cold.retain(|ad, _| open.contains_key(ad));
        for hot in open.into_values().filter(|hot| hot.from_ms <= now_ms) {
            let events = last.get(&hot.ad).copied().unwrap_or(0).saturating_mul(HOT_SPREAD);
            let minutes = self.cold.entry(hot.ad).or_default();
            *minutes = if events < HOT_EVENTS_PER_MIN / 2 { *minutes + 1 } else { 0 };
            if *minutes >= HOT_COLD_MINUTES {
                changes.push(HotAd { until_ms: then_ms, ..hot });
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: i64 = 60_000_000;

    fn heat() -> Heat {
        let mut heat = Heat::new(Partition::of_ad(AdSerial(7)));
        heat.reaches(0);
        heat
    }

    fn minute(heat: &mut Heat, at: i64, events: u64, list: &HotAds) -> Vec<HotAd> {
        for _ in 0..events {
            heat.takes(AdSerial(7));
        }
        heat.reaches((at + 1) * MIN);
        assert!(heat.is_due());
        heat.judge(list, (at + 1) * MIN)
    }

    #[test]
    fn an_ad_becomes_hot_in_a_minute_and_cold_in_five() {
        let (mut heat, none) = (heat(), HotAds::default());
        assert_eq!(minute(&mut heat, 0, HOT_EVENTS_PER_MIN, &none), []);
        let hot = HotAd { ad: AdSerial(7), from_ms: 180_000, until_ms: i64::MAX };
        assert_eq!(minute(&mut heat, 1, HOT_EVENTS_PER_MIN + 1, &none), [hot]);
        let list = HotAds::new(vec![hot]);
        // A quarter of its events is seen here: it still has more than half of the bound.
        assert_eq!(minute(&mut heat, 2, HOT_EVENTS_PER_MIN / 8 + 1, &list), []);
        for at in 3..7 {
            assert_eq!(minute(&mut heat, at, 0, &list), []);
        }
        let ended = HotAd { until_ms: 9 * 60_000, ..hot };
        assert_eq!(minute(&mut heat, 7, 0, &list), [ended]);
        assert_eq!(minute(&mut heat, 8, 0, &HotAds::new(vec![ended])), []);
    }

    #[test]
    fn other_partitions_ads_are_others_business() {
        let mut heat = heat();
        let other = (0..).map(AdSerial).find(|ad| Partition::of_ad(*ad) != heat.partition).unwrap();
        for _ in 0..=HOT_EVENTS_PER_MIN {
            heat.takes(other);
        }
        heat.reaches(MIN);
        assert_eq!(heat.judge(&HotAds::default(), MIN), []);
    }

    #[test]
    fn it_stays_bounded_and_still_finds_the_hot_one() {
        let mut heat = heat();
        let mine = heat.partition;
        let others: Vec<_> =
            (8..).map(AdSerial).filter(|ad| Partition::of_ad(*ad) == mine).take(40_000).collect();
        for ad in &others {
            heat.takes(*ad);
            for _ in 0..20 {
                heat.takes(AdSerial(7));
            }
        }
        assert!(heat.counts.len() <= HOT_TRACKED_MAX);
        heat.reaches(MIN);
        let found = heat.judge(&HotAds::default(), MIN);
        assert_eq!(found.iter().map(|hot| hot.ad).collect::<Vec<_>>(), [AdSerial(7)]);
    }
}
