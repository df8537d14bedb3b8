//! What every store of profiles must do for one visitor: segments, and being forgotten.

use std::sync::Arc;

use slotwise_core::model::{
    AccountSerial, AdvertiserId, Exposure, Profile, SEGMENTS_IN_PROFILE_MAX, Segment,
};
use slotwise_server::ports::{SegmentsChange, StoreError, VisitorKey};
use tokio::task::JoinSet;

use crate::Harness;
use crate::profiles::{
    DAY_US, SECOND_US, START_US, Store, WAIT, close, exposure, list, open, read, record, show,
    visitor, x,
};

fn segment(name: &str, life_us: i64) -> Segment {
    Segment { name: name.to_owned(), expires_us: START_US + life_us }
}

fn adding(add: &[Segment]) -> SegmentsChange {
    SegmentsChange { add: add.to_vec(), remove: Vec::new() }
}

fn removing(names: &[&str]) -> SegmentsChange {
    let remove = names.iter().map(ToString::to_string).collect();
    SegmentsChange { add: Vec::new(), remove }
}

async fn add(store: &Store, visitor: VisitorKey, add: &[Segment]) -> Profile {
    store.update_segments(visitor, START_US, adding(add)).await.unwrap()
}

async fn read_at(store: &Store, visitor: VisitorKey, now_us: i64) -> Profile {
    store.read(visitor, now_us, WAIT).await.unwrap().profile
}

/// Forgets at [`START_US`]; returns whether anything was held. The node has followed then.
async fn forget(store: &Store, visitor: u128, account: Option<u32>) -> bool {
    let account = account.map(AccountSerial);
    let forgotten = store.forget(visitor, account, START_US).await.unwrap();
    let mut forgets = store.forgets();
    let followed = forgets.wait_for(|number| *number >= forgotten.number);
    tokio::time::timeout(WAIT, followed).await.expect("the node follows").unwrap();
    forgotten.held_something
}

pub(crate) async fn segments_are_added_renewed_and_removed(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    record(&store, visitor(1, 7), &[exposure(START_US, 1)]).await;
    let all = [segment("b/2", DAY_US), segment("a/1", DAY_US), segment("c/3", 2 * DAY_US)];
    let profile = add(&store, visitor(1, 7), &all).await;
    let sorted = [segment("a/1", DAY_US), segment("b/2", DAY_US), segment("c/3", 2 * DAY_US)];
    assert_eq!(profile.segments(), sorted, "in order of their names");
    assert_eq!(profile.list(&x()), [exposure(START_US, 1)], "the whole profile is returned");
    assert_eq!(read(&store, visitor(1, 7)).await, profile);

    let change = SegmentsChange {
        add: vec![segment("b/2", 3 * DAY_US)],
        remove: vec!["a/1".into(), "z/0".into()],
    };
    let profile = store.update_segments(visitor(1, 7), START_US + 1, change).await.unwrap();
    assert_eq!(profile.segments(), [segment("b/2", 3 * DAY_US), segment("c/3", 2 * DAY_US)]);
    assert_eq!(read(&store, visitor(1, 7)).await, profile);
    let profile = add(&store, visitor(1, 7), &[segment("b/2", DAY_US)]).await;
    assert_eq!(profile.segments()[0], segment("b/2", DAY_US), "a life may become shorter");

    let names = removing(&["b/2", "c/3"]);
    let profile = store.update_segments(visitor(1, 7), START_US, names).await.unwrap();
    assert!(profile.segments().is_empty());
    assert_eq!(list(&store, visitor(1, 7)).await.len(), 1, "showings stay");
    let nobody = store.update_segments(visitor(1, 8), START_US, removing(&["b/2"])).await.unwrap();
    assert_eq!(nobody, Profile::default());
}

