//! What nodes of different ages, clocks and minds owe each other.

use std::sync::Arc;
use std::time::Duration;

use slotwise_proto::v1::CampaignStatus::{Active, Paused};
use slotwise_proto::v1::SetCampaignStatusRequest;
use slotwise_server::app::SystemClock;
use slotwise_server::ports::Clock;
use slotwise_server::testing::Server;
use tonic::Code;

use super::{key, put, touch};
use crate::load::Load;
use crate::nodes::{best, degraded, fill, node, nodes_of, says, set, three, until, well};
use crate::redis_server::RedisServer;
use crate::support::{ask, catalog, decisions};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_pause_has_returned_no_zone_of_any_node_has_the_campaign() {
    let redis = RedisServer::start();
    let nodes = three(&redis).await;
    fill(&nodes, 20).await;
    let paused = set(&nodes[1], "x:1", Paused).await;
    for node in &nodes {
        let mut client = decisions(node).await;
        for zone in 0..20 {
            let request = ask(&format!("z{zone}"), "somebody", 10);
            let answer = client.choose_ads(request).await.unwrap().into_inner();
            let campaigns: Vec<_> = answer.ads.iter().map(|ad| ad.campaign_id.as_str()).collect();
            assert_eq!(campaigns, ["x:2"], "zone {zone}");
        }
    }
    assert_eq!((paused.ads_changed, paused.zones_changed), (1, 20));
    assert_eq!((paused.nodes_live, paused.nodes_applied), (3, 3));
    let again = set(&nodes[2], "x:1", Paused).await;
    assert_eq!((again.ads_changed, again.zones_changed), (0, 0), "{again:?}");
    assert_eq!(again.catalog_version, paused.catalog_version);
    for node in &nodes {
        let unknown = SetCampaignStatusRequest {
            campaign_id: "x:404".into(),
            status: Paused.into(),
            wait: None,
        };
        let status = catalog(node).await.set_campaign_status(unknown).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
        assert!(status.message().contains("x:404"), "{status}");
    }
}

/// What a newer version writes into places of ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_newer_node_writes_is_kept_and_does_no_harm() {
    // Field 999, a number: none that this version knows.
    const UNKNOWN: &[u8] = b"\xb8\x3e\x2a";
    let redis = RedisServer::start();
    let a = node(&redis, "a").await;
    fill(std::slice::from_ref(&a), 3).await;
    let mut connection = redis.connection();
    let objects = key("objects");
    for name in ["4\0x:1", "5x:1\0u"] {
        let value: Vec<u8> =
            redis::cmd("HGET").arg(&objects).arg(name).query(&mut connection).unwrap();
        let newer = [&value[..], UNKNOWN].concat();
        redis::cmd("HSET").arg(&objects).arg(name).arg(newer).exec(&mut connection).unwrap();
    }
    touch(&redis, &["4\0x:1", "5x:1\0u"]);
    redis.run::<()>(&["HSET", &key("head"), "future", "x y z"]);
    let now: Vec<u64> = redis.run(&["TIME"]);
    let later = format!("{}000000 7 0 0 and more\nof itself", now[0] + 1);
    redis.run::<()>(&["HSET", &key("nodes"), "newer", &later]);
    redis.run::<()>(&["HSET", &key("nodes"), "from afar", &later.replace(' ', "|")]);

    let nodes = [a, node(&redis, "b").await];
    for node in &nodes {
        assert_eq!(best(node).await, "x:1");
        assert_eq!(degraded(node).await, "");
        let known = nodes_of(node).await;
        let names: Vec<_> = known.iter().map(|node| node.node_id.as_str()).collect();
        assert_eq!(names, ["a", "b", "newer"], "what cannot be read is left out");
        assert!(known.iter().all(|node| node.quarantined_rows == 0), "{known:?}");
    }
    set(&nodes[1], "x:1", Paused).await;
    set(&nodes[0], "x:1", Active).await;
    put(&nodes[1], "x:2", "another one").await.unwrap();
    for name in ["4\0x:1", "5x:1\0u"] {
        let value: Vec<u8> =
            redis::cmd("HGET").arg(&objects).arg(name).query(&mut connection).unwrap();
        assert!(value.ends_with(UNKNOWN), "{name:?} has lost what a newer node wrote");
    }
    let future: String = redis.run(&["HGET", &key("head"), "future"]);
    assert_eq!(future, "x y z");
    // Also where the store is emptied, and filled from a node.
    redis.run::<()>(&["FLUSHALL"]);
    until("it is filled", async || redis.run::<bool>(&["HEXISTS", &key("objects"), "5x:1\0u"]))
        .await;
    let value: Vec<u8> =
        redis::cmd("HGET").arg(&objects).arg("5x:1\0u").query(&mut connection).unwrap();
    assert!(value.ends_with(UNKNOWN), "it is lost on the way over a node's disk");
}

/// The machine's clock, five seconds ahead.
struct Ahead;

impl Clock for Ahead {
    fn now_us(&self) -> i64 {
        SystemClock.now_us() + 5_000_000
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_clock_that_is_off_is_told_and_does_no_harm() {
    let redis = RedisServer::start();
    let url = redis.url();
    let settings = [("store", url.as_str()), ("node_id", "ahead")];
    let nodes = [Server::start_with(Arc::new(Ahead), &settings).await, node(&redis, "right").await];
    fill(&nodes, 3).await;
    let said = says(&nodes[0], "clock").await;
    assert!(said.contains("+5.0 s") || said.contains("+4.9 s"), "{said}");
    assert_eq!(degraded(&nodes[1]).await, "");
    until("the others know", async || {
        nodes_of(&nodes[1]).await.iter().any(|node| node.node_id == "ahead" && node.degraded)
    })
    .await;
    let load = Load::start(&nodes, 3).await;
    for (at, status) in [(0, Paused), (1, Active), (1, Paused), (0, Active)] {
        let switched = set(&nodes[at], "x:1", status).await;
        assert_eq!((switched.nodes_live, switched.nodes_applied), (2, 2));
    }
    put(&nodes[0], "x:9", "from the future").await.unwrap();
    load.stop().await;
    // It says so once a second, and not without a pause.
    let before = redis.calls(&["evalsha"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let words = redis.calls(&["evalsha"]) - before;
    assert!(words < 50, "{words} scripts in a second in which nothing happened");
    well(&nodes[1]).await;
}
