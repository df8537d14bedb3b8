//! Forgetting ids.

use slotwise_server::events::Partition;
use slotwise_server::ports::{CountStore, IdLife, SweepAt, Tally};

use crate::Harness;
use crate::steps::{Counting, NOW_MIN, NOW_US, seen};

const MIN_US: i64 = 60_000_000;
const DAY_US: i64 = 86_400 * 1_000_000;

/// A whole sweep, and in how many steps.
async fn sweep(store: &dyn CountStore, life: IdLife, now_us: i64, rows_max: usize) -> (u64, u32) {
    let mut at = SweepAt { partition: Partition(0), life, after: None };
    let (mut gone, mut steps) = (0, 0);
    loop {
        let swept = store.sweep(at, now_us, rows_max).await.unwrap();
        (gone, steps) = (gone + swept.gone, steps + 1);
        if swept.next.is_none() {
            return (gone, steps);
        }
        at.after = swept.next;
    }
}

pub async fn ids_are_forgotten_after_their_life(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let order = Tally { life: IdLife::Conversion, ..seen(2, NOW_MIN) };
    counting.count(0, vec![seen(1, NOW_MIN), order]).await;
    let store = &*counting.store;
    let (short, long) = (IdLife::Short, IdLife::Conversion);
    // At ten minutes it is still known: lives are told by the minute.
    assert_eq!(sweep(store, short, NOW_US + 10 * MIN_US - 1, 100).await.0, 0);
    assert_eq!(sweep(store, long, NOW_US + 35 * DAY_US - 1, 100).await.0, 0);
    let counted = counting.count(0, vec![seen(1, NOW_MIN), order]).await;
    assert_eq!((counted.new, counted.repeats), (0, 2));
    let store = &*counting.store;
    assert_eq!(sweep(store, short, NOW_US + 11 * MIN_US, 100).await.0, 1);
    assert_eq!(sweep(store, long, NOW_US + 35 * DAY_US + MIN_US, 100).await.0, 1);
    let counted = counting.count(0, vec![seen(1, NOW_MIN), order]).await;
    assert_eq!(counted.new, 2);
}

/// Issued long ago and counted now: it must stay, and what is behind it must go all the same.
pub async fn a_sweep_goes_in_steps(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let old = |number| seen(number, NOW_MIN);
    counting.count(0, (0..1_000).map(|n| old(2 * n)).collect()).await;
    let later_us = NOW_US + 11 * MIN_US;
    let mut step = counting.step(0, (0..1_000).map(|n| old(2 * n + 1)).collect());
    step.now_us = later_us;
    counting.store.count(step).await.unwrap();
    counting.count(1, vec![old(5_000)]).await;
    let (gone, steps) = sweep(&*counting.store, IdLife::Short, later_us, 100).await;
    assert_eq!(gone, 1_000);
    assert!((20..=21).contains(&steps), "{steps}");
    let counted = counting.count(0, (0..2_000).map(old).collect()).await;
    assert_eq!((counted.new, counted.repeats), (1_000, 1_000));
    let counted = counting.count(1, vec![old(5_000)]).await;
    assert_eq!(counted.repeats, 1, "another partition's ids are not this sweep's");
}

pub async fn lines_of_files_are_remembered_for_good(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let line = Tally { life: IdLife::ForGood, ..seen(1, NOW_MIN) };
    counting.count(0, vec![line]).await;
    let years_later = NOW_US + 3_650 * DAY_US;
    for life in [IdLife::ForGood, IdLife::Short, IdLife::Conversion] {
        assert_eq!(sweep(&*counting.store, life, years_later, 100).await, (0, 1));
    }
    assert_eq!(counting.count(0, vec![line]).await.repeats, 1);
}
