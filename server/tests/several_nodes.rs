//! Several nodes on one Redis: fresh everywhere, and right when it fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

#[path = "several_nodes/holds.rs"]
mod holds;
#[path = "support/load.rs"]
mod load;
#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/redis.rs"]
mod redis_server;
mod support;
#[path = "several_nodes/visitors.rs"]
mod visitors;

use std::time::{Duration, Instant};

use load::Load;
use nodes::{best, fill, node, node_in, nodes_of, set, three, until};
use redis_server::RedisServer;
use slotwise_proto::v1::{CampaignStatus, ListChangesRequest, SetCampaignStatusRequest};
use support::catalog;
use tonic::Code;

/// How often the long tests are repeated.
fn rounds(usual: usize) -> usize {
    let given = std::env::var("SLOTWISE_TEST_ROUNDS").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(usual)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_pause_no_node_shows_the_campaign() {
    let redis = RedisServer::start();
    let nodes = three(&redis).await;
    fill(&nodes, 500).await;
    let load = Load::start(&nodes, 500).await;
    let mut times = Vec::new();
    for round in 0..rounds(200) {
        let node = &nodes[round % 3];
        let began = Instant::now();
        let paused = set(node, "x:1", CampaignStatus::Paused).await;
        times.push(began.elapsed());
        assert_eq!((paused.nodes_live, paused.nodes_applied, paused.nodes_silent), (3, 3, 0));
        assert_eq!((paused.ads_changed, paused.zones_changed), (1, 500));
        load.forbid("x:1").await;
        load.allow().await;
        let active = set(&nodes[(round + 1) % 3], "x:1", CampaignStatus::Active).await;
        assert_eq!((active.nodes_live, active.nodes_applied), (3, 3));
        load.expect("x:1").await;
    }
    let decided = load.stop().await;
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{} pauses over three nodes under load, {decided} decisions: p50 {:?}, p99 {:?}, largest {:?}",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_goes_away_for_ten_seconds_and_nobody_is_refused() {
    for is_emptied in [false, true] {
        let mut redis = RedisServer::start_durable();
        let nodes = three(&redis).await;
        fill(&nodes, 20).await;
        let before = set(&nodes[0], "x:2", CampaignStatus::Paused).await.catalog_version;
        let load = Load::start(&nodes, 20).await;
        load.expect("x:1").await;
        redis.kill();
        let degraded = async |wanted: bool| {
            let mut all = true;
            for node in &nodes {
                let own = nodes_of(node).await;
                all &= own.iter().any(|n| {
                    n.degraded == wanted
                        && n.degraded_reason.is_empty() != wanted
                        && n.node_id == node.app().admin.fleet.node_id()
                });
            }
            all
        };
        let seen = until("degraded is shown", async || degraded(true).await).await;
        let away = Duration::from_secs(10).saturating_sub(seen);
        tokio::time::sleep(away).await;
        load.expect("x:1").await;
        if is_emptied {
            redis.empty_disk();
        }
        redis.restart();
        let back = Instant::now();
        until("degraded is cleared", async || degraded(false).await).await;
        let healed = back.elapsed();
        println!("emptied: {is_emptied}; right again {healed:?} after Redis came back");
        // Everything is there, and changes work and reach every node.
        let paused = set(&nodes[1], "x:1", CampaignStatus::Paused).await;
        assert_eq!((paused.nodes_live, paused.nodes_applied), (3, 3));
        assert!(paused.catalog_version > before);
        load.forbid("x:1").await;
        let again = set(&nodes[2], "x:2", CampaignStatus::Paused).await;
        assert_eq!(again.ads_changed, 0, "it is still paused");
        let decided = load.stop().await;
        println!("{decided} decisions, none failed");
        let changes = ListChangesRequest::default();
        let changes = catalog(&nodes[0]).await.list_changes(changes).await.unwrap().into_inner();
        let refills = changes.changes.iter().filter_map(|record| record.change.as_ref());
        let refills = refills.filter(|change| change.summary.starts_with("refilled")).count();
        assert_eq!(refills, usize::from(is_emptied), "once, by one of them");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_starts_without_redis_serves_its_last_good_snapshot() {
    let mut redis = RedisServer::start_durable();
    let dir = tempfile::tempdir().unwrap();
    let first = node_in(&redis, "a", dir.path()).await;
    fill(std::slice::from_ref(&first), 3).await;
    set(&first, "x:1", CampaignStatus::Paused).await;
    let version = first.app().admin.served.borrow().version;
    first.stop().await;
    redis.kill();
    let again = node_in(&redis, "a", dir.path()).await;
    assert_eq!(best(&again).await, "x:2", "the pause is in the snapshot");
    let own = nodes_of(&again).await.remove(0);
    assert!(own.degraded, "{own:?}");
    assert_eq!(own.catalog_version, version);
    assert!(own.degraded_reason.contains(&format!("version {version} is served")), "{own:?}");
    redis.restart();
    until("it follows Redis again", async || !nodes_of(&again).await[0].degraded).await;
    set(&again, "x:1", CampaignStatus::Active).await;
    assert_eq!(best(&again).await, "x:1");
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kill_while_redis_is_away_holds_and_is_stored_later() {
    let mut redis = RedisServer::start_durable();
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (node_in(&redis, "a", dir.path()).await, node(&redis, "b").await);
    let nodes = [a, b];
    fill(&nodes, 3).await;
    redis.kill();
    let answer = set(&nodes[0], "x:1", CampaignStatus::Paused).await;
    assert_eq!((answer.catalog_version, answer.nodes_applied), (0, 1), "{answer:?}");
    assert_eq!(best(&nodes[0]).await, "x:2");
    assert_eq!(best(&nodes[1]).await, "x:1", "the other one was not asked");
    let unknown = SetCampaignStatusRequest {
        campaign_id: "x:9".into(),
        status: CampaignStatus::Paused.into(),
        wait: None,
    };
    let status = catalog(&nodes[0]).await.set_campaign_status(unknown).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let [a, b] = nodes;
    a.stop().await;
    let a = node_in(&redis, "a", dir.path()).await;
    assert_eq!(best(&a).await, "x:2", "also after a restart");
    redis.restart();
    until("the kill reaches the other node", async || best(&b).await == "x:2").await;
    assert_eq!(best(&a).await, "x:2");
    set(&b, "x:1", CampaignStatus::Active).await;
    assert_eq!(best(&b).await, "x:1");
    until("and is lifted", async || best(&a).await == "x:1").await;
    a.stop().await;
    b.stop().await;
}
