//! How often the store is asked.

use std::time::Duration;

use slotwise_core::model::{AdvertiserId, Exposure, Profile, Segment};
use slotwise_server::ports::{ProfileStore, SegmentsChange};
use tokio::task::JoinSet;

use crate::node::{DAY_US, NOON_US, Node, PATIENCE, exposure, key, rounds, visitor};
use crate::proxy::{Mode, Proxy};
use crate::redis_server::{Monitor, RedisServer};

/// Commands that name the visitor: reads, and scripts that write.
fn on(monitor: &mut Monitor, visitor: u128) -> (usize, usize) {
    let mut commands = monitor.commands();
    commands.retain(|command| command.contains(&key(visitor)));
    let of = |name: &str| commands.iter().filter(|command| command.starts_with(name)).count();
    // Script, one key, the key, and what it was called.
    let is_read =
        |command: &&String| command.starts_with("\"EVALSHA\"") && command.matches(' ').count() == 4;
    let known = commands.iter().filter(is_read).count();
    (of("\"HGETALL\"") + known, of("\"EVALSHA\"") - known)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_reads_once_at_most() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let mut monitor = server.monitor();
    assert!(!node.show(1, 0, 1).await);
    assert_eq!(on(&mut monitor, 1), (1, 0), "a decision that shows nothing reads, and that is all");
    assert!(node.show(1, 9, 2).await);
    node.flush().await;
    assert_eq!(on(&mut monitor, 1), (1, 1), "one that shows something adds it");
    assert!(node.show_strictly(1, 9, 3).await);
    assert_eq!(on(&mut monitor, 1), (1, 1), "a strict one asks once more");
    assert_eq!(node.known(1).await.profile.lists().count(), 1);
    assert_eq!(on(&mut monitor, 1), (1, 0), "what was admitted is not told again");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reply_to_an_add_takes_the_place_of_a_read() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port);
    let node = Node::connected(&proxy.url()).await;
    let mut monitor = server.monitor();
    assert!(!node.show(1, 0, 0).await);
    on(&mut monitor, 1);
    // No reply is there yet when the next decision begins.
    proxy.set(Mode::Delay(Duration::from_millis(50)));
    for decision in 1..=5 {
        assert!(node.show(1, 9, decision).await);
    }
    proxy.set(Mode::Pass);
    node.flush().await;
    assert_eq!(on(&mut monitor, 1), (1, 5), "only the first had to read");
    assert_eq!(node.decisions(1).await, [1, 2, 3, 4, 5]);
}

/// A visitor who comes again and again is asked for once in a while, by each node for itself.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_said_is_taken_for_as_long_as_it_is_fresh() {
    const FRESH_US: i64 = 100_000;
    let server = RedisServer::start();
    let fresh = || Node::with_fresh(&server.url(), Duration::from_micros(FRESH_US as u64));
    let (here, there) = (fresh(), fresh());
    here.is_back().await;
    there.is_back().await;
    let mut monitor = server.monitor();
    let show = async |node: &Node, after_us: i64, cap: usize, decision: u64| {
        node.try_show_at(NOON_US + after_us, 1, cap, decision, PATIENCE).await.unwrap()
    };
    assert!(!show(&here, 0, 0, 0).await);
    for after_us in [1, FRESH_US - 1] {
        assert!(!show(&here, after_us, 0, 0).await);
    }
    assert_eq!(on(&mut monitor, 1), (1, 0), "the first has read");
    assert!(!show(&here, FRESH_US, 0, 0).await);
    assert_eq!(on(&mut monitor, 1), (1, 0), "it is too old");
    // What comes back from an add is as good.
    assert!(show(&here, FRESH_US + 1, 1, 1).await);
    here.flush().await;
    assert!(!show(&here, FRESH_US + 2, 1, 2).await);
    assert_eq!(on(&mut monitor, 1), (0, 1));
    // Another node has shown two more: this one does not know yet, and then it does.
    assert!(show(&there, FRESH_US + 3, 3, 3).await);
    assert!(show(&there, FRESH_US + 4, 3, 4).await);
    there.flush().await;
    assert!(show(&here, FRESH_US + 5, 3, 5).await, "one answer more than the cap");
    here.flush().await;
    assert!(!show(&here, FRESH_US + 6, 3, 6).await, "and not another one");
    assert_eq!(here.decisions(1).await, [1, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_many_decisions_go_out_together() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port);
    let node = Node::connected(&proxy.url()).await;
    proxy.set(Mode::Delay(Duration::from_millis(100)));
    let before = proxy.asks();
    let shows: JoinSet<_> = (0..512)
        .map(|n| {
            let node = node.clone();
            async move { node.show(n, 0, 1).await }
        })
        .collect();
    shows.join_all().await;
    let asks = proxy.asks() - before;
    // Four pipelines are in flight at most; a sign of life and a poll come in between.
    assert!(asks <= 32, "{asks} pieces for 512 reads");
}

