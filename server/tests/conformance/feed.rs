//! What nodes follow: whole loads, deltas, hints, and the log of changes.

use std::collections::BTreeMap;

use prost::Message;
use slotwise_core::index::Key;
use slotwise_core::model::Status;
use slotwise_proto::v1::{CatalogRecord, Site, catalog_record::Record};
use slotwise_server::limits::DELTA_ROWS_MAX;
use slotwise_server::ports::{AuditPage, AuditQuery, AuditRow, Commit, StoreError};
use tokio::sync::mpsc;

use crate::Harness;
use crate::catalog::{
    AT_US, Replica, Store, account, ad, apply, assert_gap, campaign, deletes, follow, get, line,
    load, load_rows, on, put, puts, site, status, zone,
};

pub(crate) async fn load_gives_every_object_once_in_order(harness: &impl Harness) {
    const ADS: usize = 25_000;
    let store = harness.catalog().await;
    let ads = (0..ADS).map(|n| ad(&format!("x:{}", n % 7), &format!("a{n}")));
    let campaigns = (0..7).map(|n| campaign(&format!("x:{n}")));
    let keys = ads.chain(campaigns).chain([zone("t", "b"), zone("s", "z"), zone("s", "a")]);
    let keys: Vec<_> = keys.chain([site("t"), site("s"), account("net"), account("a")]).collect();
    let version = apply(&store, puts(keys.clone(), "body")).await;

    let (head, rows) = load_rows(&store).await;
    assert_eq!((head.version, head.ads), (version, ADS as u64));
    // Accounts, sites, zones, campaigns, ads, each in order of its ids: as keys are ordered.
    let mut expected = keys;
    expected.sort();
    let order = |key: &Key| match key {
        Key::Account(_) => 0,
        Key::Site(_) => 1,
        Key::Zone(..) => 2,
        Key::Campaign(_) => 3,
        Key::Ad(..) => 4,
    };
    assert!(expected.is_sorted_by_key(order));
    let loaded: Vec<_> = rows.iter().map(|row| row.key.clone()).collect();
    assert!(loaded == expected, "{} rows, or in another order", loaded.len());
    assert!(rows.iter().all(|row| row.body == b"body" && row.version == version));
}

pub(crate) async fn load_ends_with_an_error_when_nobody_listens(harness: &impl Harness) {
    let store = harness.catalog().await;
    apply(&store, puts([account("net")], "body")).await;
    let (sender, parts) = mpsc::channel(1);
    drop(parts);
    let given_up = store.load(sender).await;
    assert!(matches!(given_up, Err(StoreError::Unavailable(_))), "{given_up:?}");
    assert_eq!(load(&store).await.1.len(), 1, "the next one is served");
}

/// Some history of few objects, so that each is changed, removed and made again often.
fn step(seed: &mut u64) -> Commit {
    let mut random = |below: u64| {
        // Knuth's MMIX generator; its high bits are good enough here.
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    };
    let mut commit = Commit::default();
    let mut touched = Vec::new();
    for _ in 0..=random(3) {
        let (of, id) = (format!("x:{}", random(2)), random(3).to_string());
        let key = match random(5) {
            0 => account(&id),
            1 => site(&id),
            2 => zone(&id, &of),
            3 => campaign(&of),
            _ => ad(&of, &id),
        };
        if touched.contains(&key) {
            continue;
        }
        touched.push(key.clone());
        match random(5) {
            0 | 1 => commit.deletes.push(key),
            2 if matches!(key, Key::Campaign(_)) => commit.statuses.push((key, Status::Paused)),
            _ => commit.puts.push(put(key, &random(1_000).to_string())),
        }
    }
    commit
}

/// Whether the campaigns whose status it sets are there: a store need not know what to do else.
async fn makes_sense(store: &Store, commit: &Commit) -> bool {
    let keys: Vec<_> = commit.statuses.iter().map(|(key, _)| key.clone()).collect();
    store.get(&keys).await.unwrap().1.len() == keys.len()
}

