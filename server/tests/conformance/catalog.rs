//! Words that the tests of the catalogue share.

use std::collections::BTreeMap;
use std::sync::Arc;

use slotwise_core::index::Key;
use slotwise_core::model::Status;
use slotwise_proto::v1::CatalogChange;
use slotwise_server::ports::{
    AuditQuery, AuditRow, CatalogStore, Commit, Head, ListQuery, Put, Row, StoreError,
};
use tokio::sync::mpsc;

pub(crate) type Store = Arc<dyn CatalogStore>;

/// What a node holds of the catalogue.
pub(crate) type Replica = BTreeMap<Key, Row>;

/// 2026-11-30T09:30:00.000001Z: the time of changes that tests make.
pub(crate) const AT_US: i64 = 1_796_031_000_000_001;

pub(crate) fn account(id: &str) -> Key {
    Key::Account(id.into())
}

pub(crate) fn site(id: &str) -> Key {
    Key::Site(id.into())
}

pub(crate) fn zone(site: &str, id: &str) -> Key {
    Key::Zone(site.into(), id.into())
}

pub(crate) fn campaign(id: &str) -> Key {
    Key::Campaign(id.into())
}

pub(crate) fn ad(campaign: &str, id: &str) -> Key {
    Key::Ad(campaign.into(), id.into())
}

/// An object of account "net", where it is of any.
pub(crate) fn put(key: Key, body: &str) -> Put {
    let is_owned = matches!(key, Key::Site(_) | Key::Campaign(_));
    let owner = if is_owned { "net".to_owned() } else { String::new() };
    Put { key, owner, body: body.into(), status: None }
}

pub(crate) fn puts(keys: impl IntoIterator<Item = Key>, body: &str) -> Commit {
    Commit { puts: keys.into_iter().map(|key| put(key, body)).collect(), ..Commit::default() }
}

pub(crate) fn deletes(keys: impl IntoIterator<Item = Key>) -> Commit {
    Commit { deletes: keys.into_iter().collect(), ..Commit::default() }
}

pub(crate) fn status(key: Key, status: Status) -> Commit {
    Commit { statuses: vec![(key, status)], ..Commit::default() }
}

/// A line of the audit log.
pub(crate) fn line(kind: &str, id: &str, summary: &str) -> AuditRow {
    let change = CatalogChange {
        kind: kind.to_owned(),
        id: id.to_owned(),
        summary: summary.to_owned(),
        actor: "tester".to_owned(),
        ..CatalogChange::default()
    };
    AuditRow { change, before: None, after: None }
}

/// The commit on `base_version`, with a line for the audit log where it has none.
pub(crate) fn on(base_version: u64, mut commit: Commit) -> Commit {
    if commit.audit.is_empty() {
        commit.audit.push(line("import", "", "changed"));
    }
    Commit { base_version, at_us: AT_US, ..commit }
}

/// Commits on the head, and returns the version.
pub(crate) async fn apply(store: &Store, commit: Commit) -> u64 {
    let base_version = store.head().await.unwrap().version;
    store.commit(on(base_version, commit)).await.unwrap()
}

/// Everything, as the store loads it: no object twice, and as many ads as the head counts.
pub(crate) async fn load(store: &Store) -> (Head, Replica) {
    let (head, rows) = load_rows(store).await;
    let len = rows.len();
    let replica: Replica = rows.into_iter().map(|row| (row.key.clone(), row)).collect();
    assert_eq!(replica.len(), len, "an object came twice");
    let ads = replica.keys().filter(|key| matches!(key, Key::Ad(..))).count();
    assert_eq!(head.ads, ads as u64);
    (head, replica)
}

/// Every row in the order in which they came.
pub(crate) async fn load_rows(store: &Store) -> (Head, Vec<Row>) {
    let (sender, mut parts) = mpsc::channel(1);
    let taking = async {
        let mut rows = Vec::new();
        while let Some(part) = parts.recv().await {
            rows.extend(part);
        }
        rows
    };
    let (head, rows) = tokio::join!(store.load(sender), taking);
    (head.unwrap(), rows)
}

/// The object, which must be there.
pub(crate) async fn get(store: &Store, key: &Key) -> Row {
    let (_, rows) = store.get(std::slice::from_ref(key)).await.unwrap();
    let row = rows.into_iter().next();
    row.unwrap_or_else(|| panic!("{key:?} is not there"))
}

/// Leads `replica` on by what changed after `version`.
pub(crate) async fn follow(store: &Store, version: u64, replica: &mut Replica) -> Head {
    let delta = store.delta(version, 0).await.unwrap();
    for key in &delta.removed {
        replica.remove(key);
    }
    for row in delta.rows {
        let both = delta.removed.contains(&row.key);
        assert!(!both, "{:?} is there and gone", row.key);
        replica.insert(row.key.clone(), row);
    }
    delta.head
}

/// All that a reader can see, to find it unchanged later.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    head: Head,
    rows: Replica,
    changes: Vec<CatalogChange>,
    audit: usize,
    campaigns: Vec<Row>,
}

pub(crate) async fn everything(store: &Store) -> Seen {
    let (head, rows) = load(store).await;
    let query = AuditQuery { limit: 1_000, ..AuditQuery::default() };
    let campaigns = ListQuery {
        after: campaign(""),
        owner: String::new(),
        id_prefix: String::new(),
        limit: 1_000,
    };
    Seen {
        head,
        rows,
        changes: store.changes(0, 1_000).await.unwrap(),
        audit: store.audit(&query).await.unwrap().records.len(),
        campaigns: store.list(&campaigns).await.unwrap(),
    }
}

pub(crate) fn assert_gap<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Gap { .. })), "{result:?}");
}

/// Drops the store; a test that still holds it elsewhere is wrong.
pub(crate) fn close(store: Store) {
    assert_eq!(Arc::strong_count(&store), 1, "somebody still holds the store");
    drop(store);
}
