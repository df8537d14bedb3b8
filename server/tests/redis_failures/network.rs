//! What a network, or a machine that stands still, does to a conversation with Redis.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use slotwise_proto::v1::CampaignStatus::{Active, Paused};
use slotwise_proto::v1::{GetCampaignRequest, ImportOptions, ListAccountsRequest};
use tonic::Code;

use super::{changes, put, shown};
use crate::load::Load;
use crate::nodes::{best, degraded, fill, node, node_at, says, set, until, well};
use crate::proxy::{Mode, Proxy};
use crate::redis_server::RedisServer;
use crate::support::{ad, campaign, catalog, try_import};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_stands_still_and_decisions_go_on() {
    let redis = RedisServer::start();
    let nodes = [node(&redis, "a").await, node(&redis, "b").await];
    fill(&nodes, 3).await;
    let load = Load::start(&nodes, 3).await;
    redis.signal("STOP");
    load.expect("x:1").await;
    let asked = Instant::now();
    let paused = set(&nodes[0], "x:1", Paused).await;
    let took = asked.elapsed();
    assert_eq!((paused.catalog_version, paused.nodes_applied), (0, 1), "{paused:?}");
    assert!(took < Duration::from_secs(4), "two seconds and a slow machine: {took:?}");
    assert_eq!(best(&nodes[0]).await, "x:2");
    for node in &nodes {
        says(node, "redis at 127.0.0.1").await;
        says(node, "is served").await;
    }
    redis.signal("CONT");
    let began = Instant::now();
    for node in &nodes {
        well(node).await;
    }
    let healed = began.elapsed();
    assert!(healed < Duration::from_secs(4), "two seconds and a slow machine: {healed:?}");
    until("the pause is stored", async || best(&nodes[1]).await == "x:2").await;
    load.forbid("x:1").await;
    load.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_line_makes_changes_slow_and_nothing_else() {
    let redis = RedisServer::start();
    let near = node(&redis, "near").await;
    fill(std::slice::from_ref(&near), 3).await;
    let proxy = Proxy::start(redis.port);
    proxy.set(Mode::Delay(Duration::from_millis(300)));
    let far = node_at(&proxy.url(), "far", &[]).await;
    let nodes = [near, far];
    let load = Load::start(&nodes, 3).await;
    put(&nodes[1], "x:9", "from afar").await.unwrap();
    assert!(set(&nodes[1], "x:1", Paused).await.catalog_version > 0);
    until("it is there", async || best(&nodes[1]).await == "x:2").await;
    until("and here", async || best(&nodes[0]).await == "x:2").await;
    assert!(set(&nodes[0], "x:1", Active).await.catalog_version > 0);
    until("it is back there", async || best(&nodes[1]).await == "x:1").await;
    assert_eq!(degraded(&nodes[1]).await, "");
    load.stop().await;
}

/// Bytes between two cuts: no multiple of what a reply is made of.
const STEP: usize = 31;

/// Cuts the conversation after so many bytes of replies, in the middle of everything that a
/// change reads and writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_that_is_cut_anywhere_loses_and_doubles_nothing() {
    let redis = RedisServer::start();
    let direct = node(&redis, "direct").await;
    fill(std::slice::from_ref(&direct), 3).await;
    let first = direct.app().admin.served.borrow().version;
    let proxy = Proxy::start(redis.port);
    let node = node_at(&proxy.url(), "behind", &[]).await;
    let (mut acknowledged, mut unknown) = (BTreeMap::new(), 0);
    for (at, bytes) in (0..1_500).step_by(STEP).enumerate() {
        let id = format!("y:{bytes}");
        proxy.set(Mode::CutAfter(bytes));
        let version = if at % 3 == 0 {
            let ads = (0..3).map(|n| ad(&id, &format!("u{n}"), &["z1"], 1, ""));
            let records: Vec<_> = std::iter::once(campaign(&id, "")).chain(ads).collect();
            let done = try_import(&node, ImportOptions::default(), &records).await;
            done.map(|done| done.catalog_version)
        } else {
            put(&node, &id, "cut").await.map(|change| change.catalog_version)
        };
        match version {
            Ok(version) => drop(acknowledged.insert(version, id)),
            Err(status) => {
                assert_eq!(status.code(), Code::Unavailable, "{status}");
                unknown += 1;
            }
        }
        proxy.set(Mode::Pass);
        until("it is connected", async || {
            catalog(&node).await.list_accounts(ListAccountsRequest::default()).await.is_ok()
        })
        .await;
    }
    assert!(unknown > 10 && acknowledged.len() > 10, "{unknown}, {}", acknowledged.len());

    let told = changes(&direct).await;
    let head = direct.app().admin.served.borrow().version;
    let versions: Vec<u64> = told.keys().copied().collect();
    assert_eq!(versions, (1..=head).collect::<Vec<_>>(), "without holes");
    let mut stored = 0;
    for bytes in (0..1_500).step_by(STEP) {
        let id = format!("y:{bytes}");
        let request = GetCampaignRequest { campaign_id: id.clone() };
        let is_there = catalog(&direct).await.get_campaign(request).await.is_ok();
        let is_acknowledged = acknowledged.values().any(|known| *known == id);
        assert!(is_there || !is_acknowledged, "{id} is lost");
        stored += u64::from(is_there);
        let ads = shown(&direct, "z1").await;
        let ads = ads.iter().filter(|ad| ad.starts_with(&format!("{id}/"))).count();
        let is_import = (bytes / STEP).is_multiple_of(3);
        assert_eq!(ads, if is_import && is_there { 3 } else { 0 }, "{id}, as a whole");
    }
    assert_eq!(head - first, stored, "each change is one version");
    for (version, id) in &acknowledged {
        let (told, _) = &told[version];
        assert!(told == id || told.is_empty(), "version {version} is of {told:?}, not of {id}");
    }
    well(&node).await;
    assert_eq!(shown(&node, "z1").await, shown(&direct, "z1").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn garbage_in_place_of_replies_is_served_to_nobody() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port);
    let nodes = [node_at(&proxy.url(), "a", &[]).await];
    fill(&nodes, 3).await;
    let before = shown(&nodes[0], "z0").await;
    let load = Load::start(&nodes, 3).await;
    for round in 0..3 {
        let connections = proxy.connections();
        proxy.set(Mode::Garbage);
        says(&nodes[0], "is served").await;
        assert_eq!(put(&nodes[0], "x:9", "").await.unwrap_err().code(), Code::Unavailable);
        load.expect("x:1").await;
        proxy.set(Mode::Pass);
        well(&nodes[0]).await;
        assert!(proxy.connections() > connections, "it connects anew");
        put(&nodes[0], "x:8", &format!("round {round}")).await.unwrap();
    }
    assert_eq!(shown(&nodes[0], "z0").await, before);
    load.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_published_and_not_heard_is_found_all_the_same() {
    let redis = RedisServer::start();
    let nodes = [node(&redis, "a").await, node(&redis, "b").await];
    fill(&nodes, 3).await;
    let load = Load::start(&nodes, 3).await;
    redis.run::<()>(&["ACL", "SETUSER", "default", "-subscribe", "-psubscribe"]);
    redis.run::<()>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    for (status, wanted) in [(Paused, "x:2"), (Active, "x:1"), (Paused, "x:2")] {
        let switched = set(&nodes[0], "x:1", status).await;
        assert_eq!((switched.nodes_live, switched.nodes_applied), (2, 2), "within its second");
        assert_eq!(best(&nodes[1]).await, wanted);
    }
    let heard: Vec<String> = redis.run(&["PUBSUB", "CHANNELS"]);
    assert_eq!(heard, Vec::<String>::new(), "nobody heard anything");
    assert_eq!(degraded(&nodes[1]).await, "");
    redis.run::<()>(&["ACL", "SETUSER", "default", "+subscribe", "+psubscribe"]);
    until("it is heard again", async || {
        redis.run::<Vec<String>>(&["PUBSUB", "CHANNELS"]).len() == 1
    })
    .await;
    load.stop().await;
}
