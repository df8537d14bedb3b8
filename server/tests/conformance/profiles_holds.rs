//! What every store of profiles must do with places that are held until their impression.

use slotwise_core::model::{AccountSerial, EXPOSURES_PER_ADVERTISER_MAX, Exposure};
use tokio::task::JoinSet;

use crate::Harness;
use crate::profiles::{
    DAY_US, SECOND_US, START_US, close, exposure, list, open, read, record, visitor, x,
};

const HOLD_US: i64 = 60 * SECOND_US;

/// A place that is held for a minute.
fn held(at_us: i64, decision: u64) -> Exposure {
    Exposure { life_us: HOLD_US, is_held: true, ..exposure(at_us, decision) }
}

pub(crate) async fn an_impression_makes_a_hold_permanent_once(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let who = visitor(1, 7);
    record(&store, who, &[held(START_US, 1), held(START_US, 2)]).await;
    assert_eq!(list(&store, who).await, [held(START_US, 1), held(START_US, 2)]);
    for _ in 0..3 {
        store.confirm(who, &x(), exposure(START_US, 1), START_US + 5).await.unwrap();
    }
    store.flush().await.unwrap();
    assert_eq!(list(&store, who).await, [exposure(START_US, 1), held(START_US, 2)]);
    // A hold that is told late changes nothing.
    record(&store, who, &[held(START_US, 1)]).await;
    store.flush().await.unwrap();
    assert_eq!(list(&store, who).await, [exposure(START_US, 1), held(START_US, 2)]);
}

pub(crate) async fn an_impression_without_a_hold_is_added_once(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let who = visitor(1, 7);
    for _ in 0..3 {
        store.confirm(who, &x(), exposure(START_US, 1), START_US).await.unwrap();
    }
    store.flush().await.unwrap();
    assert_eq!(list(&store, who).await, [exposure(START_US, 1)]);
    assert!(read(&store, visitor(2, 7)).await.is_empty(), "of another account");
}

pub(crate) async fn a_loss_frees_a_hold_and_nothing_else(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let who = visitor(1, 7);
    record(&store, who, &[held(START_US, 1), held(START_US, 2), exposure(START_US, 3)]).await;
    for lost in [1, 3, 4] {
        store.release(who, &x(), exposure(START_US, lost), START_US).await.unwrap();
    }
    store.release(who, &"y".into(), exposure(START_US, 2), START_US).await.unwrap();
    store.release(visitor(2, 7), &x(), exposure(START_US, 2), START_US).await.unwrap();
    assert_eq!(list(&store, who).await, [held(START_US, 2), exposure(START_US, 3)]);
    // What is seen all the same counts, and a loss after it changes nothing.
    store.confirm(who, &x(), exposure(START_US, 1), START_US).await.unwrap();
    store.release(who, &x(), exposure(START_US, 1), START_US).await.unwrap();
    let all = [held(START_US, 2), exposure(START_US, 3), exposure(START_US, 1)];
    assert_eq!(list(&store, who).await, all);
}

pub(crate) async fn holds_and_what_became_of_them_survive_reopening(harness: &impl Harness) {
    let who = visitor(1, 7);
    let all = [held(START_US, 1), exposure(START_US, 2)];
    let store = open(harness, START_US).await;
    record(&store, who, &[held(START_US, 1), held(START_US, 2), held(START_US, 3)]).await;
    store.flush().await.unwrap();
    store.confirm(who, &x(), exposure(START_US, 2), START_US).await.unwrap();
    store.release(who, &x(), held(START_US, 3), START_US).await.unwrap();
    assert_eq!(list(&store, who).await, all);
    close(store);
    for _ in 0..2 {
        let store = open(harness, START_US).await;
        assert_eq!(list(&store, who).await, all);
        close(store);
    }
    // Its time is over, and it makes room.
    let store = open(harness, START_US + HOLD_US).await;
    record(&store, who, &[exposure(START_US + HOLD_US, 9)]).await;
    let live = list(&store, who).await;
    let counted = live.iter().filter(|seen| !seen.is_held).count();
    assert_eq!(counted, 2);
}

pub(crate) async fn holds_that_are_over_make_room(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let who = visitor(1, 7);
    let all: Vec<_> = (0..EXPOSURES_PER_ADVERTISER_MAX as u64).map(|n| held(START_US, n)).collect();
    record(&store, who, &all).await;
    record(&store, who, &[held(START_US + 1, 999)]).await;
    store.flush().await.unwrap();
    assert_eq!(list(&store, who).await, all, "each of them still counts");
    close(store);
    let store = open(harness, START_US + HOLD_US).await;
    record(&store, who, &[exposure(START_US + HOLD_US, 1_000)]).await;
    store.flush().await.unwrap();
    let last = list(&store, who).await.pop();
    assert_eq!(last, Some(exposure(START_US + HOLD_US, 1_000)));
}

pub(crate) async fn an_impression_of_before_a_forget_makes_nobody_anew(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let (who, other) = (visitor(1, 7), visitor(1, 8));
    record(&store, who, &[held(START_US, 1)]).await;
    record(&store, other, &[held(START_US, 2)]).await;
    store.flush().await.unwrap();
    let account = Some(AccountSerial(1));
    store.forget(7, account, START_US + SECOND_US).await.unwrap();
    let late_us = START_US + 2 * SECOND_US;
    store.confirm(who, &x(), exposure(START_US, 1), late_us).await.unwrap();
    store.confirm(who, &x(), exposure(START_US, 5), late_us).await.unwrap();
    store.confirm(other, &x(), exposure(START_US, 2), late_us).await.unwrap();
    store.flush().await.unwrap();
    assert!(read(&store, who).await.is_empty());
    close(store);
    // Nor after a restart.
    let store = open(harness, late_us).await;
    store.confirm(who, &x(), exposure(START_US, 1), late_us).await.unwrap();
    store.flush().await.unwrap();
    assert!(read(&store, who).await.is_empty());
    assert_eq!(list(&store, other).await, [exposure(START_US, 2)]);
    // What is shown later is another visit.
    store.confirm(who, &x(), exposure(late_us, 3), late_us).await.unwrap();
    store.flush().await.unwrap();
    assert_eq!(list(&store, who).await, [exposure(late_us, 3)]);
}

/// However events and decisions fall together, each showing is there at most once, and one that
/// was seen is there for good.
pub(crate) async fn parallel_impressions_and_losses_settle_each_showing_once(
    harness: &impl Harness,
) {
    let store = open(harness, START_US).await;
    let mut settling = JoinSet::new();
    for n in 0..60_u64 {
        let store = store.clone();
        settling.spawn(async move {
            let who = visitor(1, 7);
            record(&store, who, &[held(START_US, n)]).await;
            match n % 3 {
                0 => {
                    for _ in 0..2 {
                        store.confirm(who, &x(), exposure(START_US, n), START_US).await.unwrap();
                    }
                    store.release(who, &x(), held(START_US, n), START_US).await.unwrap();
                }
                1 => store.release(who, &x(), held(START_US, n), START_US).await.unwrap(),
                _ => {}
            }
        });
    }
    settling.join_all().await;
    store.flush().await.unwrap();
    let mut seen = list(&store, visitor(1, 7)).await;
    seen.sort_by_key(|seen| seen.decision);
    let expected: Vec<_> = (0..60)
        .filter(|n| n % 3 != 1)
        .map(|n| if n % 3 == 0 { exposure(START_US, n) } else { held(START_US, n) })
        .collect();
    assert_eq!(seen, expected);
    const _: () = assert!(HOLD_US < DAY_US);
}
