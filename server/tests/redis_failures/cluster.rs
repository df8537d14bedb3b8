//! A cluster of which one node dies.

use std::time::{Duration, Instant};

use slotwise_proto::v1::CampaignStatus::Paused;
use tonic::Code;

use super::put;
use crate::load::Load;
use crate::nodes::{best, fill, node_at, says, set, until, well};
use crate::redis_server::{RedisCluster, RedisServer};

/// Which of the three has the catalogue.
fn holder(cluster: &RedisCluster) -> usize {
    let slot: usize = cluster.nodes[0].run(&["CLUSTER", "KEYSLOT", "{slotwise}:head"]);
    (0..3).find(|at| slot < (at + 1) * 16_384 / 3).unwrap()
}

fn state(node: &RedisServer) -> bool {
    node.run::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dead_master_stops_what_it_has_and_nothing_else() {
    let mut cluster = RedisCluster::start();
    let url = cluster.url();
    let nodes = [node_at(&url, "a", &[]).await, node_at(&url, "b", &[]).await];
    fill(&nodes, 3).await;
    let load = Load::start(&nodes, 3).await;
    let (holder, other) = (holder(&cluster), (holder(&cluster) + 1) % 3);

    cluster.nodes[other].kill();
    let (mut slowest, began) = (Duration::ZERO, Instant::now());
    let mut round = 0;
    // Past the moment when the others have given it up.
    while began.elapsed() < Duration::from_secs(4) {
        let asked = Instant::now();
        put(&nodes[round % 2], "x:9", &format!("round {round}")).await.unwrap();
        slowest = slowest.max(asked.elapsed());
        round += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(slowest < Duration::from_secs(1), "no call waits for the dead one: {slowest:?}");
    load.expect("x:1").await;
    cluster.nodes[other].restart();
    until("the cluster is whole", async || cluster.nodes.iter().all(state)).await;

    cluster.nodes[holder].kill();
    for node in &nodes {
        says(node, "is served").await;
    }
    let status = put(&nodes[0], "x:9", "while it is away").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    load.expect("x:1").await;
    let paused = set(&nodes[0], "x:1", Paused).await;
    assert_eq!((paused.catalog_version, paused.nodes_applied), (0, 1), "{paused:?}");
    // It keeps nothing on disk, and comes back empty.
    cluster.nodes[holder].restart();
    for node in &nodes {
        well(node).await;
        until("the pause is everywhere", async || best(node).await == "x:2").await;
    }
    put(&nodes[1], "x:9", "afterwards").await.unwrap();
    load.forbid("x:1").await;
    load.stop().await;
}
