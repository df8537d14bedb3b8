//! Forgetting a visitor on every node.

use slotwise_core::model::AccountSerial;
use slotwise_core::model::Segment;
use slotwise_server::limits::FORGETS_KEPT;
use slotwise_server::ports::{Forgotten, ProfileStore, SegmentsChange};

use crate::node::{DAY_US, NOON_US, Node, key, keys, within_patience};
use crate::proxy::{Mode, Proxy};
use crate::redis_server::RedisServer;

/// Forgets in the one account that there is.
async fn forget(node: &Node, of: u128) -> Forgotten {
    node.store.forget(of, Some(AccountSerial(1)), NOON_US).await.unwrap()
}

async fn has_followed(node: &Node, number: u64) {
    let mut forgets = node.store.forgets();
    within_patience(forgets.wait_for(|followed| *followed >= number)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_forgets_and_a_late_add_brings_nothing_back() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port);
    let near = [Node::connected(&server.url()).await, Node::connected(&server.url()).await];
    let far = Node::connected(&proxy.url()).await;
    for (decision, node) in (0..).zip([&near[0], &near[1], &far]) {
        assert!(node.show(1, 9, decision).await);
        node.flush().await;
        assert!(node.show(2, 9, decision).await);
        node.flush().await;
    }
    // This one has shown something that the store was not told, and remembers the rest.
    proxy.set(Mode::Blackhole);
    far.is_degraded().await;
    assert!(far.try_show(1, 9, 50, std::time::Duration::from_millis(20)).await.unwrap());
    let forgotten = forget(&near[0], 1).await;
    assert!(forgotten.held_something);
    for node in &near {
        has_followed(node, forgotten.number).await;
        assert!(node.known(1).await.profile.is_empty());
    }
    proxy.set(Mode::Pass);
    proxy.cut();
    far.is_back().await;
    has_followed(&far, forgotten.number).await;
    far.flush().await;
    for node in [&far, &near[0], &near[1]] {
        assert!(node.known(1).await.profile.is_empty());
        assert_eq!(node.decisions(2).await, [0, 1, 2], "somebody else");
    }
    let left: Vec<String> = server.run(&["HKEYS", &key(1)]);
    assert_eq!(left, ["f"]);
    let again = forget(&far, 1).await;
    assert!(!again.held_something);
    assert_eq!(again.number, forgotten.number + 1);
}

/// The store forgets before any node has heard of it: what a node still remembers, or tells late,
/// does not heal it.
#[tokio::test(flavor = "multi_thread")]
async fn memory_of_before_heals_nothing() {
    let server = RedisServer::start();
    let [one, other] = [Node::connected(&server.url()).await, Node::connected(&server.url()).await];
    assert!(one.show(1, 9, 1).await);
    one.flush().await;
    let shown: Vec<u8> = server.run(&["HGET", &key(1), "a:x"]);
    assert_eq!(other.decisions(1).await, [1]);
    assert!(!other.show(1, 1, 2).await);
    let forgotten = forget(&one, 1).await;
    // Before or after it has followed: at once, and then.
    assert!(other.known(1).await.profile.is_empty());
    has_followed(&other, forgotten.number).await;
    assert!(other.known(1).await.profile.is_empty());
    other.flush().await;
    let left: Vec<String> = server.run(&["HKEYS", &key(1)]);
    assert_eq!((left, shown.len()), (vec!["f".to_owned()], 36));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_account_is_the_ones_that_the_catalogue_has() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let of = |account| slotwise_server::ports::VisitorKey {
        account: AccountSerial(account),
        visitor: 7,
    };
    let give = async |account| {
        let add = vec![Segment { name: "a/1".into(), expires_us: NOON_US + DAY_US }];
        let change = SegmentsChange { add, remove: vec![] };
        node.store.update_segments(of(account), NOON_US, change).await.unwrap();
    };
    assert!(!node.store.forget(7, None, NOON_US).await.unwrap().held_something);
    assert!(keys(&server).iter().all(|key| key == "{slotwise}:forgets"), "there is no account");
    server.run::<()>(&["HSET", "{slotwise}:head", "serial:1", "3000"]);
    give(1).await;
    give(3_000).await;
    let forgotten = node.store.forget(7, None, NOON_US).await.unwrap();
    assert!(forgotten.held_something);
    for account in [1, 3_000] {
        let known = node.store.read(of(account), NOON_US, crate::node::PATIENCE).await.unwrap();
        assert!(known.is_certain && known.profile.is_empty());
    }
}

/// Somebody who was away too long cannot know who was forgotten: it remembers nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_gap_makes_a_node_forget_all_that_the_store_has() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let first = forget(&node, 9).await;
    has_followed(&node, first.number).await;
    let lose = async |of: u128| {
        assert!(node.show(of, 9, 1).await);
        node.flush().await;
        server.run::<()>(&["DEL", &key(of)]);
    };
    lose(1).await;
    assert_eq!(node.decisions(1).await, [1], "without a gap it is told again");
    lose(2).await;
    let count = (first.number + 5).to_string();
    server.run::<()>(&["HSET", "{slotwise}:forgets:count", "number", &count]);
    has_followed(&node, first.number + 5).await;
    assert_eq!(node.decisions(2).await, Vec::<u64>::new(), "somebody may have been forgotten");
    lose(3).await;
    server.run::<()>(&["DEL", "{slotwise}:forgets:count", "{slotwise}:forgets"]);
    let mut forgets = node.store.forgets();
    within_patience(forgets.wait_for(|followed| *followed == 0)).await.unwrap();
    assert_eq!(node.decisions(3).await, Vec::<u64>::new(), "a count that was lost is a gap, too");
    assert_eq!(forget(&node, 9).await.number, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_names_a_visitor_is_kept_for_an_hour() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let mut last = 0;
    for of in 1..=3 {
        last = forget(&node, of).await.number;
    }
    has_followed(&node, last).await;
    let entries: Vec<String> = server.run(&["LRANGE", "{slotwise}:forgets", "0", "-1"]);
    assert_eq!(entries.len(), 3);
    assert!(entries[0].contains(&format!("{:032x}", 1)), "{entries:?}");
    let life_ms: i64 = server.run(&["PTTL", "{slotwise}:forgets"]);
    assert!(life_ms > 0 && life_ms as u128 <= FORGETS_KEPT.as_millis());
    node.clock.set(NOON_US + FORGETS_KEPT.as_micros() as i64);
    within_patience(async {
        while server.run::<u64>(&["LLEN", "{slotwise}:forgets"]) > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    // The count goes on, and so does following.
    let next = forget(&node, 4).await;
    assert_eq!(next.number, last + 1);
    has_followed(&node, next.number).await;
}
