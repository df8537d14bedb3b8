//! Who counts what.

use std::collections::BTreeSet;

use slotwise_server::events::Partition;
use slotwise_server::ports::{Claim, CountError, CountStore, Place, Position, Step};

use crate::Harness;
use crate::steps::{Counting, NOW_MIN, NOW_US, impressions, in_time, seen};

const SIX_SECONDS_US: i64 = 6_000_000;

fn partitions(claims: &[(Claim, Place)]) -> BTreeSet<Partition> {
    claims.iter().map(|(claim, _)| claim.partition).collect()
}

/// What each has after they have called twice.
async fn shares(store: &dyn CountStore, names: &[&str], now_us: i64) -> Vec<BTreeSet<Partition>> {
    for name in names {
        store.claim(name, now_us).await.unwrap();
    }
    let mut shares = Vec::new();
    for _ in 0..2 {
        shares.clear();
        for name in names {
            shares.push(partitions(&store.claim(name, now_us).await.unwrap()));
        }
    }
    shares
}

pub async fn counters_share_the_partitions(harness: &impl Harness) {
    let store = harness.open();
    assert_eq!(partitions(&store.claim("a", NOW_US).await.unwrap()).len(), 16);
    let two = shares(&*store, &["a", "b"], NOW_US).await;
    assert_eq!(two[0].union(&two[1]).count(), 16, "{two:?}");
    assert!(two[0].is_disjoint(&two[1]) && two[0].len() == 8, "{two:?}");
    let three = shares(&*store, &["a", "b", "c"], NOW_US).await;
    assert_eq!(three.iter().map(BTreeSet::len).sum::<usize>(), 16, "{three:?}");
    assert_eq!(three.iter().flatten().collect::<BTreeSet<_>>().len(), 16, "{three:?}");
    assert!(three.iter().all(|share| (4..=7).contains(&share.len())), "{three:?}");
}

pub async fn a_counter_that_is_silent_loses_its_partitions(harness: &impl Harness) {
    let store = harness.open();
    store.claim("a", NOW_US).await.unwrap();
    assert_eq!(store.claim("b", NOW_US).await.unwrap(), []);
    harness.six_seconds_pass();
    let claims = store.claim("b", NOW_US + SIX_SECONDS_US).await.unwrap();
    assert_eq!(partitions(&claims).len(), 16);
}

pub async fn a_counter_that_stops_leaves_at_once(harness: &impl Harness) {
    let store = harness.open();
    store.claim("a", NOW_US).await.unwrap();
    store.release("a").await.unwrap();
    assert_eq!(partitions(&store.claim("b", NOW_US).await.unwrap()).len(), 16);
}

/// It was stopped, others have gone on, and it wakes up.
pub async fn whoever_lost_a_partition_is_fenced(harness: &impl Harness) {
    let mut zombie = Counting::on(harness).await;
    zombie.count(0, vec![seen(1, NOW_MIN)]).await;
    harness.six_seconds_pass();
    let now_us = NOW_US + SIX_SECONDS_US;
    let claims = zombie.store.claim("two", now_us).await.unwrap();
    // Before the other has counted anything, and after.
    for number in [2, 3] {
        let step = zombie.step(0, vec![seen(number, NOW_MIN)]);
        let step = Step { from: Position(1), ..step };
        let refused = zombie.store.count(step).await;
        assert!(matches!(refused, Err(CountError::Fenced)), "{refused:?}");
        let rows = zombie.minutes().await;
        assert_eq!(rows, [in_time(NOW_MIN, impressions(number - 1))]);
        let (claim, place) = claims[0];
        assert_eq!((claim.partition, place.position), (Partition(0), Position(1)));
        if number == 2 {
            let to = Place { position: Position(2), ..place };
            let tallies = vec![seen(2, NOW_MIN)];
            let step = Step { claim, from: place.position, to, tallies, now_us };
            assert_eq!(zombie.store.count(step).await.unwrap().new, 1);
        }
    }
}

pub async fn a_renewal_keeps_the_epochs(harness: &impl Harness) {
    let store = harness.open();
    let first = store.claim("a", NOW_US).await.unwrap();
    assert_eq!(store.claim("a", NOW_US + 1).await.unwrap(), first);
    store.release("a").await.unwrap();
    let second = store.claim("a", NOW_US + 2).await.unwrap();
    let grown = first.iter().zip(&second).all(|((old, _), (new, _))| new.epoch > old.epoch);
    assert!(grown, "{second:?}");
}
