//! What every store of profiles must do.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use slotwise_core::model::{
    AccountSerial, AdSerial, AdvertiserId, CampaignSerial, EXPOSURES_PER_ADVERTISER_MAX, Exposure,
    Profile, ZoneSerial,
};
use slotwise_server::limits::HISTORY;
use slotwise_server::ports::{Clock, ProfileStore, VisitorKey};
use tokio::task::JoinSet;

use crate::Harness;

pub(crate) type Store = Arc<dyn ProfileStore>;

/// Long enough that no test fails because the machine is busy.
pub(crate) const WAIT: Duration = Duration::from_secs(10);
pub(crate) const SECOND_US: i64 = 1_000_000;
pub(crate) const DAY_US: i64 = 86_400 * SECOND_US;
/// 2026-11-30T00:00:00Z.
pub(crate) const START_US: i64 = 1_795_996_800 * SECOND_US;

/// A clock that stands where it was set.
struct Manual(AtomicI64);

impl Clock for Manual {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Opens the profiles with the clock at `now_us`.
pub(crate) async fn open(harness: &impl Harness, now_us: i64) -> Store {
    harness.profiles(Arc::new(Manual(AtomicI64::new(now_us)))).await
}

/// A clean stop.
pub(crate) fn close(store: Store) {
    assert_eq!(Arc::strong_count(&store), 1, "somebody still holds the store");
    drop(store);
}

pub(crate) fn visitor(account: u32, visitor: u128) -> VisitorKey {
    VisitorKey { account: AccountSerial(account), visitor }
}

pub(crate) fn exposure(at_us: i64, decision: u64) -> Exposure {
    Exposure {
        at_us,
        life_us: DAY_US,
        is_held: false,
        decision,
        zone: ZoneSerial(1),
        campaign: CampaignSerial(2),
        ad: AdSerial(3),
    }
}

pub(crate) fn x() -> AdvertiserId {
    "x".into()
}

/// Records these exposures of advertiser x; what finds no room is left out.
pub(crate) async fn record(store: &Store, visitor: VisitorKey, exposures: &[Exposure]) {
    let now_us = exposures.last().unwrap().at_us;
    let mut admit = |profile: &mut Profile| {
        for exposure in exposures {
            let _ = profile.record(&x(), *exposure, exposure.at_us);
        }
    };
    store.admit(visitor, now_us, WAIT, &mut admit).await.unwrap();
}

/// Records one more while fewer than `cap` are there; says whether it did.
pub(crate) async fn show(store: &Store, visitor: VisitorKey, cap: usize, decision: u64) -> bool {
    let (mut calls, mut shown) = (0, false);
    let mut admit = |profile: &mut Profile| {
        calls += 1;
        shown = profile.list(&x()).len() < cap;
        if shown {
            profile.record(&x(), exposure(START_US, decision), START_US).unwrap();
        }
    };
    store.admit(visitor, START_US, WAIT, &mut admit).await.unwrap();
    assert_eq!(calls, 1, "called once");
    shown
}

pub(crate) async fn read(store: &Store, visitor: VisitorKey) -> Profile {
    let known = store.read(visitor, START_US, WAIT).await.unwrap();
    assert!(known.is_certain, "nothing is away here");
    known.profile
}

pub(crate) async fn list(store: &Store, visitor: VisitorKey) -> Vec<Exposure> {
    read(store, visitor).await.list(&x()).to_vec()
}

pub(crate) async fn parallel_admits_stop_at_the_cap(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    for round in 0..20 {
        let admit = |decision| {
            let store = Arc::clone(&store);
            async move { show(&store, visitor(1, round), 3, decision).await }
        };
        let admits: JoinSet<_> = (0..64).map(admit).collect();
        let shown = admits.join_all().await.into_iter().filter(|&shown| shown).count();
        assert_eq!(shown, 3, "round {round}");
        assert_eq!(list(&store, visitor(1, round)).await.len(), 3);
    }
}

pub(crate) async fn parallel_admits_of_many_visitors_do_not_mix(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let admit = |n: u64| {
        let store = Arc::clone(&store);
        async move { show(&store, visitor(1, u128::from(n % 64)), 10, n).await }
    };
    let admits: JoinSet<_> = (0..256).map(admit).collect();
    assert!(admits.join_all().await.into_iter().all(|shown| shown));
    for n in 0..64_u64 {
        let mut decisions: Vec<_> = list(&store, visitor(1, n.into())).await;
        decisions.sort_by_key(|seen| seen.decision);
        let decisions: Vec<_> = decisions.iter().map(|seen| seen.decision).collect();
        assert_eq!(decisions, [n, n + 64, n + 128, n + 192]);
    }
}

pub(crate) async fn accounts_are_kept_apart(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    record(&store, visitor(1, 7), &[exposure(START_US, 1)]).await;
    assert_eq!(read(&store, visitor(2, 7)).await, Profile::default());
    record(&store, visitor(2, 7), &[exposure(START_US, 2)]).await;
    close(store);
    let store = open(harness, START_US).await;
    assert_eq!(list(&store, visitor(1, 7)).await, [exposure(START_US, 1)]);
    assert_eq!(list(&store, visitor(2, 7)).await, [exposure(START_US, 2)]);
}

pub(crate) async fn an_admit_that_records_nothing_leaves_nothing(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let mut found = None;
    let mut admit = |profile: &mut Profile| found = Some(profile.clone());
    store.admit(visitor(1, 7), START_US, WAIT, &mut admit).await.unwrap();
    assert_eq!(found, Some(Profile::default()), "an unknown visitor has an empty profile");
    assert_eq!(read(&store, visitor(1, 7)).await, Profile::default());
    record(&store, visitor(1, 8), &[exposure(START_US, 1)]).await;
    store.admit(visitor(1, 8), START_US, WAIT, &mut |_: &mut Profile| {}).await.unwrap();
    assert_eq!(list(&store, visitor(1, 8)).await.len(), 1, "nor does it take anything away");
    close(store);
    let store = open(harness, START_US).await;
    assert_eq!(read(&store, visitor(1, 7)).await, Profile::default());
    assert_eq!(list(&store, visitor(1, 8)).await.len(), 1);
}

pub(crate) async fn read_sees_what_admit_recorded(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let y = AdvertiserId::from("y");
    let mut admit = |profile: &mut Profile| {
        profile.record(&x(), exposure(START_US, 1), START_US).unwrap();
        profile.record(&y, exposure(START_US, 1), START_US).unwrap();
        profile.record(&x(), exposure(START_US, 2), START_US).unwrap();
    };
    store.admit(visitor(1, 7), START_US, WAIT, &mut admit).await.unwrap();
    let profile = read(&store, visitor(1, 7)).await;
    assert_eq!(profile.list(&x()), [exposure(START_US, 1), exposure(START_US, 2)]);
    assert_eq!(profile.list(&y), [exposure(START_US, 1)]);
    assert_eq!(profile.lists().count(), 2);
}

pub(crate) async fn admit_sees_what_earlier_ones_recorded(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    for decision in 0..10 {
        assert!(show(&store, visitor(1, 7), 10, decision).await);
    }
    assert!(!show(&store, visitor(1, 7), 10, 10).await);
    close(store);
    let store = open(harness, START_US).await;
    assert!(!show(&store, visitor(1, 7), 10, 11).await, "nor after reopening");
    assert!(show(&store, visitor(1, 7), 11, 12).await);
}

/// Opened beside the first, which is still running: as after its sudden death.
pub(crate) async fn what_was_flushed_is_durable(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let shown: Vec<_> = (0..5).map(|n| exposure(START_US + n, n.unsigned_abs())).collect();
    for n in 0..100 {
        record(&store, visitor(1, n), &shown).await;
    }
    store.flush().await.unwrap();
    let beside = open(harness, START_US + SECOND_US).await;
    for n in 0..100 {
        assert_eq!(list(&beside, visitor(1, n)).await, shown, "visitor {n}");
    }
    store.flush().await.unwrap();
}

pub(crate) async fn many_may_flush_at_once(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let flush = |n: u64| {
        let store = Arc::clone(&store);
        async move {
            record(&store, visitor(1, n.into()), &[exposure(START_US, n)]).await;
            store.flush().await
        }
    };
    let flushes: JoinSet<_> = (0..500).map(flush).collect();
    let refused: Vec<_> = flushes.join_all().await.into_iter().filter_map(Result::err).collect();
    assert!(refused.is_empty(), "{} of 500, e.g. {:?}", refused.len(), refused[0]);
    let beside = open(harness, START_US).await;
    for n in 0..500 {
        assert_eq!(list(&beside, visitor(1, n)).await.len(), 1);
    }
}

pub(crate) async fn a_clean_stop_loses_nothing(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let of = |n: u128| [exposure(START_US, 1), exposure(START_US + i64::try_from(n).unwrap(), 2)];
    let ids = || (0..500).chain([u128::MAX, u128::MAX - 1]).map(|id| id % u128::from(u64::MAX));
    for n in ids() {
        record(&store, visitor(1, n), &of(n % 500)).await;
    }
    close(store);
    let store = open(harness, START_US + SECOND_US).await;
    for n in ids() {
        assert_eq!(list(&store, visitor(1, n)).await, of(n % 500), "visitor {n}");
    }
}

pub(crate) async fn reopening_twice_doubles_nothing(harness: &impl Harness) {
    let shown: Vec<_> = (0..4).map(|n| exposure(START_US + n, n.unsigned_abs())).collect();
    let mut store = open(harness, START_US).await;
    record(&store, visitor(1, 7), &shown).await;
    for round in 1..=2 {
        close(store);
        store = open(harness, START_US + round * SECOND_US).await;
        assert_eq!(list(&store, visitor(1, 7)).await, shown, "round {round}");
        // The same showings told again are the same ones.
        record(&store, visitor(1, 7), &shown).await;
        assert_eq!(list(&store, visitor(1, 7)).await, shown, "round {round}");
    }
}

const FLOOD: i64 = 100_000;

/// Records one showing for each microsecond, each of which lives for `life_us`.
async fn flood(store: &Store, life_us: i64) {
    let shown = |n: i64| Exposure { life_us, ..exposure(START_US + n, n.unsigned_abs()) };
    let shown: Vec<_> = (0..FLOOD).map(shown).collect();
    for part in shown.chunks(1_000) {
        record(store, visitor(1, 7), part).await;
        assert!(list(store, visitor(1, 7)).await.len() <= EXPOSURES_PER_ADVERTISER_MAX);
    }
}

pub(crate) async fn a_list_of_live_exposures_stays_at_its_bound(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    flood(&store, DAY_US).await;
    let full = list(&store, visitor(1, 7)).await;
    let decisions = full.iter().map(|seen| seen.decision);
    assert!(decisions.eq(0..EXPOSURES_PER_ADVERTISER_MAX as u64), "none was evicted");
    close(store);
    let store = open(harness, START_US + FLOOD).await;
    assert_eq!(list(&store, visitor(1, 7)).await, full);
}

pub(crate) async fn a_list_makes_room_for_new_exposures_and_stays_at_its_bound(
    harness: &impl Harness,
) {
    const LIFE_US: i64 = 150;
    let store = open(harness, START_US).await;
    flood(&store, LIFE_US).await;
    let now_us = START_US + FLOOD - 1;
    let live = |profile: &Profile| profile.count(&x(), LIFE_US, now_us, |_| true);
    assert_eq!(live(&read(&store, visitor(1, 7)).await), 150);
    close(store);
    let store = open(harness, now_us).await;
    let profile = read(&store, visitor(1, 7)).await;
    assert!(profile.list(&x()).len() <= EXPOSURES_PER_ADVERTISER_MAX);
    assert_eq!(live(&profile), 150, "all that still count, and none twice");
}

/// So many bytes that a store which keeps a journal has compacted it meanwhile.
pub(crate) async fn a_long_history_is_kept_whole(harness: &impl Harness) {
    const VISITORS: u128 = 2_000;
    const SHOWN: i64 = 195;
    let advertiser = AdvertiserId::from("a".repeat(128).as_str());
    let store = open(harness, START_US).await;
    let show = async |from: i64, to: i64| {
        for n in 0..VISITORS {
            let mut admit = |profile: &mut Profile| {
                for at in from..to {
                    let shown = exposure(START_US + at, at.unsigned_abs());
                    profile.record(&advertiser, shown, START_US + at).unwrap();
                }
            };
            store.admit(visitor(1, n), START_US + to, WAIT, &mut admit).await.unwrap();
        }
        store.flush().await.unwrap();
    };
    show(0, SHOWN / 2).await;
    show(SHOWN / 2, SHOWN).await;
    show(SHOWN, SHOWN + 1).await;
    close(store);
    let store = open(harness, START_US + SECOND_US).await;
    for n in 0..VISITORS {
        let profile = read(&store, visitor(1, n)).await;
        let decisions = profile.list(&advertiser).iter().map(|seen| seen.decision);
        assert!(decisions.eq(0..=SHOWN.unsigned_abs()), "visitor {n}");
        assert_eq!(profile.lists().count(), 1);
    }
}

pub(crate) async fn exposures_older_than_the_history_are_gone_after_reopening(
    harness: &impl Harness,
) {
    let history_us = i64::try_from(HISTORY.as_micros()).unwrap();
    assert_eq!(history_us, 30 * DAY_US);
    let store = open(harness, START_US).await;
    let old = Exposure { life_us: history_us, ..exposure(START_US, 1) };
    let newer = Exposure { life_us: history_us, ..exposure(START_US + 2 * SECOND_US, 2) };
    record(&store, visitor(1, 7), &[old]).await;
    record(&store, visitor(1, 8), &[old, newer]).await;
    close(store);

    let store = open(harness, START_US + history_us - 1).await;
    assert_eq!(list(&store, visitor(1, 7)).await, [old], "a cap may still ask for it");
    close(store);
    let store = open(harness, START_US + history_us + SECOND_US).await;
    assert_eq!(read(&store, visitor(1, 7)).await, Profile::default());
    assert_eq!(list(&store, visitor(1, 8)).await, [newer]);
}
