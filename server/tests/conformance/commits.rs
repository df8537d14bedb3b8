//! Writing: versions, conflicts, serials, statuses.

use std::collections::BTreeSet;

use slotwise_core::model::Status;
use slotwise_server::ports::{AuditQuery, Commit, Head, Put, StoreError};

use crate::Harness;
use crate::catalog::{
    Store, account, ad, apply, campaign, close, deletes, everything, get, line, load, on, put,
    puts, site, status, zone,
};

/// An account with a site, a zone, a paused campaign and an ad of it.
async fn fill(store: &Store) -> u64 {
    let keys = [account("net"), site("s"), zone("s", "z"), campaign("x:1"), ad("x:1", "a")];
    apply(store, puts(keys, "first")).await;
    apply(store, status(campaign("x:1"), Status::Paused)).await
}

pub(crate) async fn an_empty_store_stands_at_0(harness: &impl Harness) {
    let store = harness.catalog().await;
    assert_eq!(store.head().await.unwrap(), Head::default());
    let (head, rows) = load(&store).await;
    assert_eq!((head.version, rows.len()), (0, 0));
    let delta = store.delta(0, 0).await.unwrap();
    assert_eq!((delta.head, delta.rows.len(), delta.removed.len()), (head, 0, 0));
    assert_eq!(store.changes(0, 10).await.unwrap(), []);
    let page = store.audit(&AuditQuery { limit: 10, ..AuditQuery::default() }).await.unwrap();
    assert_eq!((page.records, page.next_before), (vec![], None));
    assert_eq!(*store.hints().borrow(), 0);
}

pub(crate) async fn commits_count_from_1(harness: &impl Harness) {
    let store = harness.catalog().await;
    for expected in 1..=3 {
        let commit = on(expected - 1, puts([account("net")], "body"));
        assert_eq!(store.commit(commit).await.unwrap(), expected);
        assert_eq!(store.head().await.unwrap().version, expected);
    }
}

pub(crate) async fn a_commit_on_another_base_changes_nothing(harness: &impl Harness) {
    let store = harness.catalog().await;
    let head = fill(&store).await;
    let before = everything(&store).await;
    let commit = || Commit {
        puts: vec![put(site("s"), "second"), put(site("new"), "second")],
        statuses: vec![(campaign("x:1"), Status::Active)],
        deletes: vec![ad("x:1", "a"), zone("s", "z")],
        forced: true,
        ..Commit::default()
    };
    for base in [0, head - 1, head + 1] {
        let refused = store.commit(on(base, commit())).await;
        let found = matches!(refused, Err(StoreError::Conflict { head: at }) if at == head);
        assert!(found, "base {base}: {refused:?}");
        assert_eq!(everything(&store).await, before, "base {base}");
    }
    assert_eq!(store.delta(head, 0).await.unwrap().rows, []);
    assert_eq!(store.commit(on(head, commit())).await.unwrap(), head + 1, "on the head it goes");
    let serials = load(&store).await.1.into_values().map(|row| (row.key.kind(), row.serial));
    assert_eq!(serials.collect::<BTreeSet<_>>().len(), 4, "unique for each kind");
}

pub(crate) async fn a_commit_is_there_as_a_whole(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    let version = apply(
        &store,
        Commit {
            puts: vec![put(site("s"), "second"), put(campaign("y:1"), "second")],
            statuses: vec![(campaign("x:1"), Status::Active)],
            deletes: vec![ad("x:1", "a")],
            ..Commit::default()
        },
    )
    .await;
    let (head, rows) = load(&store).await;
    assert_eq!((head.version, head.ads), (version, 0));
    let bodies: Vec<_> =
        rows.values().map(|row| (row.key.clone(), String::from_utf8_lossy(&row.body))).collect();
    let expected = [
        (account("net"), "first"),
        (site("s"), "second"),
        (zone("s", "z"), "first"),
        (campaign("x:1"), "first"),
        (campaign("y:1"), "second"),
    ];
    assert_eq!(bodies, expected.map(|(key, body)| (key, body.into())));
    assert_eq!(rows[&campaign("x:1")].status, Some(Status::Active));
    assert!(rows.values().all(|row| row.version <= version));
}