pub(crate) async fn segments_lapse_at_their_time(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    add(&store, visitor(1, 7), &[segment("a/1", SECOND_US), segment("b/2", DAY_US)]).await;
    let of = async |now_us| {
        let profile = read_at(&store, visitor(1, 7), now_us).await;
        profile.segments().iter().map(|segment| segment.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(START_US + SECOND_US - 1).await, ["a/1", "b/2"]);
    assert_eq!(of(START_US + SECOND_US).await, ["b/2"]);
    assert!(of(START_US + DAY_US).await.is_empty());
    // A change later than that does not bring it back.
    let later_us = START_US + SECOND_US;
    let change = adding(&[segment("c/3", DAY_US)]);
    let profile = store.update_segments(visitor(1, 7), later_us, change).await.unwrap();
    assert_eq!(profile.segments(), [segment("b/2", DAY_US), segment("c/3", DAY_US)]);
}

pub(crate) async fn segments_survive_reopening(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    for n in 0..50 {
        let name = format!("many/{n:02}");
        add(&store, visitor(1, 7), &[segment(&name, DAY_US + n), segment("a/1", DAY_US)]).await;
    }
    let all = read(&store, visitor(1, 7)).await;
    assert_eq!(all.segments().len(), 51);
    add(&store, visitor(1, 8), &[segment("gone/1", DAY_US)]).await;
    store.update_segments(visitor(1, 8), START_US, removing(&["gone/1"])).await.unwrap();

    // Opened beside the first, which is still running: as after its sudden death. Nobody flushed.
    let beside = open(harness, START_US).await;
    assert_eq!(read(&beside, visitor(1, 7)).await, all);
    assert_eq!(read(&beside, visitor(1, 8)).await, Profile::default());
    close(beside);
    close(store);
    let store = open(harness, START_US + DAY_US).await;
    let left = read_at(&store, visitor(1, 7), START_US + DAY_US).await;
    assert_eq!(left.segments().len(), 49, "a/1 and the first have lapsed meanwhile");
    assert_eq!(left.segments()[0], segment("many/01", DAY_US + 1));
}

pub(crate) async fn a_visitor_has_at_most_256_segments(harness: &impl Harness) {
    assert_eq!(SEGMENTS_IN_PROFILE_MAX, 256);
    let store = open(harness, START_US).await;
    let all: Vec<_> =
        (0..256).map(|n| segment(&format!("f/{n:03}"), if n == 0 { 1 } else { DAY_US })).collect();
    let full = add(&store, visitor(1, 7), &all).await;
    assert_eq!(full.segments(), all);
    let change = SegmentsChange { add: vec![segment("g/1", DAY_US)], remove: vec!["h/1".into()] };
    let refused = store.update_segments(visitor(1, 7), START_US, change.clone()).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert_eq!(read(&store, visitor(1, 7)).await, full, "nothing has changed");

    let renewed = add(&store, visitor(1, 7), &[segment("f/001", 2 * DAY_US)]).await;
    assert_eq!(renewed.segments().len(), 256, "what is there takes no room");
    let swap = SegmentsChange { remove: vec!["f/255".into()], ..change };
    let swapped = store.update_segments(visitor(1, 7), START_US, swap).await.unwrap();
    assert_eq!(swapped.segments().last(), Some(&segment("g/1", DAY_US)));
    let change = adding(&[segment("g/2", DAY_US)]);
    let later = store.update_segments(visitor(1, 7), START_US + 1, change).await.unwrap();
    assert_eq!(later.segments().len(), 256, "the first has lapsed and made room");
    assert_eq!(later.segments()[0], segment("f/001", 2 * DAY_US));
}

pub(crate) async fn segments_of_two_accounts_are_apart(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    add(&store, visitor(1, 7), &[segment("a/1", DAY_US)]).await;
    assert_eq!(read(&store, visitor(2, 7)).await, Profile::default());
    add(&store, visitor(2, 7), &[segment("b/2", DAY_US)]).await;
    store.update_segments(visitor(1, 7), START_US, removing(&["b/2"])).await.unwrap();
    assert_eq!(read(&store, visitor(1, 7)).await.segments(), [segment("a/1", DAY_US)]);
    assert_eq!(read(&store, visitor(2, 7)).await.segments(), [segment("b/2", DAY_US)]);
}

pub(crate) async fn parallel_changes_of_segments_lose_none(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let change = |n: i64| {
        let store = Arc::clone(&store);
        async move {
            let name = format!("f/{n:02}");
            let profile = add(&store, visitor(1, 7), &[segment(&name, DAY_US)]).await;
            assert!(profile.segments().iter().any(|segment| segment.name == name));
        }
    };
    let changes: JoinSet<_> = (0..64).map(change).collect();
    changes.join_all().await;
    let names: Vec<_> = (0..64).map(|n| segment(&format!("f/{n:02}"), DAY_US)).collect();
    assert_eq!(read(&store, visitor(1, 7)).await.segments(), names);
}

/// Showings and a segment of visitor 7 in accounts 1 and 2, and of visitor 8 in account 1.
async fn three_profiles(store: &Store) {
    for of in [visitor(1, 7), visitor(2, 7), visitor(1, 8)] {
        record(store, of, &[exposure(START_US - 1, 1), exposure(START_US, 2)]).await;
        add(store, of, &[segment("a/1", DAY_US)]).await;
    }
}

async fn is_whole(store: &Store, of: VisitorKey) -> bool {
    let profile = read(store, of).await;
    profile.list(&x()) == [exposure(START_US - 1, 1), exposure(START_US, 2)]
        && profile.segments() == [segment("a/1", DAY_US)]
}

pub(crate) async fn a_visitor_is_forgotten_in_one_account(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    three_profiles(&store).await;
    assert!(forget(&store, 7, Some(1)).await);
    let mut store = store;
    for _ in 0..2 {
        assert_eq!(read(&store, visitor(1, 7)).await, Profile::default());
        assert!(is_whole(&store, visitor(2, 7)).await, "another account");
        assert!(is_whole(&store, visitor(1, 8)).await, "somebody else");
        close(store);
        store = open(harness, START_US).await;
    }
}

pub(crate) async fn a_visitor_is_forgotten_in_every_account(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    three_profiles(&store).await;
    store.flush().await.unwrap();
    assert!(forget(&store, 7, None).await);
    // Also for who opens it beside this one, which is not asked to write anything more.
    let beside = open(harness, START_US).await;
    for store in [store, beside] {
        assert_eq!(read(&store, visitor(1, 7)).await, Profile::default());
        assert_eq!(read(&store, visitor(2, 7)).await, Profile::default());
        assert!(is_whole(&store, visitor(1, 8)).await, "somebody else");
        close(store);
    }
}

pub(crate) async fn a_forget_says_whether_anything_was_held(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    assert!(!forget(&store, 7, None).await, "nobody was ever seen");
    record(&store, visitor(1, 7), &[exposure(START_US + 1, 1)]).await;
    assert!(!forget(&store, 7, Some(2)).await, "not in that account");
    assert!(!forget(&store, 8, None).await, "not that one");
    assert!(forget(&store, 7, Some(1)).await, "pending or not");
    assert!(!forget(&store, 7, Some(1)).await, "it is gone");
    add(&store, visitor(1, 7), &[segment("a/1", DAY_US)]).await;
    assert!(forget(&store, 7, None).await, "segments are something, too");
    record(&store, visitor(3, 7), &[exposure(START_US + 1, 2)]).await;
    close(store);
    let store = open(harness, START_US).await;
    assert!(forget(&store, 7, None).await, "also what only the store holds");
    assert_eq!(read(&store, visitor(3, 7)).await, Profile::default());
}

pub(crate) async fn forgets_are_counted(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let mut last = *store.forgets().borrow();
    for visitor in [7, 7, 8] {
        let forgotten = store.forget(visitor, None, START_US).await.unwrap();
        assert!(forgotten.number > last, "{} after {last}", forgotten.number);
        last = forgotten.number;
        let mut forgets = store.forgets();
        let followed = forgets.wait_for(|number| *number >= last);
        tokio::time::timeout(WAIT, followed).await.expect("the node follows").unwrap();
    }
}

/// At the same visitor's next showing a cap starts anew, and is kept as any other.
pub(crate) async fn what_is_shown_after_a_forget_makes_a_new_profile(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    for decision in 1..=3 {
        assert!(show(&store, visitor(1, 7), 3, decision).await);
    }
    assert!(!show(&store, visitor(1, 7), 3, 4).await, "capped");
    forget(&store, 7, None).await;
    let shown: Vec<_> = (0..3).map(|n| exposure(START_US + 1 + n, 10 + n.unsigned_abs())).collect();
    record(&store, visitor(1, 7), &shown).await;
    add(&store, visitor(1, 7), &[segment("new/1", DAY_US)]).await;
    let mut store = store;
    for _ in 0..2 {
        let profile = read(&store, visitor(1, 7)).await;
        assert_eq!(profile.list(&x()), shown);
        assert_eq!(profile.segments(), [segment("new/1", DAY_US)]);
        close(store);
        store = open(harness, START_US + SECOND_US).await;
    }
    assert!(!show(&store, visitor(1, 7), 3, 20).await, "capped again");
}

/// Told late: the same showing again, and one that was never told before.
pub(crate) async fn what_was_shown_before_a_forget_does_not_come_back(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let before = [exposure(START_US - DAY_US / 2, 1), exposure(START_US, 2)];
    record(&store, visitor(1, 7), &before[..1]).await;
    record(&store, visitor(2, 7), &before).await;
    record(&store, visitor(1, 8), &before).await;
    forget(&store, 7, Some(1)).await;
    record(&store, visitor(1, 7), &before).await;
    assert_eq!(read(&store, visitor(1, 7)).await, Profile::default());
    // Beside what is of another visit.
    let after = exposure(START_US + 1, 3);
    record(&store, visitor(1, 7), &[before[0], after]).await;
    record(&store, visitor(1, 7), &[before[1], exposure(START_US + 2, 4)]).await;
    let other = exposure(START_US, 5);
    record(&store, visitor(2, 7), &[other]).await;
    record(&store, visitor(1, 8), &[other]).await;
    let mut store = store;
    for _ in 0..2 {
        let seen = list(&store, visitor(1, 7)).await;
        assert_eq!(seen, [after, exposure(START_US + 2, 4)]);
        for of in [visitor(2, 7), visitor(1, 8)] {
            assert_eq!(list(&store, of).await, [before[0], before[1], other], "{of:?}");
        }
        close(store);
        store = open(harness, START_US + SECOND_US).await;
    }
}

pub(crate) async fn parallel_forgets_and_admits_leave_the_others_whole(harness: &impl Harness) {
    const VISITORS: u64 = 16;
    let store = open(harness, START_US).await;
    let shows = |n: u64| {
        let store = Arc::clone(&store);
        async move {
            // Of before the forgets, told while they go on.
            for decision in 0..20 {
                record(&store, visitor(1, n.into()), &[exposure(START_US, decision)]).await;
            }
        }
    };
    let shows: JoinSet<_> = (0..VISITORS).map(shows).collect();
    let forgets = |n: u64| {
        let store = Arc::clone(&store);
        async move { forget(&store, u128::from(n * 2), n.is_multiple_of(2).then_some(1)).await }
    };
    let forgets: JoinSet<_> = (0..VISITORS / 2).map(forgets).collect();
    forgets.join_all().await;
    shows.join_all().await;
    let mut store = store;
    for _ in 0..2 {
        for n in 0..VISITORS {
            let decisions: Vec<_> =
                list(&store, visitor(1, n.into())).await.iter().map(|seen| seen.decision).collect();
            let all = if n % 2 == 0 { 0..0 } else { 0..20 };
            assert!(decisions.iter().copied().eq(all), "visitor {n}: {decisions:?}");
        }
        close(store);
        store = open(harness, START_US + SECOND_US).await;
    }
}

/// A forget of one advertiser's list is one of all: nothing is left of any.
pub(crate) async fn every_advertisers_list_goes(harness: &impl Harness) {
    let store = open(harness, START_US).await;
    let mut admit = |profile: &mut Profile| {
        for n in 0..20_u64 {
            let advertiser = AdvertiserId::from(n.to_string().as_str());
            for decision in 0..20 {
                let shown = Exposure { decision, ..exposure(START_US, 0) };
                profile.record(&advertiser, shown, START_US).unwrap();
            }
        }
    };
    store.admit(visitor(1, 7), START_US, WAIT, &mut admit).await.unwrap();
    assert_eq!(read(&store, visitor(1, 7)).await.lists().count(), 20);
    forget(&store, 7, None).await;
    assert_eq!(read(&store, visitor(1, 7)).await, Profile::default());
    close(store);
    let store = open(harness, START_US).await;
    assert_eq!(read(&store, visitor(1, 7)).await, Profile::default());
}
