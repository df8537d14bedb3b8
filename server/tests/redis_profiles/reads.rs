//! How often the store is asked.

use std::time::Duration;

use slotwise_server::ports::ProfileStore;
use tokio::task::JoinSet;

use crate::node::{Node, PATIENCE, key};
use crate::proxy::{Mode, Proxy};
use crate::redis_server::{Monitor, RedisServer};

/// Commands that name the visitor: reads, and scripts.
fn on(monitor: &mut Monitor, visitor: u128) -> (usize, usize) {
    let commands = monitor.commands();
    let of = |name: &str| {
        let named =
            |command: &&String| command.starts_with(name) && command.contains(&key(visitor));
        commands.iter().filter(named).count()
    };
    (of("\"HGETALL\""), of("\"EVALSHA\""))
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
