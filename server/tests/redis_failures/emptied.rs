//! Redis came back empty, or was emptied, under running nodes.

use std::collections::HashMap;
use std::path::Path;

use slotwise_proto::v1::CampaignStatus::{Active, Paused};
use slotwise_proto::v1::ForgetUserRequest;
use slotwise_proto::v1::user_service_client::UserServiceClient;

use super::{changes, key, put, shown};
use crate::load::Load;
use crate::nodes::{best, fill, node, node_in, set, three, until, well};
use crate::redis_server::RedisServer;
use crate::support::{ad, campaign, channel, import};

fn head(redis: &RedisServer) -> HashMap<String, u64> {
    let head: HashMap<String, String> = redis.run(&["HGETALL", &key("head")]);
    head.into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

fn serial_of(redis: &RedisServer, name: &str) -> u64 {
    let value: String = redis.run(&["HGET", &key("objects"), name]);
    value.split(' ').next().unwrap().parse().unwrap()
}

fn secret_of(redis: &RedisServer) -> Vec<u8> {
    redis.run(&["HGET", &key("secrets"), "visitor-hash"])
}

/// Whether the snapshot in `dir` holds these bytes.
fn snapshot_holds(dir: &Path, bytes: &[u8]) -> bool {
    let whole = std::fs::read(dir.join("catalog.snapshot")).unwrap_or_default();
    whole.windows(bytes.len()).any(|window| window == bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_emptied_store_is_filled_once_and_nothing_comes_back_to_life() {
    let redis = RedisServer::start();
    let nodes = three(&redis).await;
    fill(&nodes, 5).await;
    import(&nodes[0], &[campaign("x:3", ""), ad("x:3", "u", &["z0"], 20, "")]).await;
    let version = set(&nodes[1], "x:3", Paused).await.catalog_version;
    let (before, secret) = (head(&redis), secret_of(&redis));
    let load = Load::start(&nodes, 5).await;
    load.expect("x:1").await;
    load.forbid("x:3").await;

    redis.run::<()>(&["FLUSHALL"]);
    // A pause in the moment of the loss holds like any other.
    set(&nodes[2], "x:2", Paused).await;
    let dir = tempfile::tempdir().unwrap();
    let fresh = node_in(&redis, "d", dir.path()).await;
    for node in nodes.iter().chain([&fresh]) {
        well(node).await;
    }
    until("the pause is stored", async || set(&nodes[0], "x:2", Paused).await.ads_changed == 0)
        .await;
    assert_eq!(best(&fresh).await, "x:1", "who joins meanwhile waits for the catalogue");

    let after = head(&redis);
    assert!(after["version"] > version, "{after:?}");
    let refills = changes(&nodes[0]).await;
    let refills = refills.values().filter(|(_, summary)| summary.starts_with("refilled")).count();
    assert_eq!(refills, 1, "by one of them");
    assert_eq!(secret_of(&redis), secret, "visitors are who they were");
    until("it has the secret", async || snapshot_holds(dir.path(), &secret)).await;
    put(&nodes[0], "x:4", "").await.unwrap();
    let serial = serial_of(&redis, "4\0x:4");
    assert!(serial > before["serial:4"], "{serial} after {before:?}");
    for node in &nodes {
        assert_eq!(shown(node, "z0").await, ["x:3/u", "x:1/u", "x:2/u"]);
    }
    // In every account: there are not so many that it would take long, whatever was refilled.
    let mut users = UserServiceClient::new(channel(nodes[1].admin_addr()).await);
    let forget = ForgetUserRequest { account_id: String::new(), user_id: "visitor-1".into() };
    users.forget_user(forget).await.unwrap();
    load.allow().await;
    set(&nodes[0], "x:3", Active).await;
    load.expect("x:3").await;
    load.stop().await;
}

/// Only the key is gone that says where the catalogue stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_head_is_made_anew() {
    let redis = RedisServer::start();
    let node = node(&redis, "a").await;
    fill(std::slice::from_ref(&node), 2).await;
    let version = set(&node, "x:1", Paused).await.catalog_version;
    redis.run::<()>(&["DEL", &key("head")]);
    until("it is there again", async || head(&redis).get("version") > Some(&version)).await;
    well(&node).await;
    assert_eq!(best(&node).await, "x:2");
    assert_eq!(set(&node, "x:1", Active).await.ads_changed, 1);
    assert_eq!(best(&node).await, "x:1");
}