pub(crate) async fn serials_are_unique_and_never_reused(harness: &impl Harness) {
    let mut store = harness.catalog().await;
    let keys = || {
        [account("a"), site("a"), zone("a", "a"), campaign("a:1"), ad("a:1", "a")]
            .into_iter()
            .chain([account("b"), site("b"), zone("a", "b"), campaign("b:1"), ad("b:1", "a")])
    };
    let mut given = BTreeSet::new();
    for round in 0..3 {
        apply(&store, puts(keys(), "body")).await;
        for row in load(&store).await.1.into_values() {
            let is_new = given.insert((row.key.kind(), row.serial));
            assert!(is_new, "round {round}: {:?} has a serial of another one", row.key);
        }
        apply(&store, deletes(keys())).await;
        // Not even when the last ones that were given are gone and the process was, too.
        close(store);
        store = harness.catalog().await;
    }
    assert_eq!(given.len(), 30);
}

pub(crate) async fn a_put_keeps_the_serial_and_raises_the_version(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    let others = [account("net"), site("s"), zone("s", "z"), ad("x:1", "a")];
    for key in others.into_iter().chain([campaign("x:1")]) {
        let (before, rest) = (get(&store, &key).await, load(&store).await.1);
        let version = apply(&store, puts([key.clone()], "second")).await;
        let after = get(&store, &key).await;
        assert_eq!(after.serial, before.serial, "{key:?}");
        assert_eq!((after.version, after.body.as_slice()), (version, b"second".as_slice()));
        let mut rest_after = load(&store).await.1;
        rest_after.insert(key, before);
        assert_eq!(rest_after, rest, "the others are as they were");
    }
}

pub(crate) async fn a_put_without_a_status_leaves_it_as_it_was(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    let key = campaign("x:1");
    apply(&store, puts([key.clone()], "an import")).await;
    assert_eq!(get(&store, &key).await.status, Some(Status::Paused));
    let wakes = Put { status: Some(Status::Active), ..put(key.clone(), "wakes it") };
    apply(&store, Commit { puts: vec![wakes], ..Commit::default() }).await;
    assert_eq!(get(&store, &key).await.status, Some(Status::Active));
    apply(&store, puts([key.clone()], "an import")).await;
    assert_eq!(get(&store, &key).await.status, Some(Status::Active));
    let pauses = Put { status: Some(Status::Paused), ..put(key.clone(), "pauses it") };
    apply(&store, Commit { puts: vec![pauses], ..Commit::default() }).await;
    assert_eq!(get(&store, &key).await.status, Some(Status::Paused));
}

pub(crate) async fn a_new_campaign_is_active_unless_told(harness: &impl Harness) {
    let store = harness.catalog().await;
    let told = |id: &str, status| Put { status: Some(status), ..put(campaign(id), "told") };
    let new = vec![
        put(campaign("x:untold"), ""),
        told("x:active", Status::Active),
        told("x:paused", Status::Paused),
        put(account("net"), ""),
    ];
    let version = apply(&store, Commit { puts: new, ..Commit::default() }).await;
    let status = async |key| get(&store, &key).await.status;
    assert_eq!(status(campaign("x:untold")).await, Some(Status::Active));
    assert_eq!(status(campaign("x:active")).await, Some(Status::Active));
    assert_eq!(status(campaign("x:paused")).await, Some(Status::Paused));
    assert_eq!(status(account("net")).await, None, "only campaigns have one");
    assert_eq!(get(&store, &campaign("x:paused")).await.version, version);
}

pub(crate) async fn a_status_alone_raises_the_rows_version(harness: &impl Harness) {
    let store = harness.catalog().await;
    let head = fill(&store).await;
    let before = load(&store).await.1;
    let row = &before[&campaign("x:1")];
    assert_eq!((row.version, row.status), (head, Some(Status::Paused)));
    let version = apply(&store, status(campaign("x:1"), Status::Active)).await;
    let mut after = load(&store).await.1;
    let row = after.remove(&campaign("x:1")).unwrap();
    assert_eq!((row.version, row.status), (version, Some(Status::Active)));
    let old = &before[&campaign("x:1")];
    assert_eq!((row.serial, &row.body), (old.serial, &old.body));
    let mut rest = before.clone();
    rest.remove(&campaign("x:1"));
    assert_eq!(after, rest, "the others are as they were");
}

