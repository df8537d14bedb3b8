//! The admin door through a real socket: puts with masks and versions, imports, exports, pages,
//! the audit log and the live feed.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

#[path = "catalog/imports.rs"]
mod imports;
#[path = "catalog/puts.rs"]
mod puts;
#[path = "catalog/reading.rs"]
mod reading;
mod support;

use slotwise_proto::json;
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::*;
use slotwise_server::testing::Server;
use support::{ad, ask, campaign, catalog, decisions, import, place, refused_fields, try_import};
use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic::{Code, Status};

async fn start() -> (Server, CatalogServiceClient<Channel>) {
    let server = Server::start().await;
    let client = catalog(&server).await;
    (server, client)
}

/// Account `a`, site `s`, zones `z1` and `z2`, a campaign with all that a campaign can have.
fn rich() -> Vec<String> {
    let mut records = place(&["z1", "z2"]);
    records.extend([
        campaign(
            "7:3",
            r#""tier":2,"status":"CAMPAIGN_STATUS_PAUSED","startTime":"2026-01-01T00:00:00Z",
            "budget":{"dailyMicros":"5250000","totalMicros":"90000000","pacing":"PACING_EVEN"},
            "price":{"thousandImpressionsMicros":"2000000"},"requiresUser":true,
            "caps":[{"level":"CAP_LEVEL_AD","impressionsMax":3,"window":"3600s"}],
            "targeting":{"countries":["AT"],"hoursOfWeek":[0,167]},"categories":["IAB1"]"#,
        ),
        campaign("8:1", r#""price":{"thousandImpressionsMicros":"1000000"}"#),
        ad("7:3", "a1", &["z1", "z2"], 4, r#""keywords":["car"]"#),
        ad("8:1", "a1", &["z1"], 5, ""),
    ]);
    records
}

async fn export(client: &mut CatalogServiceClient<Channel>) -> Vec<String> {
    let mut records = client.export(ExportRequest {}).await.unwrap().into_inner();
    let mut lines = Vec::new();
    while let Some(record) = records.next().await {
        lines.push(json::to_string(&record.unwrap()));
    }
    lines
}

fn put(campaign: Campaign) -> PutCampaignRequest {
    PutCampaignRequest { campaign: Some(campaign), ..PutCampaignRequest::default() }
}

fn mask(paths: &[&str]) -> Option<prost_types::FieldMask> {
    Some(prost_types::FieldMask { paths: paths.iter().map(ToString::to_string).collect() })
}

async fn get(client: &mut CatalogServiceClient<Channel>, id: &str) -> Campaign {
    let request = GetCampaignRequest { campaign_id: id.into() };
    client.get_campaign(request).await.unwrap().into_inner()
}

#[track_caller]
fn assert_refused(status: &Status, code: Code, fields: &[&str]) {
    assert_eq!(
        (status.code(), refused_fields(status)),
        (code, fields.iter().map(ToString::to_string).collect()),
        "{status}"
    );
}

trait ZoneAds {
    async fn choose_zone(&mut self, zone: &str) -> Vec<String>;
}

impl ZoneAds for CatalogServiceClient<Channel> {
    async fn choose_zone(&mut self, zone: &str) -> Vec<String> {
        let request =
            ListZoneAdsRequest { site_id: "s".into(), zone_id: zone.into(), ..Default::default() };
        let ads = self.list_zone_ads(request).await.unwrap().into_inner().ads;
        ads.into_iter().map(|ad| format!("{}/{}", ad.campaign_id, ad.ad_unit_id)).collect()
    }
}