pub(crate) async fn a_delta_from_each_version_leads_to_what_load_gives(harness: &impl Harness) {
    let store = harness.catalog().await;
    let mut stands: BTreeMap<u64, Replica> = BTreeMap::from([(0, Replica::new())]);
    let mut seed = 20_261_130;
    while stands.len() <= 80 {
        let commit = step(&mut seed);
        if makes_sense(&store, &commit).await {
            let version = apply(&store, commit).await;
            stands.insert(version, load(&store).await.1);
        }
    }
    let (head, now) = load(&store).await;
    for (version, mut replica) in stands {
        let led_to = follow(&store, version, &mut replica).await;
        assert_eq!(led_to, head);
        assert_eq!(replica, now, "from version {version}");
    }
    assert_gap(store.delta(head.version + 1, 0).await);
    assert_gap(store.delta(u64::MAX, 0).await);
}

pub(crate) async fn a_delta_sees_an_object_that_was_made_again(harness: &impl Harness) {
    let store = harness.catalog().await;
    let keys = || [account("net"), site("s"), zone("s", "z"), campaign("x:1"), ad("x:1", "a")];
    apply(&store, puts(keys(), "first")).await;
    let base = apply(&store, status(campaign("x:1"), Status::Paused)).await;
    let old = load(&store).await.1;
    apply(&store, deletes(keys())).await;
    apply(&store, puts(keys(), "again")).await;

    let mut replica = old.clone();
    follow(&store, base, &mut replica).await;
    assert_eq!(replica, load(&store).await.1);
    for (key, row) in &replica {
        assert_ne!(row.serial, old[key].serial, "{key:?} is another one");
        assert_eq!(row.body, b"again");
    }
    assert_eq!(replica[&campaign("x:1")].status, Some(Status::Active));
    // Gone again: now it is told as gone, and only once.
    apply(&store, deletes([ad("x:1", "a")])).await;
    let delta = store.delta(base, 0).await.unwrap();
    assert_eq!(delta.removed, [ad("x:1", "a")]);
    assert_eq!(delta.rows.len(), 4);
}

pub(crate) async fn a_delta_that_is_too_much_is_a_gap(harness: &impl Harness) {
    let store = harness.catalog().await;
    let ads = (0..=DELTA_ROWS_MAX).map(|n| ad("x:1", &n.to_string()));
    let version = apply(&store, puts(ads, "")).await;
    assert_gap(store.delta(0, 0).await);
    assert_eq!(store.delta(version, 0).await.unwrap().rows, [], "who stands at the head has all");
    apply(&store, puts([campaign("x:1")], "")).await;
    assert_eq!(store.delta(version, 0).await.unwrap().rows.len(), 1, "and goes on from there");
}

pub(crate) async fn changes_come_oldest_first(harness: &impl Harness) {
    let store = harness.catalog().await;
    for n in 1..=5 {
        let audit = vec![line("site", &format!("s{n}"), "made"), line("zone", "of an import", "")];
        apply(&store, Commit { audit, ..puts([site(&format!("s{n}"))], "") }).await;
    }
    let versions = async |after, limit| {
        let changes = store.changes(after, limit).await.unwrap();
        changes.iter().map(|change| change.catalog_version).collect::<Vec<_>>()
    };
    assert_eq!(versions(0, 100).await, [1, 2, 3, 4, 5], "one for each change");
    assert_eq!(versions(0, 2).await, [1, 2]);
    assert_eq!(versions(2, 2).await, [3, 4]);
    assert_eq!(versions(4, 2).await, [5]);
    // After the head there is nothing, however far: it is a caller's number.
    assert_eq!(versions(5, 2).await, [0; 0]);
    assert_eq!(versions(6, 2).await, [0; 0]);
    assert_eq!(versions(1 << 63, 2).await, [0; 0]);
    assert_eq!(versions(u64::MAX, 2).await, [0; 0]);
    let change = store.changes(2, 1).await.unwrap().remove(0);
    assert_eq!((change.kind.as_str(), change.id.as_str()), ("site", "s3"));
    assert_eq!((change.summary.as_str(), change.actor.as_str()), ("made", "tester"));
    let at = change.changed_at.unwrap();
    assert_eq!(at.seconds * 1_000_000 + i64::from(at.nanos) / 1_000, AT_US);
}