pub(crate) async fn a_campaign_made_again_is_a_new_one(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    let old = get(&store, &campaign("x:1")).await;
    apply(&store, deletes([campaign("x:1"), ad("x:1", "a")])).await;
    let version = apply(&store, puts([campaign("x:1")], "again")).await;
    let new = get(&store, &campaign("x:1")).await;
    assert_ne!(new.serial, old.serial);
    assert_eq!((new.version, new.status), (version, Some(Status::Active)), "the pause is gone too");
}

pub(crate) async fn deletes_go_and_the_head_counts_the_ads(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    let ads = async || store.head().await.unwrap().ads;
    assert_eq!(ads().await, 1);
    apply(&store, puts([ad("x:1", "a"), ad("x:1", "b"), ad("x:1", "c")], "more")).await;
    assert_eq!(ads().await, 3, "one was there before");
    apply(&store, deletes([ad("x:1", "b"), ad("x:1", "absent"), site("absent")])).await;
    assert_eq!(ads().await, 2, "one was not there");
    let (head, rows) = load(&store).await;
    assert!(!rows.contains_key(&ad("x:1", "b")));
    assert_eq!(head.ads, 2);
    apply(&store, deletes([ad("x:1", "a"), ad("x:1", "c"), campaign("x:1")])).await;
    assert_eq!(ads().await, 0);
    assert_eq!(load(&store).await.1.len(), 3, "account, site, zone");
}

pub(crate) async fn the_last_forced_change_is_known(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    let forced = async || store.head().await.unwrap().forced_version;
    assert_eq!(forced().await, 0);
    let version = apply(&store, Commit { forced: true, ..deletes([ad("x:1", "a")]) }).await;
    assert_eq!(forced().await, version);
    apply(&store, puts([ad("x:1", "a")], "later")).await;
    assert_eq!(forced().await, version, "a later one that is not forced changes nothing");
    close(store);
    assert_eq!(harness.catalog().await.head().await.unwrap().forced_version, version);
}

pub(crate) async fn keys_are_told_apart_by_kind_and_parent(harness: &impl Harness) {
    let store = harness.catalog().await;
    let keys = [
        account("a"),
        site("a"),
        campaign("a"),
        zone("a", "b/c"),
        zone("a/b", "c"),
        ad("a", "b/c"),
        ad("a/b", "c"),
        zone("a%", "_"),
        zone("a_", "%"),
        site("A"),
        site("ä"),
        site("a\u{308}"),
    ];
    for (at, key) in keys.iter().enumerate() {
        apply(&store, puts([key.clone()], &at.to_string())).await;
    }
    for (at, key) in keys.iter().enumerate() {
        let row = get(&store, key).await;
        assert_eq!((&row.key, row.body), (key, at.to_string().into_bytes()));
    }
    apply(&store, deletes([zone("a", "b/c"), ad("a/b", "c"), site("A")])).await;
    assert_eq!(load(&store).await.1.len(), keys.len() - 3);
}

pub(crate) async fn bodies_come_back_byte_for_byte(harness: &impl Harness) {
    let store = harness.catalog().await;
    let bodies: [Vec<u8>; 4] =
        [vec![], (0..=255).collect(), vec![0; 3], b"\r\n\xff\xfe".repeat(10_000)];
    let put = |(at, body): (usize, &Vec<u8>)| Put {
        body: body.clone(),
        ..put(site(&at.to_string()), "")
    };
    let puts = bodies.iter().enumerate().map(put).collect();
    apply(&store, Commit { puts, ..Commit::default() }).await;
    for (at, body) in bodies.iter().enumerate() {
        assert_eq!(get(&store, &site(&at.to_string())).await.body, *body);
    }
}

pub(crate) async fn everything_acknowledged_survives_reopening(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    apply(&store, deletes([zone("s", "z")])).await;
    let audit = vec![line("campaign", "x:1", "changed its caps")];
    let version = apply(&store, Commit { audit, ..puts([campaign("x:1")], "third") }).await;
    let before = everything(&store).await;
    close(store);
    let store = harness.catalog().await;
    assert_eq!(everything(&store).await, before);
    assert_eq!(*store.hints().borrow(), version);
    let delta = store.delta(version - 2, 0).await.unwrap();
    assert_eq!(delta.removed, [zone("s", "z")]);
    assert_eq!(apply(&store, puts([site("s")], "goes on")).await, version + 1);
}
