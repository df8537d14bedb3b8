//! Several callers at once.

use std::sync::Arc;

use slotwise_core::index::Key;
use slotwise_server::ports::{Row, StoreError};
use tokio::task::JoinSet;

use crate::Harness;
use crate::catalog::{
    Store, account, ad, apply, campaign, close, follow, get, load, on, puts, site, zone,
};

pub(crate) async fn a_secret_is_the_same_for_everyone(harness: &impl Harness) {
    let store = harness.catalog().await;
    let ask = |name: &'static str| {
        let store = Arc::clone(&store);
        async move { store.secret(name).await.unwrap() }
    };
    let asking: JoinSet<_> = (0..32).map(|_| ask("tokens")).collect();
    let answers = asking.join_all().await;
    assert!(answers.iter().all(|secret| *secret == answers[0]));
    assert_ne!(answers[0], [0; 32]);
    let other = store.secret("visitors").await.unwrap();
    assert_ne!(other, answers[0], "each name has its own");
    assert_eq!(store.head().await.unwrap().version, 0, "a secret is no change of the catalogue");
    close(store);
    let store = harness.catalog().await;
    assert_eq!(store.secret("tokens").await.unwrap(), answers[0]);
    assert_eq!(store.secret("visitors").await.unwrap(), other);
}

/// Objects of all kinds whose bodies every commit sets to one and the same number.
fn marked() -> Vec<Key> {
    let ads = (0..50).map(|n| ad("x:1", &n.to_string()));
    let zones = (0..20).map(|n| zone("s", &n.to_string()));
    ads.chain(zones).chain([account("net"), site("s"), campaign("x:1")]).collect()
}

fn assert_marked<'r>(version: u64, rows: impl IntoIterator<Item = &'r Row>) {
    let mark = version.to_string();
    let mut count = 0;
    for row in rows {
        assert_eq!(String::from_utf8_lossy(&row.body), mark, "{:?} at {version}", row.key);
        assert_eq!(row.version, version);
        count += 1;
    }
    assert_eq!(count, marked().len(), "at {version}");
}

pub(crate) async fn a_reader_sees_one_version(harness: &impl Harness) {
    const COMMITS: u64 = 60;
    let store = harness.catalog().await;
    apply(&store, puts(marked(), "1")).await;
    let writing = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for version in 2..=COMMITS {
                apply(&store, puts(marked(), &version.to_string())).await;
            }
        })
    };
    let reading = |_| {
        let store = Arc::clone(&store);
        async move {
            let (mut seen, mut replica) = (0, load(&store).await.1);
            let mut at = replica[&site("s")].version;
            while seen < COMMITS {
                let (head, rows) = load(&store).await;
                assert_marked(head.version, rows.values());
                assert!(head.version >= seen, "time goes on");
                let (head, rows) = store.get(&marked()).await.unwrap();
                assert_marked(head.version, &rows);
                at = follow(&store, at, &mut replica).await.version;
                assert_marked(at, replica.values());
                seen = head.version;
            }
        }
    };
    let readers: JoinSet<_> = (0..3).map(reading).collect();
    readers.join_all().await;
    writing.await.unwrap();
}

/// Adds one to the number in the body, on the version at which it was read.
async fn increment(store: &Store) -> u64 {
    loop {
        let (head, rows) = store.get(&[account("counter")]).await.unwrap();
        let count: u64 = std::str::from_utf8(&rows[0].body).unwrap().parse().unwrap();
        let commit = puts([account("counter")], &(count + 1).to_string());
        match store.commit(on(head.version, commit)).await {
            Ok(version) => return version,
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) async fn parallel_commits_lose_nothing(harness: &impl Harness) {
    const COMMITTERS: usize = 8;
    const COMMITS: usize = 12;
    let store = harness.catalog().await;
    apply(&store, puts([account("counter")], "0")).await;
    let committing = |_| {
        let store = Arc::clone(&store);
        async move {
            let mut versions = Vec::new();
            for _ in 0..COMMITS {
                versions.push(increment(&store).await);
            }
            assert!(versions.is_sorted());
            versions
        }
    };
    let committers: JoinSet<_> = (0..COMMITTERS).map(committing).collect();
    let mut versions: Vec<u64> = committers.join_all().await.into_iter().flatten().collect();
    versions.sort_unstable();
    let total = (COMMITTERS * COMMITS) as u64;
    assert_eq!(versions, (2..=total + 1).collect::<Vec<_>>(), "each version went to one");
    assert_eq!(get(&store, &account("counter")).await.body, total.to_string().into_bytes());
    let changes = store.changes(0, 1_000).await.unwrap();
    assert_eq!(changes.len() as u64, total + 1);
}
