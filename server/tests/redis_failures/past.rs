//! A store that is not where a node left it: it went back, went on by another way, or no longer
//! knows what the node would have to hear.

use slotwise_proto::v1::CampaignStatus::{self, Active, Paused};
use slotwise_proto::v1::GetCampaignRequest;
use slotwise_server::testing::Server;

use super::{export, key, put, shown};
use crate::load::Load;
use crate::nodes::{best, fill, node, node_at, set, three, until, well};
use crate::proxy::{Mode, Proxy};
use crate::redis_server::RedisServer;
use crate::support::{ad, catalog, import};

/// The switch of a campaign as it is stored.
async fn stored(node: &Server, campaign: &str) -> CampaignStatus {
    let request = GetCampaignRequest { campaign_id: campaign.into() };
    catalog(node).await.get_campaign(request).await.unwrap().into_inner().status()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_that_lost_changes_revives_no_campaign() {
    let mut redis = RedisServer::start();
    let nodes = three(&redis).await;
    fill(&nodes, 3).await;
    set(&nodes[0], "x:2", Paused).await;
    // What the replica has that will be the master.
    redis.run::<()>(&["SAVE"]);
    set(&nodes[0], "x:2", Active).await;
    put(&nodes[1], "x:9", "lost").await.unwrap();
    let before = set(&nodes[2], "x:1", Paused).await.catalog_version;
    let load = Load::start(&nodes, 3).await;
    load.forbid("x:1").await;
    redis.kill();
    redis.restart();
    until("the pause is stored again", async || {
        let request = GetCampaignRequest { campaign_id: "x:1".into() };
        let campaign = catalog(&nodes[0]).await.get_campaign(request).await;
        campaign.is_ok_and(|campaign| campaign.into_inner().status() == Paused)
    })
    .await;
    for node in &nodes {
        well(node).await;
        assert_eq!(stored(node, "x:1").await, Paused);
        // What was activated and is lost is lost, and every node says the same.
        until("it has followed the store back", async || best(node).await.is_empty()).await;
        assert_eq!(shown(node, "z0").await, ["x:1/u", "x:2/u"]);
    }
    let head: u64 = redis.run(&["HGET", &key("head"), "version"]);
    assert!(head < before, "it did go back: {head} after {before}");
    assert_eq!(set(&nodes[1], "x:2", Active).await.nodes_applied, 3);
    load.expect("x:2").await;
    load.allow().await;
    assert_eq!(set(&nodes[0], "x:1", Active).await.nodes_applied, 3);
    load.expect("x:1").await;
    load.stop().await;
}

/// The node that knows of the pause comes back when others have long written on, so that the
/// store is further than the node ever was.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pause_is_kept_where_the_store_went_back_and_on() {
    let mut redis = RedisServer::start();
    let proxy = Proxy::start(redis.port);
    let alone = node_at(&proxy.url(), "alone", &[]).await;
    fill(std::slice::from_ref(&alone), 3).await;
    redis.run::<()>(&["SAVE"]);
    let before = set(&alone, "x:1", Paused).await.catalog_version;
    proxy.set(Mode::Blackhole);
    proxy.cut();
    redis.kill();
    redis.restart();
    let other = node(&redis, "other").await;
    assert_eq!(best(&other).await, "x:1", "nobody knows of the pause here");
    for round in 0..5 {
        put(&other, "x:9", &format!("round {round}")).await.unwrap();
    }
    let version = other.app().admin.served.borrow().version;
    assert!(version > before, "{version}, {before}");
    proxy.set(Mode::Pass);
    well(&alone).await;
    assert_eq!(best(&alone).await, "x:2");
    until("the others hear of it", async || best(&other).await == "x:2").await;
    assert_eq!(stored(&other, "x:1").await, Paused);
    until("and both say the same", async || {
        let version = |node: &Server| node.app().admin.served.borrow().version;
        version(&alone) == version(&other)
    })
    .await;
    // Whoever was active and is meant to be stays so.
    assert_eq!(set(&other, "x:1", Active).await.nodes_applied, 2);
    assert_eq!(best(&alone).await, "x:1");
}

/// What a node has not heard of is no longer kept; a campaign was activated meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_was_away_for_too_long_loads_everything() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port);
    let (near, far) = (node(&redis, "near").await, node_at(&proxy.url(), "far", &[]).await);
    let nodes = [near, far];
    fill(&nodes, 3).await;
    set(&nodes[0], "x:2", Paused).await;
    until("it is heard", async || shown(&nodes[1], "z0").await.len() == 2).await;
    proxy.set(Mode::Blackhole);
    proxy.cut();
    import(&nodes[0], &[ad("x:2", "new", &["z0", "z1"], 30, "")]).await;
    set(&nodes[0], "x:2", Active).await;
    let trimmed = set(&nodes[0], "x:1", Paused).await.catalog_version;
    redis.run::<()>(&["HSET", &key("head"), "removed_from", &trimmed.to_string()]);
    proxy.set(Mode::Pass);
    until("it has followed", async || nodes[1].app().admin.served.borrow().version == trimmed)
        .await;
    well(&nodes[1]).await;
    for zone in ["z0", "z1", "z2"] {
        assert_eq!(shown(&nodes[1], zone).await, shown(&nodes[0], zone).await);
    }
    assert_eq!(best(&nodes[1]).await, "x:2", "what was activated is not held");
    assert_eq!(stored(&nodes[0], "x:2").await, Active);

    // Another mark than the node's own: the same version by another way.
    redis.run::<()>(&["HSET", &key("head"), "mark", "7"]);
    put(&nodes[0], "x:9", "after").await.unwrap();
    until("both have followed", async || {
        nodes.iter().all(|node| node.app().admin.served.borrow().version == trimmed + 1)
    })
    .await;
    assert_eq!(export(&nodes[0]).await, export(&nodes[1]).await);
    for node in &nodes {
        well(node).await;
        assert_eq!(best(node).await, "x:2");
    }
}
