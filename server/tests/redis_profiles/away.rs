//! Redis is away, frozen, or comes back without what it had.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slotwise_core::model::{Exposure, Profile};
use slotwise_server::limits::PROFILE_PENDING_MAX;
use slotwise_server::ports::{ProfileStore, StoreError};

use crate::node::{NOON_US, Node, PATIENCE, exposure, visitor, x};
use crate::redis_server::{RedisServer, free_port};

#[tokio::test(flavor = "multi_thread")]
async fn decisions_go_on_from_memory_and_what_they_show_is_told_later() {
    let mut server = RedisServer::start_durable();
    let node = Node::connected(&server.url()).await;
    assert!(node.show(1, 4, 1).await);
    assert!(node.show(1, 4, 2).await);
    node.store.flush().await.unwrap();
    server.kill();
    node.is_degraded().await;
    assert!(node.show(1, 4, 3).await, "the store's two are remembered");
    assert!(node.show(1, 4, 4).await);
    assert!(!node.show(1, 4, 5).await);
    assert!(node.show(2, 1, 6).await, "nothing is known of this one");
    assert!(!node.show(2, 1, 7).await);
    assert!(!node.show_strictly(1, 99, 8).await, "nobody can say that this holds");
    let known = node.known(1).await;
    assert!(!known.is_certain);
    assert_eq!(known.profile.list(&x()).len(), 4);
    assert!(node.store.flush().await.is_err());
    server.restart();
    node.flush().await;
    let fresh = Node::connected(&server.url()).await;
    assert_eq!(fresh.decisions(1).await, [1, 2, 3, 4]);
    assert_eq!(fresh.decisions(2).await, [6]);
    assert!(fresh.show_strictly(1, 5, 9).await);
    let mut degraded = node.store.degraded();
    crate::node::within_patience(degraded.wait_for(String::is_empty)).await.unwrap();
}

/// Also what was confirmed long ago: it was on no disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_comes_back_empty_is_told_what_the_node_remembers() {
    let mut server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    for decision in 1..=3 {
        assert!(node.show(1, 3, decision).await);
    }
    assert!(node.show(2, 3, 4).await);
    node.store.flush().await.unwrap();
    server.kill();
    node.is_degraded().await;
    server.restart();
    node.is_back().await;
    assert!(!node.show(1, 3, 5).await, "capped as before");
    assert!(node.show(2, 3, 6).await);
    node.flush().await;
    let fresh = Node::connected(&server.url()).await;
    let sorted = |mut decisions: Vec<u64>| {
        decisions.sort_unstable();
        decisions
    };
    assert_eq!(sorted(fresh.decisions(1).await), [1, 2, 3]);
    assert_eq!(sorted(fresh.decisions(2).await), [4, 6]);
}

/// What no cap counts any more is not told again.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_redis_is_not_told_what_is_over() {
    let mut server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let shown = [Exposure { life_us: 10, ..exposure(NOON_US, 1) }, exposure(NOON_US, 2)];
    let mut admit = |profile: &mut Profile| {
        shown.iter().for_each(|shown| profile.record(&x(), *shown, NOON_US).unwrap());
    };
    node.store.admit(visitor(1), NOON_US, PATIENCE, &mut admit).await.unwrap();
    node.store.flush().await.unwrap();
    server.kill();
    node.is_degraded().await;
    server.restart();
    node.is_back().await;
    let nothing = &mut |_: &mut Profile| {};
    node.store.admit(visitor(1), NOON_US + 10, PATIENCE, nothing).await.unwrap();
    node.flush().await;
    assert_eq!(Node::connected(&server.url()).await.decisions(1).await, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_redis_costs_a_decision_its_wait_and_then_nothing() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    assert!(node.show(1, 9, 1).await);
    node.store.flush().await.unwrap();
    server.signal("STOP");
    // Sixteen at once, for one visitor: the last has waited for its turn only. One after the other
    // they would wait until the connection is given up, after a second.
    let wait = Duration::from_millis(100);
    let shows = async |from: u64| {
        let shows: tokio::task::JoinSet<_> = (from..from + 16)
            .map(|decision| {
                let node = node.clone();
                async move { node.try_show(1, 5, decision, wait).await }
            })
            .collect();
        shows.join_all().await
    };
    let began = Instant::now();
    let withheld = shows(10).await;
    assert!(began.elapsed() < 8 * wait, "{:?}: not one after the other", began.elapsed());
    // As far as anybody knows yet it is only late, and may know what others have shown.
    assert!(withheld.iter().all(Result::is_err), "{withheld:?}");
    node.is_degraded().await;
    let shown = shows(50).await.into_iter().filter(|shown| *shown.as_ref().unwrap()).count();
    assert_eq!(shown, 4, "with the first, the cap");
    let began = Instant::now();
    assert!(!node.try_show(1, 5, 30, PATIENCE).await.unwrap());
    assert!(node.try_show(2, 5, 31, PATIENCE).await.unwrap());
    assert!(!node.show_strictly(2, 5, 32).await);
    assert!(began.elapsed() < PATIENCE / 2, "nobody waits for a store that is known to be away");
    server.signal("CONT");
    node.flush().await;
    assert_eq!(Node::connected(&server.url()).await.decisions(1).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_starts_without_its_redis() {
    let node = Node::at(&format!("redis://127.0.0.1:{}", free_port()));
    assert!(node.show(1, 1, 1).await);
    assert!(!node.show(1, 1, 2).await);
    assert!(!node.show_strictly(1, 1, 3).await);
    assert!(node.store.forget(1, None, NOON_US).await.is_err());
    assert!(!node.is_degraded().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_the_store_has_a_bound_and_none_of_it_is_lost() {
    const EACH: u64 = 200;
    let mut server = RedisServer::start_durable();
    let node = Node::connected(&server.url()).await;
    server.kill();
    node.is_degraded().await;
    let show = async |of: u128| {
        let mut admit = |profile: &mut Profile| {
            for decision in 0..EACH {
                profile.record(&x(), exposure(NOON_US, decision), NOON_US).unwrap();
            }
        };
        node.store.admit(visitor(of), NOON_US, PATIENCE, &mut admit).await
    };
    let visitors = PROFILE_PENDING_MAX as u128 / u128::from(EACH);
    for of in 0..visitors {
        show(of).await.unwrap();
    }
    let refused = show(visitors).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    server.restart();
    node.flush().await;
    show(visitors).await.unwrap();
    node.flush().await;
    let fresh = Node::connected(&server.url()).await;
    for of in 0..=visitors {
        assert_eq!(fresh.decisions(of).await.len() as u64, EACH, "visitor {of}");
    }
}

/// A stop ends, whatever the store does; what it can still be told it is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_hang() {
    let mut server = RedisServer::start_durable();
    for how in ["frozen", "away"] {
        let node = Node::connected(&server.url()).await;
        match how {
            "frozen" => server.signal("STOP"),
            _ => server.kill(),
        }
        node.is_degraded().await;
        assert!(node.try_show(1, 9, 1, Duration::from_millis(1)).await.unwrap());
        let Node { store, .. } = node;
        let stopping = tokio::task::spawn_blocking(move || {
            assert_eq!(Arc::strong_count(&store), 1);
            drop(store);
        });
        tokio::time::timeout(PATIENCE, stopping).await.expect("it stops").unwrap();
        if how == "frozen" {
            server.signal("CONT");
        }
    }
    server.restart();
    let node = Node::connected(&server.url()).await;
    assert!(node.show(2, 9, 1).await);
    drop(node);
    assert_eq!(Node::connected(&server.url()).await.decisions(2).await, [1]);
}