/// Whatever happens to a profile, here or elsewhere: who knows it by its name knows what is there.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_by_its_name_is_what_the_store_has() {
    let server = RedisServer::start();
    let nodes = [Node::connected(&server.url()).await, Node::connected(&server.url()).await];
    // It decides nothing, so it remembers nobody, and reads all of it each time.
    let reader = Node::connected(&server.url()).await;
    let (mut held, mut random) = (Vec::new(), 7_u64);
    let mut draw = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (random >> 33) % below
    };
    for step in 0..3 * u64::try_from(rounds()).unwrap() {
        let (node, now_us) = (&nodes[draw(2) as usize], NOON_US + step as i64);
        let advertiser = AdvertiserId::from(["x", "y", "z"][draw(3) as usize]);
        let shown = |decision, is_held| Exposure {
            life_us: if is_held { 40 } else { 70 },
            is_held,
            ..exposure(now_us, decision)
        };
        let what = draw(12);
        match what {
            0..6 => {
                let shown = shown(step, what < 3);
                let mut admit = |profile: &mut Profile| {
                    let _ = profile.record(&advertiser, shown, now_us);
                };
                node.store.admit(visitor(1), now_us, PATIENCE, &mut admit).await.unwrap();
                if shown.is_held {
                    held.push((advertiser, shown));
                }
            }
            // One of the latest holds ends, mostly one that the other node has.
            6..9 => {
                let Some((advertiser, shown)) = held.pop() else { continue };
                if what < 8 {
                    node.store.release(visitor(1), &advertiser, shown, now_us).await.unwrap();
                } else {
                    let seen = Exposure { is_held: false, life_us: 70, ..shown };
                    node.store.confirm(visitor(1), &advertiser, seen, now_us).await.unwrap();
                }
            }
            9 => {
                let name = format!("auto/{}", draw(4));
                let add = vec![Segment { name, expires_us: NOON_US + DAY_US }];
                let change = SegmentsChange { add, remove: vec!["auto/0".to_owned()] };
                node.store.update_segments(visitor(1), now_us, change).await.unwrap();
            }
            10 => {
                // As a node would that gives no names.
                server.run::<()>(&["HDEL", &key(1), "v"]);
            }
            _ if draw(5) == 0 => {
                node.store.forget(1, None, now_us).await.unwrap();
            }
            _ => {
                server.run::<()>(&["DEL", &key(1)]);
            }
        }
        expect_all_know_it(&nodes, &reader, now_us, &format!("after step {step}, {what}")).await;
    }
}

/// Each of `nodes` knows of the visitor what `reader` finds in the store.
async fn expect_all_know_it(nodes: &[Node], reader: &Node, now_us: i64, when: &str) {
    for node in nodes {
        node.flush().await;
    }
    let look = async |node: &Node| {
        let known = node.store.read(visitor(1), now_us, PATIENCE).await.unwrap();
        assert!(known.is_certain);
        known.profile
    };
    // Twice: what a node did not find in the store it tells it again.
    for node in nodes.iter().chain(nodes) {
        look(node).await;
        node.flush().await;
    }
    let expected = look(reader).await;
    for node in nodes {
        let mut known = look(node).await;
        known.expire(DAY_US, now_us);
        assert_eq!(known, expected, "{when}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_redis_lost_is_loaded_again() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    assert!(node.show(1, 9, 1).await);
    node.flush().await;
    server.run::<()>(&["SCRIPT", "FLUSH"]);
    assert!(node.show(1, 9, 2).await);
    assert!(node.show_strictly(1, 9, 3).await);
    node.store.flush().await.unwrap();
    assert_eq!(node.decisions(1).await, [1, 2, 3]);
    assert_eq!(*node.store.degraded().borrow(), "");
}

/// One visitor's turn is one at a time, but nobody else waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn visitors_do_not_wait_for_each_other() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let shows: JoinSet<_> = (0..1_000)
        .map(|n| {
            let node = node.clone();
            async move { node.try_show(n % 100, 5, n as u64, PATIENCE).await.unwrap() }
        })
        .collect();
    let shown = shows.join_all().await.into_iter().filter(|&shown| shown).count();
    assert_eq!(shown, 500);
}
