//! Large changes that are broken off, in each of their steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use slotwise_core::index::Key;
use slotwise_proto::v1::CampaignStatus::{Active, Paused};
use slotwise_proto::v1::{CatalogChange, ImportOptions};
use slotwise_server::ports::{AuditRow, CatalogStore, Commit, ListQuery, Put, Row};
use slotwise_server::store::redis::{Redis, RedisCatalog};
use tokio::sync::mpsc;

use super::{changes, export, key, put, shown};
use crate::nodes::{fill, three, until, well};
use crate::proxy::{Mode, Proxy};
use crate::redis_server::RedisServer;
use crate::support::{ad, try_import};

async fn open(url: &str) -> RedisCatalog {
    let redis = Redis::open(url.parse().unwrap(), "slotwise").unwrap();
    redis.wait().await.unwrap();
    RedisCatalog::open(Arc::new(redis), 0).await
}

/// What the catalogue should be: computed here, from the commits alone.
#[derive(Clone, Default)]
struct Model {
    version: u64,
    /// Version and body of each object.
    rows: BTreeMap<Key, (u64, Vec<u8>)>,
}

impl Model {
    fn apply(&mut self, commit: &Commit) {
        self.version += 1;
        for key in &commit.deletes {
            self.rows.remove(key);
        }
        for put in &commit.puts {
            self.rows.insert(put.key.clone(), (self.version, put.body.clone()));
        }
    }

    fn of_campaign(&self, campaign: &str) -> Vec<Key> {
        let is_theirs = |key: &&Key| matches!(key, Key::Ad(of, _) if of.as_str() == campaign);
        self.rows.keys().filter(is_theirs).cloned().collect()
    }
}

fn commit(base: u64, puts: Vec<(Key, String)>, deletes: Vec<Key>) -> Commit {
    let put = |(key, body): (Key, String)| Put {
        key,
        owner: String::new(),
        body: body.into_bytes(),
        status: None,
    };
    let line = AuditRow { change: CatalogChange::default(), before: None, after: None };
    Commit {
        base_version: base,
        at_us: 1_796_040_000_000_000,
        puts: puts.into_iter().map(put).collect(),
        deletes,
        forced: true,
        audit: vec![line],
        ..Commit::default()
    }
}

fn ads(campaign: &str, from: usize, to: usize, body: &str) -> Vec<(Key, String)> {
    let one = |n| (Key::Ad(campaign.into(), format!("u{n:05}").as_str().into()), body.to_owned());
    (from..to).map(one).collect()
}

async fn load(store: &RedisCatalog) -> (u64, u64, BTreeMap<Key, (u64, Vec<u8>)>) {
    let (sender, mut parts) = mpsc::channel::<Vec<Row>>(100);
    let reading = async {
        let mut rows = BTreeMap::new();
        while let Some(part) = parts.recv().await {
            rows.extend(part.into_iter().map(|row| (row.key, (row.version, row.body))));
        }
        rows
    };
    let (head, rows) = tokio::join!(store.load(sender), reading);
    let head = head.unwrap();
    (head.version, head.ads, rows)
}

/// Every way of reading says what the model says.
async fn agree(store: &RedisCatalog, now: &Model, before: &Model) {
    let (version, ads, rows) = load(store).await;
    assert_eq!(version, now.version);
    assert!(rows == now.rows, "load: {} rows, not {}", rows.len(), now.rows.len());
    let counted = now.rows.keys().filter(|key| matches!(key, Key::Ad(..))).count();
    assert_eq!(ads, counted as u64);
    let delta = store.delta(before.version, 0).await.unwrap();
    let mut followed = before.rows.clone();
    followed.extend(delta.rows.into_iter().map(|row| (row.key, (row.version, row.body))));
    for key in &delta.removed {
        followed.remove(key);
    }
    assert!(followed == now.rows, "a delta leads to {} rows", followed.len());
    for campaign in ["x:1", "x:2"] {
        let after = Key::Ad(campaign.into(), "".into());
        let query =
            ListQuery { after, owner: String::new(), id_prefix: String::new(), limit: 100_000 };
        let listed = store.list(&query).await.unwrap();
        let listed: Vec<_> = listed.into_iter().map(|row| row.key).collect();
        assert!(listed == now.of_campaign(campaign), "{campaign}: {} listed", listed.len());
    }
    let some: Vec<Key> = before.rows.keys().chain(now.rows.keys()).step_by(97).cloned().collect();
    let (_, got) = store.get(&some).await.unwrap();
    let got: BTreeMap<_, _> =
        got.into_iter().map(|row| (row.key, (row.version, row.body))).collect();
    let wanted = some.iter().filter_map(|key| Some((key.clone(), now.rows.get(key)?.clone())));
    assert_eq!(got, wanted.collect());
}

