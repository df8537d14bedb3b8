//! Places that one node holds, settled on another.

use slotwise_proto::v1::{ChooseAdsRequest, Exposure};
use slotwise_server::app::SystemClock;
use slotwise_server::events::Settling as _;
use slotwise_server::ports::Clock as _;
use slotwise_server::testing::Server;
use slotwise_server::tokens::Showing;

use crate::nodes::three_that_ask;
use crate::redis_server::RedisServer;
use crate::support::{ask, decisions};
use crate::visitors::capped_at;

async fn asked(node: &Server, user: &str) -> Option<Showing> {
    let request = ChooseAdsRequest {
        exposure: Exposure::OnImpression.into(),
        timeout_ms: 30_000,
        ..ask("z0", user, 1)
    };
    let answer = decisions(node).await.choose_ads(request).await.unwrap().into_inner();
    node.app().flush().await.unwrap();
    let keys = node.app().showings.token_keys.current();
    answer.ads.first().map(|ad| keys.open(ad.token.as_bytes()).unwrap())
}

async fn settled_across_nodes(more: &str) {
    let redis = RedisServer::start();
    let nodes = three_that_ask(&redis).await;
    let [a, b, c] = &nodes[..] else { panic!("three nodes") };
    capped_at(&nodes, 1, more).await;
    let now_us = || SystemClock.now_us();

    let lost = asked(a, "v").await.unwrap();
    assert_eq!(asked(b, "v").await, None, "the place is held on every node");
    c.app().showings.exposures.lost(&lost, now_us()).await;
    // Also where a node remembers the hold as its own.
    let shown = asked(a, "v").await.expect("it is free again");
    assert_eq!(asked(b, "v").await, None);
    for node in [b, c, b] {
        node.app().showings.exposures.seen(&shown, now_us()).await;
        node.app().flush().await.unwrap();
    }
    a.app().showings.exposures.lost(&shown, now_us()).await;
    for node in &nodes {
        assert_eq!(asked(node, "v").await, None, "seen once of once a day");
    }
    // Reported where nobody knows the visitor, and nothing is held any more.
    let late = asked(a, "w").await.unwrap();
    a.app().showings.exposures.lost(&late, now_us()).await;
    c.app().showings.exposures.seen(&late, now_us()).await;
    c.app().flush().await.unwrap();
    for node in &nodes {
        assert_eq!(asked(node, "w").await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_place_held_on_one_node_is_settled_on_another() {
    settled_across_nodes("").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn so_is_one_under_a_strict_cap() {
    settled_across_nodes(r#","strictCaps":true"#).await;
}
