//! Several nodes on one Redis, and what their tests ask of them.

#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slotwise_proto::v1::{
    CampaignStatus, ListNodesRequest, Node, SetCampaignStatusRequest, SetCampaignStatusResponse,
};
use slotwise_server::app::SystemClock;
use slotwise_server::testing::Server;

use crate::redis_server::RedisServer;
use crate::support::{self, ad, ask, campaign, catalog, decisions, import, place};

/// Nothing here takes so long, on however slow a machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A node on `redis`, with a data directory that goes with it.
pub async fn node(redis: &RedisServer, id: &str) -> Server {
    let settings = [("store", redis.url()), ("node_id", id.to_owned())];
    let settings = settings.each_ref().map(|(key, value)| (*key, value.as_str()));
    Server::start_with(Arc::new(SystemClock), &settings).await
}

/// A node on `redis`, with this data directory.
pub async fn node_in(redis: &RedisServer, id: &str, dir: &Path) -> Server {
    let settings = [("store", redis.url()), ("node_id", id.to_owned())];
    let settings = settings.each_ref().map(|(key, value)| (*key, value.as_str()));
    Server::start_in(dir, Arc::new(SystemClock), &settings).await
}

pub async fn three(redis: &RedisServer) -> Vec<Server> {
    vec![node(redis, "a").await, node(redis, "b").await, node(redis, "c").await]
}

/// The same, where each decision asks Redis: what one node has shown, the next one knows.
pub async fn three_that_ask(redis: &RedisServer) -> Vec<Server> {
    let mut nodes = Vec::new();
    for id in ["a", "b", "c"] {
        let url = redis.url();
        let settings = [("store", url.as_str()), ("node_id", id), ("profile_fresh_ms", "0")];
        nodes.push(Server::start_with(Arc::new(SystemClock), &settings).await);
    }
    nodes
}

/// Campaign x:1 is the best in each of `zones` zones; x:2 is behind it.
pub async fn fill(nodes: &[Server], zones: usize) {
    let names: Vec<String> = (0..zones).map(|n| format!("z{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut records = place(&names);
    records.extend([campaign("x:1", ""), campaign("x:2", "")]);
    records.extend([ad("x:1", "u", &names, 9, ""), ad("x:2", "u", &names, 1, "")]);
    import(&nodes[0], &records).await;
    let version = nodes[0].app().admin.served.borrow().version;
    for node in nodes {
        support::served(node, version).await;
    }
}

pub async fn set(
    node: &Server,
    campaign: &str,
    status: CampaignStatus,
) -> SetCampaignStatusResponse {
    let request = SetCampaignStatusRequest {
        campaign_id: campaign.into(),
        status: status.into(),
        wait: None,
    };
    catalog(node).await.set_campaign_status(request).await.unwrap().into_inner()
}

pub async fn nodes_of(node: &Server) -> Vec<Node> {
    catalog(node).await.list_nodes(ListNodesRequest {}).await.unwrap().into_inner().nodes
}

/// The best campaign of zone z0 on `node`.
pub async fn best(node: &Server) -> String {
    let answer = decisions(node).await.choose_ads(ask("z0", "", 1)).await.unwrap().into_inner();
    answer.ads.first().map(|ad| ad.campaign_id.clone()).unwrap_or_default()
}

/// Waits until `is_so`.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    began.elapsed()
}

/// A node on the store at `url`, with further settings.
pub async fn node_at(url: &str, id: &str, more: &[(&'static str, &str)]) -> Server {
    let settings = [&[("store", url), ("node_id", id)], more].concat();
    Server::start_with(Arc::new(SystemClock), &settings).await
}

/// What `node` says is wrong with it; empty: nothing.
pub async fn degraded(node: &Server) -> String {
    let own = node.app().admin.fleet.node_id();
    let nodes = nodes_of(node).await;
    nodes.into_iter().find(|node| node.node_id == own).unwrap().degraded_reason
}

/// Waits until nothing is wrong with `node`.
pub async fn well(node: &Server) -> Duration {
    until("it is well again", async || degraded(node).await.is_empty()).await
}

/// Waits until `node` says that something is wrong, in these words; all that it says.
pub async fn says(node: &Server, words: &str) -> String {
    let mut said = String::new();
    let began = Instant::now();
    while !said.contains(words) {
        assert!(began.elapsed() < PATIENCE, "it does not say {words:?}, but {said:?}");
        said = degraded(node).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    said
}
