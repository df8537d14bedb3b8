//! What the tests of the real thing share: clients of a running server, and small catalogues.

#![allow(dead_code)]

pub mod authority;

use slotwise_proto::json;
use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::user_service_client::UserServiceClient;
use slotwise_proto::v1::{
    CatalogRecord, ChooseAdsRequest, ImportOptions, ImportRequest, ImportResponse, import_request,
};
use slotwise_server::testing::Server;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tonic_types::StatusExt;

/// 2026-11-30T12:00:00Z: what the tests' clocks say unless a case says otherwise.
pub const NOON_US: i64 = 1_796_040_000_000_000;

/// A connection of its own to `addr`.
pub async fn channel(addr: std::net::SocketAddr) -> Channel {
    Endpoint::try_from(format!("http://{addr}")).unwrap().connect().await.unwrap()
}

/// A client of the decision door.
pub async fn decisions(server: &Server) -> AdDecisionServiceClient<Channel> {
    AdDecisionServiceClient::new(channel(server.decision_addr()).await)
}

/// A client of the admin door.
pub async fn catalog(server: &Server) -> CatalogServiceClient<Channel> {
    CatalogServiceClient::new(channel(server.admin_addr()).await)
}

/// A client of the calls on visitors, which stand on the admin door.
pub async fn users(server: &Server) -> UserServiceClient<Channel> {
    UserServiceClient::new(channel(server.admin_addr()).await)
}

/// Imports records in JSON; the answer, whatever it says.
pub async fn try_import(
    server: &Server,
    options: ImportOptions,
    records: &[impl AsRef<str>],
) -> Result<ImportResponse, Status> {
    let steps: Vec<_> = std::iter::once(import_request::Step::Options(options))
        .chain(records.iter().map(|record| {
            let record = json::from_str::<CatalogRecord>(record.as_ref());
            import_request::Step::Record(record.unwrap_or_else(|error| panic!("{error}")))
        }))
        .map(|step| ImportRequest { step: Some(step) })
        .collect();
    let answer = catalog(server).await.import(tokio_stream::iter(steps)).await?;
    Ok(answer.into_inner())
}

/// Imports records in JSON, and waits until they are served.
pub async fn import(server: &Server, records: &[impl AsRef<str>]) {
    let answer = try_import(server, ImportOptions::default(), records).await.unwrap();
    assert_eq!(answer.problems, vec![], "the import is sound");
    served(server, answer.catalog_version).await;
}

/// Waits until `version` is served.
pub async fn served(server: &Server, version: u64) {
    let mut served = server.app().admin.served.clone();
    let reached = served.wait_for(|served| served.version >= version);
    tokio::time::timeout(std::time::Duration::from_secs(30), reached).await.unwrap().unwrap();
}

/// An account `a`, a site `s` and its zones.
pub fn place(zones: &[&str]) -> Vec<String> {
    let mut records = vec![
        r#"{"account":{"accountId":"a","currency":"EUR"}}"#.to_owned(),
        r#"{"site":{"siteId":"s","accountId":"a"}}"#.to_owned(),
    ];
    let zone = |zone: &&str| format!(r#"{{"zone":{{"siteId":"s","zoneId":"{zone}"}}}}"#);
    records.extend(zones.iter().map(zone));
    records
}

/// A campaign of account `a` with further JSON fields.
pub fn campaign(id: &str, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { "," };
    format!(r#"{{"campaign":{{"campaignId":"{id}","accountId":"a"{comma}{more}}}}}"#)
}

/// An ad of zones of site `s`, with its eCPM in units of currency and further JSON fields.
pub fn ad(campaign: &str, unit: &str, zones: &[&str], ecpm: i64, more: &str) -> String {
    let zones: Vec<_> =
        zones.iter().map(|z| format!(r#"{{"siteId":"s","zoneId":"{z}"}}"#)).collect();
    let comma = if more.is_empty() { "" } else { "," };
    format!(
        r#"{{"ad":{{"campaignId":"{campaign}","adUnitId":"{unit}","zones":[{}],"ecpmMicros":"{}","landingUrl":"https://x.example/"{comma}{more}}}}}"#,
        zones.join(","),
        ecpm * 1_000_000
    )
}

/// A request for zone `zone` of site `s`.
pub fn ask(zone: &str, user: &str, count: u32) -> ChooseAdsRequest {
    ChooseAdsRequest {
        site_id: "s".into(),
        zone_id: zone.into(),
        user_id: user.into(),
        count,
        ..ChooseAdsRequest::default()
    }
}

/// The fields that a refusal names.
pub fn refused_fields(status: &Status) -> Vec<String> {
    let details = status.get_details_bad_request();
    let violations = details.map(|bad| bad.field_violations).unwrap_or_default();
    violations.into_iter().map(|violation| violation.field).collect()
}
