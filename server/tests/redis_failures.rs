//! Several nodes on one Redis that fails, in each way that we know of: what is served, what is
//! refused, what is lost, and how it heals. The same ways stand in `docs/failures.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

#[path = "process/child.rs"]
#[allow(dead_code)]
mod child;
#[path = "redis_failures/cluster.rs"]
mod cluster;
#[path = "redis_failures/damaged.rs"]
mod damaged;
#[path = "redis_failures/emptied.rs"]
mod emptied;
#[path = "support/load.rs"]
mod load;
#[path = "redis_failures/network.rs"]
mod network;
#[path = "support/nodes.rs"]
mod nodes;
#[path = "redis_failures/past.rs"]
mod past;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/redis.rs"]
mod redis_server;
#[path = "redis_failures/refused.rs"]
mod refused;
#[path = "redis_failures/staged.rs"]
mod staged;
#[path = "redis_failures/start.rs"]
mod start;
mod support;
#[path = "redis_failures/together.rs"]
mod together;

use std::collections::BTreeMap;

use redis_server::RedisServer;
use slotwise_proto::json;
use slotwise_proto::v1::{
    Campaign, CatalogChange, ExportRequest, ListChangesRequest, ListZoneAdsRequest,
    PutCampaignRequest,
};
use slotwise_server::testing::Server;
use support::catalog;
use tokio_stream::StreamExt;
use tonic::{Code, Status};

/// A key of the catalogue, under the prefix that every node has unless told otherwise.
fn key(name: &str) -> String {
    format!("{{slotwise}}:{name}")
}

/// Makes campaign `id` of account `a`, or gives it another label.
async fn put(node: &Server, id: &str, label: &str) -> Result<CatalogChange, Status> {
    let campaign = Campaign {
        campaign_id: id.into(),
        account_id: "a".into(),
        competitive_labels: [label]
            .map(str::to_owned)
            .into_iter()
            .filter(|l| !l.is_empty())
            .collect(),
        ..Campaign::default()
    };
    let request = PutCampaignRequest { campaign: Some(campaign), ..PutCampaignRequest::default() };
    Ok(catalog(node).await.put_campaign(request).await?.into_inner())
}

/// Everything in the store, as `node` reads it.
async fn export(node: &Server) -> Vec<String> {
    let mut records = catalog(node).await.export(ExportRequest {}).await.unwrap().into_inner();
    let mut lines = Vec::new();
    while let Some(record) = records.next().await {
        lines.push(json::to_string(&record.unwrap()));
    }
    lines
}

/// What each version was the change of: id and summary, by version.
async fn changes(node: &Server) -> BTreeMap<u64, (String, String)> {
    let mut changes = BTreeMap::new();
    let mut request = ListChangesRequest { page_size: 1_000, ..ListChangesRequest::default() };
    loop {
        let page = catalog(node).await.list_changes(request.clone()).await.unwrap().into_inner();
        for change in page.changes.into_iter().filter_map(|record| record.change) {
            changes.insert(change.catalog_version, (change.id, change.summary));
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return changes;
        }
    }
}

/// The ads of a zone as `node` serves them, in their order.
async fn shown(node: &Server, zone: &str) -> Vec<String> {
    let request = ListZoneAdsRequest {
        site_id: "s".into(),
        zone_id: zone.into(),
        page_size: 1_000,
        ..ListZoneAdsRequest::default()
    };
    let ads = catalog(node).await.list_zone_ads(request).await.unwrap().into_inner().ads;
    ads.into_iter().map(|ad| format!("{}/{}", ad.campaign_id, ad.ad_unit_id)).collect()
}

/// A change that the store did not take, for this reason.
#[track_caller]
fn assert_unavailable<T: std::fmt::Debug>(answer: Result<T, Status>, why: &str) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains(why), "{status}");
}

/// Makes every node look at these objects, as if they had just changed.
fn touch(redis: &RedisServer, names: &[&str]) {
    let version: u64 = redis.run(&["HGET", &key("head"), "version"]);
    let version = (version + 1).to_string();
    for name in names {
        redis.run::<()>(&["ZADD", &key("versions"), &version, name]);
    }
    let mark: String = redis.run(&["HGET", &key("head"), "mark"]);
    let change = format!("{version} {mark} by hand");
    redis.run::<()>(&["ZADD", &key("changes"), &version, &change]);
    redis.run::<()>(&["HSET", &key("head"), "version", &version]);
}
