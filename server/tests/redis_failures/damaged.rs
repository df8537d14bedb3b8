//! What somebody wrote into Redis by hand, or lost there.

use std::collections::HashMap;
use std::time::Duration;

use slotwise_proto::v1::CampaignStatus::{Active, Paused};
use slotwise_proto::v1::ImportOptions;
use slotwise_server::testing::Server;

use super::{assert_unavailable, changes, export, key, put, shown, touch};
use crate::load::Load;
use crate::nodes::{best, degraded, fill, node, node_in, nodes_of, says, set, until, well};
use crate::redis_server::RedisServer;
use crate::support::{ad, campaign, import, try_import};

async fn quarantined(node: &Server) -> u32 {
    let own = node.app().admin.fleet.node_id().to_owned();
    let nodes = nodes_of(node).await;
    nodes.into_iter().find(|node| node.node_id == own).unwrap().quarantined_rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_that_make_no_sense_are_counted_and_left_out() {
    let redis = RedisServer::start();
    let a = node(&redis, "a").await;
    fill(std::slice::from_ref(&a), 3).await;
    import(&a, &[campaign("x:3", ""), ad("x:3", "u", &["z0"], 30, "")]).await;
    let (objects, sound) = (key("objects"), redis_objects(&redis));
    // No header; a header of words; another kind's body; a body that is no message.
    let ad_header = String::from_utf8_lossy(&sound["5x:3\0u"]).lines().next().unwrap().to_owned();
    let zone_body: Vec<u8> = sound["3s\0z1"].splitn(2, |b| *b == b'\n').nth(1).unwrap().to_vec();
    let wrong_kind = [ad_header.as_bytes(), b"\n", &zone_body].concat();
    let no_message = [ad_header.as_bytes(), b"\n\xff\xff\xff"].concat();
    let mut connection = redis.connection();
    for (round, bad) in
        [&b"garbage"[..], b"a b c d e\nf", b"", &wrong_kind, &no_message].into_iter().enumerate()
    {
        let mut write = redis::cmd("HSET");
        write.arg(&objects).arg("5x:3\0u").arg(bad).exec(&mut connection).unwrap();
        touch(&redis, &["5x:3\0u"]);
        until("it is counted", async || quarantined(&a).await == 1).await;
        assert_eq!(best(&a).await, "x:1", "round {round}");
        if round == 0 {
            let b = node(&redis, "b").await;
            assert_eq!((best(&b).await, quarantined(&b).await), ("x:1".into(), 1));
        }
        // Written anew, it is served again.
        import(&a, &[ad("x:3", "u", &["z0"], 30, "")]).await;
        assert_eq!((best(&a).await, quarantined(&a).await), ("x:3".into(), 0));
    }
    // A name of nobody's, a campaign's switch and a campaign's row.
    redis.run::<()>(&["HSET", &objects, "nobody's", "garbage"]);
    redis.run::<()>(&["ZADD", &key("ids"), "0", "nobody's"]);
    redis.run::<()>(&["HSET", &key("statuses"), "x:3", "garbage"]);
    redis.run::<()>(&["HSET", &objects, "4\0x:1", "garbage"]);
    touch(&redis, &["4\0x:1", "4\0x:3"]);
    until("it goes, with its ad", async || best(&a).await == "x:3").await;
    until("the row is counted", async || quarantined(&a).await == 1).await;
    import(&a, &[campaign("x:1", "")]).await;
    until("it is mended", async || quarantined(&a).await == 0).await;
    // What was not known to be active is not woken by being mended.
    assert_eq!(shown(&a, "z0").await, ["x:3/u", "x:1/u", "x:2/u"]);
    set(&a, "x:3", Paused).await;
    assert_eq!(best(&a).await, "x:2");
    set(&a, "x:1", Active).await;
    assert_eq!(best(&a).await, "x:1");
}

fn redis_objects(redis: &RedisServer) -> HashMap<String, Vec<u8>> {
    redis.run(&["HGETALL", &key("objects")])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_head_that_makes_no_sense_stops_changes_and_nothing_else() {
    let redis = RedisServer::start();
    let nodes = [node(&redis, "a").await];
    fill(&nodes, 3).await;
    let load = Load::start(&nodes, 3).await;
    for field in ["version", "ads", "mark", "forced_version", "serial:4"] {
        let sound: Option<String> = redis.run(&["HGET", &key("head"), field]);
        for bad in ["many", "-1", "1.5", ""] {
            redis.run::<()>(&["HSET", &key("head"), field, bad]);
            let said = says(&nodes[0], "head is damaged").await;
            assert!(said.contains(field), "{said}");
            assert_unavailable(put(&nodes[0], "x:9", bad).await, field);
        }
        load.expect("x:1").await;
        match sound {
            Some(sound) => redis.run::<()>(&["HSET", &key("head"), field, &sound]),
            None => redis.run::<()>(&["HDEL", &key("head"), field]),
        }
        well(&nodes[0]).await;
    }
    put(&nodes[0], "x:9", "").await.unwrap();
    load.stop().await;
}

/// Every key of the catalogue in turn is something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_of_another_type_lets_nothing_be_half_written() {
    let redis = RedisServer::start();
    let nodes = [node(&redis, "a").await];
    fill(&nodes, 3).await;
    set(&nodes[0], "x:2", Paused).await;
    set(&nodes[0], "x:2", Active).await;
    let load = Load::start(&nodes, 3).await;
    let (before, told) = (export(&nodes[0]).await, changes(&nodes[0]).await);
    let many: Vec<_> = (0..500).map(|n| ad("x:1", &format!("u{n}"), &["z0"], 1, "")).collect();
    let names = "head objects ids owned versions removed statuses status_versions log changes \
                 lines line_order ended serials buried overlay";
    for name in names.split_whitespace() {
        let (name, aside) = (key(name), key("aside"));
        let _ = redis.run::<u8>(&["EVAL", ASIDE, "2", &name, &aside]);
        assert_unavailable(put(&nodes[0], "x:9", "").await, "WRONGTYPE");
        let import = try_import(&nodes[0], ImportOptions::default(), &many).await;
        let is_refused = import.is_err_and(|status| status.message().contains("WRONGTYPE"));
        redis.run::<u8>(&["EVAL", BACK, "2", &name, &aside]);
        if is_refused {
            well(&nodes[0]).await;
            let now = (export(&nodes[0]).await, changes(&nodes[0]).await);
            assert_eq!(now, (before.clone(), told.clone()), "{name}");
        } else {
            panic!("an import went by a {name} of another type");
        }
        load.expect("x:1").await;
    }
    put(&nodes[0], "x:9", "").await.unwrap();
    load.stop().await;
}

const ASIDE: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('RENAME', KEYS[1], KEYS[2]) end
    redis.call('SET', KEYS[1], 'by hand') return 1";
const BACK: &str = "redis.call('DEL', KEYS[1]) if redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('RENAME', KEYS[2], KEYS[1]) end return 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn half_of_the_ads_gone_is_not_believed() {
    let redis = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let old = node_in(&redis, "old", dir.path()).await;
    fill(std::slice::from_ref(&old), 3).await;
    old.stop().await;
    let nodes = [node(&redis, "a").await];
    let many: Vec<_> = (0..40).map(|n| ad("x:1", &format!("u{n}"), &["z0"], 1, "")).collect();
    import(&nodes[0], &many).await;
    let held = |node: &Server| node.app().admin.served.borrow().ads;
    assert_eq!(held(&nodes[0]), 42);
    let load = Load::start(&nodes, 3).await;

    let sound = redis_objects(&redis);
    let names: Vec<String> = (0..30).map(|n| format!("5x:1\0u{n}")).collect();
    for name in &names {
        redis.run::<()>(&["HDEL", &key("objects"), name]);
    }
    let next = nodes[0].app().admin.served.borrow().version + 1;
    redis.run::<()>(&["HSET", &key("head"), "removed_from", &next.to_string()]);
    let version = put(&nodes[0], "x:9", "a reason to look").await.unwrap().catalog_version;
    let said = says(&nodes[0], "12 ads where the head counts 42").await;
    assert!(said.contains("is served"), "{said}");
    assert_eq!(held(&nodes[0]), 42, "what was served goes on");
    load.expect("x:1").await;
    // Neither does a node that would take a part of it as a change.
    redis.run::<()>(&["HDEL", &key("head"), "removed_from"]);
    let old = node_in(&redis, "old", dir.path()).await;
    assert!(!degraded(&old).await.is_empty());
    assert_eq!(held(&old), 2, "its own last good catalogue");
    assert_eq!(best(&old).await, "x:1");
    // And one that has nothing else opens no door.
    let url = redis.url();
    let mut fresh = tokio::spawn(async move { crate::nodes::node_at(&url, "fresh", &[]).await });
    let waited = tokio::time::timeout(Duration::from_secs(4), &mut fresh).await;
    assert!(waited.is_err(), "it serves half of the catalogue");

    let mut connection = redis.connection();
    for name in &names {
        let mut back = redis::cmd("HSET");
        back.arg(key("objects")).arg(name).arg(&sound[name]).exec(&mut connection).unwrap();
    }
    let fresh = fresh.await.unwrap();
    for node in [&nodes[0], &old, &fresh] {
        well(node).await;
        assert_eq!(node.app().admin.served.borrow().version, version);
        assert_eq!((held(node), shown(node, "z0").await.len()), (42, 42));
    }
    load.stop().await;
}
