//! A Redis that is there, and does not do what it is asked: full, a replica, loading, or with
//! another password.

use slotwise_proto::v1::CampaignStatus::{Active, Paused};
use slotwise_proto::v1::ImportOptions;

use super::{assert_unavailable, changes, export, key, put};
use crate::load::Load;
use crate::nodes::{best, degraded, fill, node, node_at, nodes_of, says, set, until, well};
use crate::redis_server::RedisServer;
use crate::support::{ad, try_import};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn out_of_memory_nothing_is_half_written() {
    let redis = RedisServer::start();
    let nodes = [node(&redis, "a").await, node(&redis, "b").await];
    fill(&nodes, 3).await;
    let load = Load::start(&nodes, 3).await;
    let (before, told) = (export(&nodes[0]).await, changes(&nodes[0]).await);
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    for node in &nodes {
        says(node, "OOM").await;
    }
    assert_unavailable(put(&nodes[0], "x:9", "").await, "OOM");
    let many: Vec<_> = (0..500).map(|n| ad("x:1", &format!("u{n}"), &["z0"], 1, "")).collect();
    assert_unavailable(try_import(&nodes[1], ImportOptions::default(), &many).await, "OOM");
    assert_eq!((export(&nodes[0]).await, changes(&nodes[0]).await), (before, told));
    load.expect("x:1").await;
    // A pause is taken by the node that was asked, and stored when there is room.
    let paused = set(&nodes[0], "x:1", Paused).await;
    assert_eq!((paused.catalog_version, paused.nodes_applied), (0, 1), "{paused:?}");
    assert_eq!((best(&nodes[0]).await, best(&nodes[1]).await), ("x:2".into(), "x:1".into()));
    // Reading needs no memory of Redis's: a node can start.
    let fresh = node(&redis, "c").await;
    assert_eq!(best(&fresh).await, "x:1");

    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    for node in &nodes {
        well(node).await;
        until("the pause is everywhere", async || best(node).await == "x:2").await;
    }
    put(&nodes[0], "x:9", "").await.unwrap();
    load.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_master_that_becomes_a_replica() {
    let redis = RedisServer::start();
    let nodes = [node(&redis, "a").await, node(&redis, "b").await];
    fill(&nodes, 3).await;
    let load = Load::start(&nodes, 3).await;
    let nobody = crate::redis_server::free_port().to_string();
    redis.run::<()>(&["REPLICAOF", "127.0.0.1", &nobody]);
    for node in &nodes {
        says(node, "replica").await;
    }
    assert_unavailable(put(&nodes[0], "x:9", "").await, "replica");
    load.expect("x:1").await;
    redis.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    for node in &nodes {
        well(node).await;
    }
    put(&nodes[0], "x:9", "").await.unwrap();
    assert_eq!(set(&nodes[1], "x:1", Paused).await.nodes_applied, 2);
    load.forbid("x:1").await;
    load.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_loads_is_away() {
    // Two milliseconds for each key, and a look at its clients after each KB.
    let slow = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"];
    let mut redis = RedisServer::start_with(&slow);
    let nodes = [node(&redis, "a").await];
    fill(&nodes, 3).await;
    let fill = "for n = 1, 1000 do redis.call('SET', 'other:' .. n, string.rep('x', 100)) end";
    redis.run::<()>(&["EVAL", fill, "0"]);
    set(&nodes[0], "x:1", Paused).await;
    redis.run::<()>(&["SAVE"]);
    let load = Load::start(&nodes, 3).await;
    redis.kill();
    redis.launch();
    says(&nodes[0], "LOADING").await;
    load.expect("x:2").await;
    assert_unavailable(put(&nodes[0], "x:9", "").await, "LOADING");
    well(&nodes[0]).await;
    put(&nodes[0], "x:9", "").await.unwrap();
    assert_eq!(set(&nodes[0], "x:1", Active).await.ads_changed, 1);
    load.expect("x:1").await;
    load.stop().await;
}

/// As after an operator changed it: connections that are open go.
fn cut_clients(redis: &RedisServer) {
    redis.run::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_password_that_changes() {
    let mut redis = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    let file_name = file.display().to_string();
    redis.set_password(Some("one"));
    std::fs::write(&file, "one\n").unwrap();
    let with_file = [("redis_password_file", file_name.as_str())];
    let from_file = node_at(&redis.url(), "a", &with_file).await;
    let from_url = node_at(&redis.url().replace("//", "//:one@"), "b", &[]).await;
    let nodes = [from_file, from_url];
    fill(&nodes, 3).await;
    let load = Load::start(&nodes, 3).await;

    redis.set_password(Some("two"));
    cut_clients(&redis);
    for node in &nodes {
        let said = says(node, "Password authentication failed").await;
        assert!(!said.contains("one") && !said.contains("two"), "{said}");
    }
    assert_unavailable(put(&nodes[0], "x:9", "").await, "assword");
    load.expect("x:1").await;
    // Whoever reads it from a file follows.
    std::fs::write(&file, "two\n").unwrap();
    well(&nodes[0]).await;
    put(&nodes[0], "x:9", "").await.unwrap();
    assert!(!degraded(&nodes[1]).await.is_empty());
    let known = nodes_of(&nodes[0]).await;
    assert_eq!(known.len(), 2, "{known:?}");
    // And the other one once the old password is back.
    redis.set_password(Some("one"));
    std::fs::write(&file, "one\n").unwrap();
    cut_clients(&redis);
    for node in &nodes {
        well(node).await;
    }
    assert_eq!(set(&nodes[1], "x:1", Paused).await.nodes_applied, 2);
    load.forbid("x:1").await;

    // None at all where one was wanted, and where one is wanted all at once.
    redis.set_password(None);
    let open = node_at(&redis.url(), "c", &[]).await;
    redis.set_password(Some("three"));
    cut_clients(&redis);
    says(&open, "NOAUTH").await;
    redis.set_password(None);
    well(&open).await;
    load.stop().await;
}

/// What nodes say of themselves is one key, and may be lost like any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_are_not_heard_say_so() {
    let redis = RedisServer::start();
    let a = node(&redis, "a").await;
    redis.run::<()>(&["DEL", &key("nodes")]);
    redis.run::<()>(&["SET", &key("nodes"), "x"]);
    says(&a, "WRONGTYPE").await;
    redis.run::<()>(&["DEL", &key("nodes")]);
    well(&a).await;
}