fn stages(redis: &RedisServer) -> Vec<String> {
    redis.run(&["KEYS", &key("stage:*")])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_import_whose_node_dies_leaves_nothing_that_is_seen() {
    let redis = RedisServer::start();
    let mut model = Model::default();
    let first = commit(0, ads("x:1", 0, 500, "old"), vec![]);
    let store = open(&redis.url()).await;
    store.commit(first.clone()).await.unwrap();
    model.apply(&first);
    until("it is folded in", async || !redis.run::<bool>(&["EXISTS", &key("overlay")])).await;

    let large = commit(1, ads("x:2", 0, 20_000, "new"), vec![]);
    let dying = open(&redis.url()).await;
    let staging = tokio::spawn(async move { dying.commit(large).await });
    until("some of it is staged", async || !stages(&redis).is_empty()).await;
    staging.abort();
    assert!(staging.await.unwrap_err().is_cancelled(), "it was not done yet");
    let left = stages(&redis);
    assert!(!left.is_empty());
    for stage in &left {
        let life: i64 = redis.run(&["TTL", stage]);
        assert!(life > 0, "{stage} would stay for ever");
    }
    agree(&store, &model, &Model::default()).await;
    let next = commit(1, ads("x:2", 0, 700, "next"), ads("x:1", 0, 300, "").into_keys());
    let before = model.clone();
    assert_eq!(store.commit(next.clone()).await.unwrap(), 2);
    model.apply(&next);
    agree(&store, &model, &before).await;
}

trait IntoKeys {
    fn into_keys(self) -> Vec<Key>;
}

impl IntoKeys for Vec<(Key, String)> {
    fn into_keys(self) -> Vec<Key> {
        self.into_iter().map(|(key, _)| key).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_large_change_that_nobody_folds_in_is_read_as_if_it_were() {
    let redis = RedisServer::start();
    let store = open(&redis.url()).await;
    let mut model = Model::default();
    let first = commit(0, ads("x:1", 0, 6_000, "old"), vec![]);
    store.commit(first.clone()).await.unwrap();
    model.apply(&first);
    until("it is folded in", async || !redis.run::<bool>(&["EXISTS", &key("overlay")])).await;

    let proxy = Proxy::start(redis.port);
    let dying = open(&proxy.url()).await;
    let mut puts = ads("x:1", 2_000, 4_000, "changed");
    puts.extend(ads("x:2", 0, 8_000, "new"));
    let large = commit(1, puts, ads("x:1", 0, 2_000, "").into_keys());
    dying.commit(large.clone()).await.unwrap();
    proxy.set(Mode::Blackhole);
    let before = model.clone();
    model.apply(&large);
    // What was on its way to Redis may still be done.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let left: usize = redis.run(&["HLEN", &key("overlay")]);
    assert!(left > 0, "it was folded in already, and this test shows nothing");
    agree(&store, &model, &before).await;
    agree(&store, &model, &Model::default()).await;

    // The next change folds it in; until then and afterwards all is the same.
    let next = commit(2, ads("x:1", 3_999, 4_001, "next"), ads("x:2", 5, 6, "").into_keys());
    let before = model.clone();
    assert_eq!(store.commit(next.clone()).await.unwrap(), 3);
    model.apply(&next);
    assert!(!redis.run::<bool>(&["EXISTS", &key("overlay")]));
    agree(&store, &model, &before).await;
    agree(&store, &model, &Model::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_import_among_pauses_and_puts_loses_none_of_them() {
    let redis = RedisServer::start();
    let nodes = three(&redis).await;
    fill(&nodes, 3).await;
    let many: Vec<_> = (0..3_000).map(|n| ad("x:2", &format!("u{n}"), &["z1"], 3, "")).collect();
    let importing = try_import(&nodes[0], ImportOptions::default(), &many);
    let others = async {
        let mut last = Active;
        for round in 0..30 {
            last = if last == Active { Paused } else { Active };
            crate::nodes::set(&nodes[1], "x:1", last).await;
            // Whoever loses every race is told, and has changed nothing.
            if put(&nodes[2], &format!("y:{}", round % 5), &round.to_string()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        last
    };
    let (imported, last) = tokio::join!(importing, others);
    let is_imported = match imported {
        Ok(_) => true,
        Err(status) => {
            assert_eq!(status.code(), tonic::Code::Aborted, "{status}");
            false
        }
    };
    assert_eq!(last, Active, "an even number of switches");
    let head: u64 = redis.run(&["HGET", &key("head"), "version"]);
    for node in &nodes {
        crate::support::served(node, head).await;
        well(node).await;
        assert_eq!(crate::nodes::best(node).await, "x:1");
        let ads = shown(node, "z1").await.len();
        assert_eq!(ads, if is_imported { 1_000 } else { 2 }, "a page of them");
        assert_eq!(shown(node, "z0").await, shown(&nodes[0], "z0").await);
    }
    let told: Vec<u64> = changes(&nodes[0]).await.into_keys().collect();
    assert_eq!(told, (1..=head).collect::<Vec<_>>());
    let all = export(&nodes[0]).await;
    assert_eq!(all.iter().filter(|line| line.contains("\"y:")).count(), 5);
    assert_eq!(all, export(&nodes[2]).await);
}
