//! What three nodes show one visitor.

use tokio::task::JoinSet;

use crate::node::{Node, rounds};
use crate::redis_server::RedisServer;

async fn three(url: &str) -> [Node; 3] {
    [Node::connected(url).await, Node::connected(url).await, Node::connected(url).await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cap_is_exceeded_by_one_ad_for_each_other_node_at_most() {
    let server = RedisServer::start();
    let nodes = three(&server.url()).await;
    for round in 0..rounds() {
        let show = |n: usize| {
            let node = nodes[n % 3].clone();
            async move { node.show(round, 3, n as u64).await }
        };
        let shows: JoinSet<_> = (0..64).map(show).collect();
        let shown = shows.join_all().await.into_iter().filter(|&shown| shown).count();
        assert!((3..=5).contains(&shown), "{shown} shown in round {round}");
        for node in &nodes {
            node.flush().await;
        }
        assert_eq!(nodes[0].decisions(round).await.len(), shown, "each is counted once");
        assert!(!nodes[1].show(round, 3, 99).await, "and for good");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_strict_cap_is_never_exceeded() {
    let server = RedisServer::start();
    let nodes = three(&server.url()).await;
    for round in 0..rounds() {
        let show = |n: usize| {
            let node = nodes[n % 3].clone();
            async move { node.show_strictly(round, 3, n as u64).await }
        };
        let shows: JoinSet<_> = (0..64).map(show).collect();
        let shown = shows.join_all().await.into_iter().filter(|&shown| shown).count();
        assert_eq!(shown, 3, "round {round}");
        assert_eq!(nodes[0].decisions(round).await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_one_node_shows_the_next_one_knows() {
    let server = RedisServer::start();
    let nodes = three(&server.url()).await;
    for decision in 0..30 {
        let (here, there) = (&nodes[decision % 3], &nodes[(decision + 1) % 3]);
        assert!(here.show(1, 30, decision as u64).await);
        here.flush().await;
        assert_eq!(there.decisions(1).await, (0..=decision as u64).collect::<Vec<_>>());
    }
    assert!(!nodes[0].show(1, 30, 30).await);
}
