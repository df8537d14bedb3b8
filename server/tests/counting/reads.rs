//! Reading what was counted.

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::events::{HotAd, Kind, Partition};
use slotwise_server::ports::{Counts, MinuteQuery, PairRow, Place, Step, Tally};

use crate::Harness;
use crate::steps::{ACCOUNT, Counting, NOW_MIN, NOW_US, impressions, in_time, seen};

pub async fn an_empty_store_has_nothing(harness: &impl Harness) {
    let counting = Counting::on(harness).await;
    assert_eq!(counting.minutes().await, []);
    assert_eq!(counting.pairs().await, []);
    assert_eq!(counting.store.promised_us().await.unwrap(), i64::MIN);
    assert_eq!(counting.store.hot_ads().await.unwrap().entries(), []);
}

fn query(from_min: i64, until_min: i64) -> MinuteQuery {
    MinuteQuery { account: ACCOUNT, ads: None, from_min, until_min }
}

pub async fn minutes_are_cut_where_asked(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let late = Tally { is_late: true, ..seen(4, NOW_MIN + 1) };
    let tallies = vec![seen(1, NOW_MIN), seen(2, NOW_MIN + 1), late, seen(3, NOW_MIN + 2)];
    counting.count(0, tallies).await;
    let rows = counting.store.minutes(&query(NOW_MIN + 1, NOW_MIN + 2)).await.unwrap();
    let mut row = in_time(NOW_MIN + 1, impressions(1));
    row.late = impressions(1);
    assert_eq!(rows, [row]);
    assert_eq!(counting.store.minutes(&query(NOW_MIN, NOW_MIN)).await.unwrap(), []);
}

pub async fn minutes_of_some_ads(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let of = |number, ad| Tally { ad: AdSerial(ad), ..seen(number, NOW_MIN) };
    counting.count(0, vec![of(1, 3), of(2, 4), of(3, 5), of(4, 5)]).await;
    for (ads, expected) in [(vec![], None), (vec![3, 5, 99], Some(3)), (vec![4], Some(1))] {
        let ads = Some(ads.into_iter().map(AdSerial).collect());
        let query = MinuteQuery { ads, ..query(NOW_MIN, NOW_MIN + 1) };
        let rows = counting.store.minutes(&query).await.unwrap();
        let expected: Vec<_> =
            expected.map(|count| in_time(NOW_MIN, impressions(count))).into_iter().collect();
        assert_eq!(rows, expected, "{query:?}");
    }
}

pub async fn accounts_are_apart(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let other = Tally { account: AccountSerial(2), ..seen(1, NOW_MIN) };
    counting.count(0, vec![other, seen(2, NOW_MIN), seen(3, NOW_MIN)]).await;
    assert_eq!(counting.minutes().await, [in_time(NOW_MIN, impressions(2))]);
    let pairs = counting.store.pairs(AccountSerial(2), 0, 2 * NOW_MIN).await.unwrap();
    let pair = PairRow { zone: ZoneSerial(2), ad: AdSerial(3), counts: impressions(1) };
    assert_eq!(pairs, [pair]);
}

pub async fn pairs_are_cut_at_quarters(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let quarter = NOW_MIN / 15 * 15;
    let of = |number, minute, zone, ad| Tally {
        zone: ZoneSerial(zone),
        ad: AdSerial(ad),
        ..seen(number, minute)
    };
    let tallies = vec![
        of(1, quarter - 1, 1, 1),
        of(2, quarter, 2, 9),
        of(3, quarter + 14, 2, 9),
        of(4, quarter + 14, 1, 2),
        of(5, quarter + 15, 1, 1),
    ];
    counting.count(0, tallies).await;
    let pairs = counting.store.pairs(ACCOUNT, quarter, quarter + 15).await.unwrap();
    let pair = |zone, ad, count| PairRow {
        zone: ZoneSerial(zone),
        ad: AdSerial(ad),
        counts: impressions(count),
    };
    assert_eq!(pairs, [pair(1, 2, 1), pair(2, 9, 2)]);
}

pub async fn a_minute_is_the_sum_of_its_partitions(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    for partition in 0..16 {
        let click = Tally { kind: Kind::Click, is_late: true, ..seen(partition, NOW_MIN) };
        let number = u8::try_from(partition).unwrap();
        counting.count(number, vec![seen(100 + partition, NOW_MIN), click]).await;
    }
    let mut row = in_time(NOW_MIN, impressions(16));
    row.late = Counts { clicks: 16, spend_nanos: 80, ..Counts::default() };
    assert_eq!(counting.minutes().await, [row]);
    let counts = Counts { impressions: 16, clicks: 16, conversions: 0, spend_nanos: 160 };
    let pair = PairRow { zone: ZoneSerial(2), ad: AdSerial(3), counts };
    assert_eq!(counting.pairs().await, [pair]);
}

pub async fn the_slowest_partition_promises(harness: &impl Harness) {
    let counting = Counting::on(harness).await;
    for (claim, place) in &counting.claims {
        assert_eq!(counting.store.promised_us().await.unwrap(), i64::MIN);
        let promised_us = NOW_US + i64::from(claim.partition.0);
        let to = Place { promised_us, ..*place };
        let (claim, from) = (*claim, place.position);
        let step = Step { claim, from, to, tallies: vec![], now_us: NOW_US };
        counting.store.count(step).await.unwrap();
    }
    assert_eq!(counting.store.promised_us().await.unwrap(), NOW_US);
    assert_eq!(counting.claims[0].0.partition, Partition(0));
}

pub async fn the_hot_list(harness: &impl Harness) {
    let store = harness.open();
    let hot = |ad, from_ms, until_ms| HotAd { ad: AdSerial(ad), from_ms, until_ms };
    store.put_hot_ad(hot(u32::MAX, 5_000, i64::MAX), 0).await.unwrap();
    store.put_hot_ad(hot(1, 5_000, i64::MAX), 0).await.unwrap();
    // It is over; it comes again; the first time is forgotten.
    store.put_hot_ad(hot(1, 5_000, 9_000), 0).await.unwrap();
    let open = hot(u32::MAX, 5_000, i64::MAX);
    assert_eq!(store.hot_ads().await.unwrap().entries(), [hot(1, 5_000, 9_000), open]);
    let again = hot(1, 20_000, i64::MAX);
    store.put_hot_ad(again, 9_000).await.unwrap();
    assert_eq!(store.hot_ads().await.unwrap().entries(), [hot(1, 5_000, 9_000), again, open]);
    store.put_hot_ad(again, 9_001).await.unwrap();
    assert_eq!(harness.open().hot_ads().await.unwrap().entries(), [again, open]);
}