pub(crate) async fn hints_receive_the_version_of_a_commit(harness: &impl Harness) {
    let store = harness.catalog().await;
    let mut hints = store.hints();
    hints.mark_unchanged();
    let version = apply(&store, puts([account("net")], "")).await;
    hints.wait_for(|&hint| hint == version).await.unwrap();
    let late = store.hints();
    assert_eq!(*late.borrow(), version, "who comes later hears it as well");
    hints.mark_unchanged();
    store.commit(on(version - 1, puts([account("net")], ""))).await.unwrap_err();
    assert!(!hints.has_changed().unwrap(), "what was refused is not hinted at");
}

/// Two changes of one object each, then an import of three.
async fn logged(harness: &impl Harness) -> Store {
    let store = harness.catalog().await;
    for n in [1, 2] {
        let audit = vec![line("site", "s", &format!("change {n}"))];
        apply(&store, Commit { audit, ..puts([site("s")], "") }).await;
    }
    let mut audit = vec![line("import", "", "an import")];
    audit.extend(["s", "t", "s"].map(|id| line("site", id, &format!("imported {id}"))));
    apply(&store, Commit { audit, ..puts([site("s"), site("t")], "") }).await;
    store
}

fn summaries(page: &AuditPage) -> Vec<(u64, &str)> {
    let changes = page.records.iter().map(|record| record.change.as_ref().unwrap());
    changes.map(|change| (change.catalog_version, change.summary.as_str())).collect()
}

pub(crate) async fn the_audit_log_comes_newest_first_page_by_page(harness: &impl Harness) {
    let store = logged(harness).await;
    let ask = async |before, limit| {
        store.audit(&AuditQuery { id: String::new(), before, limit }).await.unwrap()
    };
    let all = ask(None, 100).await;
    assert_eq!(summaries(&all), [(3, "an import"), (2, "change 2"), (1, "change 1")]);
    assert_eq!(all.next_before, None);
    let first = ask(None, 2).await;
    assert_eq!(summaries(&first), [(3, "an import"), (2, "change 2")]);
    let second = ask(first.next_before, 2).await;
    assert!(first.next_before.is_some());
    assert_eq!(summaries(&second), [(1, "change 1")]);
    assert_eq!(second.next_before, None);
    assert_eq!(ask(None, 3).await.next_before, None, "a full page can be the last");
}

pub(crate) async fn the_audit_log_of_one_object(harness: &impl Harness) {
    let store = logged(harness).await;
    let ask = async |id: &str, before, limit| {
        store.audit(&AuditQuery { id: id.to_owned(), before, limit }).await.unwrap()
    };
    let expected = [(3, "imported s"), (3, "imported s"), (2, "change 2"), (1, "change 1")];
    assert_eq!(summaries(&ask("s", None, 100).await), expected);
    assert_eq!(summaries(&ask("t", None, 100).await), [(3, "imported t")]);
    assert_eq!(summaries(&ask("absent", None, 100).await), []);
    // Page by page of one line: two lines of one version are two pages.
    let (mut before, mut seen) = (None, Vec::new());
    loop {
        let page = ask("s", before, 1).await;
        seen.extend(summaries(&page).into_iter().map(|(at, words)| (at, words.to_owned())));
        before = page.next_before;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, expected.map(|(at, words)| (at, words.to_owned())));
}

pub(crate) async fn the_audit_log_keeps_before_and_after(harness: &impl Harness) {
    let store = harness.catalog().await;
    let record = |id: &str| CatalogRecord {
        record: Some(Record::Site(Site { site_id: id.to_owned(), ..Site::default() })),
    };
    let (old, new) = (record("old"), record("new"));
    let audit = vec![AuditRow {
        before: Some(old.encode_to_vec()),
        after: Some(new.encode_to_vec()),
        ..line("site", "s", "renamed")
    }];
    apply(&store, Commit { audit, ..puts([site("s")], "") }).await;
    let query = AuditQuery { limit: 1, ..AuditQuery::default() };
    let page = store.audit(&query).await.unwrap();
    assert_eq!((&page.records[0].before, &page.records[0].after), (&Some(old), &Some(new)));
    assert_eq!(get(&store, &site("s")).await.version, 1);
    apply(&store, Commit { audit: vec![line("site", "s", "gone")], ..deletes([site("s")]) }).await;
    let page = store.audit(&query).await.unwrap();
    assert_eq!((&page.records[0].before, &page.records[0].after), (&None, &None));
}
