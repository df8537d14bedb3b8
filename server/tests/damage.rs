//! Rows of the catalogue that somebody damaged by hand: the rest is served, and writing the
//! object again mends it, with all that hangs on it.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use slotwise_proto::json;
use slotwise_proto::v1::*;
use slotwise_server::app::SystemClock;
use slotwise_server::testing::Server;
use support::{ad, ask, campaign, catalog, decisions, import, place, served, try_import};
use tokio_stream::StreamExt;
use tonic::Code;

/// Account, site, zones, two campaigns, and an ad of each in both zones.
fn records() -> Vec<String> {
    let mut records = place(&["z1", "z2"]);
    records.extend([campaign("x:1", ""), campaign("x:2", "")]);
    records.extend([ad("x:1", "u", &["z1", "z2"], 9, ""), ad("x:2", "u", &["z1", "z2"], 1, "")]);
    records
}

async fn start(dir: &Path) -> Server {
    Server::start_in(dir, Arc::new(SystemClock), &[]).await
}

/// Serves [`records`] once, and then runs `sql` on what is stored.
async fn damaged(dir: &Path, sql: &str) -> Server {
    let server = start(dir).await;
    import(&server, &records()).await;
    server.stop().await;
    assert_eq!(write_by_hand(dir, sql), 1, "{sql}");
    start(dir).await
}

fn write_by_hand(dir: &Path, sql: &str) -> usize {
    Connection::open(dir.join("catalog.sqlite")).unwrap().execute(sql, []).unwrap()
}

async fn shown(server: &Server, zone: &str) -> Vec<String> {
    let answer = decisions(server).await.choose_ads(ask(zone, "", 9)).await.unwrap();
    answer.into_inner().ads.into_iter().map(|ad| ad.campaign_id).collect()
}

async fn put(server: &Server, record: &str) -> u64 {
    let mut admin = catalog(server).await;
    let record = json::from_str::<CatalogRecord>(record).unwrap().record;
    let change = match record.unwrap() {
        catalog_record::Record::Account(object) => {
            let put = PutAccountRequest { account: Some(object), ..Default::default() };
            admin.put_account(put).await
        }
        catalog_record::Record::Site(object) => {
            admin.put_site(PutSiteRequest { site: Some(object), ..Default::default() }).await
        }
        catalog_record::Record::Zone(object) => {
            admin.put_zone(PutZoneRequest { zone: Some(object), ..Default::default() }).await
        }
        catalog_record::Record::Campaign(object) => {
            let put = PutCampaignRequest { campaign: Some(object), ..Default::default() };
            admin.put_campaign(put).await
        }
        catalog_record::Record::Ad(object) => {
            admin.put_ad(PutAdRequest { ad: Some(object), ..Default::default() }).await
        }
    };
    change.unwrap().into_inner().catalog_version
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_row_is_mended_by_writing_it_again_with_all_that_hangs_on_it() {
    // Which row, the record that mends it, and what is served meanwhile in z1 and z2.
    let both = ["x:1", "x:2"].as_slice();
    let rows = [
        ("kind = 1", 0, [[].as_slice(), &[]]),
        ("kind = 2", 1, [&[], &[]]),
        ("kind = 3 AND id = 'z2'", 3, [both, &[]]),
        ("kind = 4 AND id = 'x:1'", 4, [&["x:2"], &["x:2"]]),
        ("kind = 5 AND parent = 'x:1'", 6, [&["x:2"], &["x:2"]]),
    ];
    for (of, record, meanwhile) in rows {
        for body in ["x'ffffff'", "'words'", "''"] {
            let dir = tempfile::tempdir().unwrap();
            let sql = format!("UPDATE objects SET body = {body} WHERE {of}");
            for by_import in [false, true] {
                let server = match by_import {
                    false => damaged(dir.path(), &sql).await,
                    true => {
                        write_by_hand(dir.path(), &sql);
                        start(dir.path()).await
                    }
                };
                for (zone, expected) in ["z1", "z2"].iter().zip(meanwhile) {
                    assert_eq!(shown(&server, zone).await, expected, "{sql}, in {zone}");
                }
                let record = &records()[record..=record];
                if by_import {
                    import(&server, record).await;
                } else {
                    let version = put(&server, &record[0]).await;
                    served(&server, version).await;
                }
                for zone in ["z1", "z2"] {
                    assert_eq!(shown(&server, zone).await, both, "{sql}, mended, in {zone}");
                }
                assert_eq!(server.app().admin.served.borrow().quarantined_rows, 0, "{sql}");
                server.stop().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_out_of_range_keep_only_their_own_row_from_being_served() {
    for damage in ["serial = -1", "serial = 'words'", "version = -1"] {
        let dir = tempfile::tempdir().unwrap();
        let sql = format!("UPDATE objects SET {damage} WHERE kind = 5 AND parent = 'x:1'");
        let server = damaged(dir.path(), &sql).await;
        assert_eq!(shown(&server, "z1").await, ["x:2"], "{sql}");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_campaign_can_be_switched_listed_past_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let sql = "UPDATE objects SET body = x'ff' WHERE kind = 4 AND id = 'x:1'";
    let server = damaged(dir.path(), sql).await;
    let mut admin = catalog(&server).await;

    let listed = admin.list_campaigns(ListCampaignsRequest::default()).await.unwrap().into_inner();
    let ids: Vec<_> = listed.campaigns.into_iter().map(|found| found.campaign_id).collect();
    assert_eq!(ids, ["x:2"]);
    let get = GetCampaignRequest { campaign_id: "x:1".into() };
    let status = admin.get_campaign(get.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "but it is not denied: {status}");
    let mut records = admin.export(ExportRequest {}).await.unwrap().into_inner();
    let mut end = None;
    while let Some(record) = records.next().await {
        end = record.err();
    }
    assert_eq!(end.map(|status| status.code()), Some(Code::DataLoss), "no export looks whole");

    let pause = SetCampaignStatusRequest {
        campaign_id: "x:1".into(),
        status: CampaignStatus::Paused.into(),
        wait: None,
    };
    admin.set_campaign_status(pause).await.unwrap();
    let awake = campaign("x:1", r#""status":"CAMPAIGN_STATUS_ACTIVE""#);
    import(&server, &[awake]).await;
    assert_eq!(shown(&server, "z1").await, ["x:2"], "an import that mends it does not wake it");
    assert_eq!(
        admin.get_campaign(get).await.unwrap().into_inner().status(),
        CampaignStatus::Paused
    );

    server.stop().await;
    write_by_hand(dir.path(), sql);
    let server = start(dir.path()).await;
    let delete = DeleteCampaignRequest { campaign_id: "x:1".into(), if_version: 0 };
    let version = catalog(&server).await.delete_campaign(delete).await.unwrap().into_inner();
    served(&server, version.catalog_version).await;
    assert_eq!(shown(&server, "z1").await, ["x:2"]);
    server.stop().await;
}

/// What the log says of the object `id`, newest first.
async fn history(server: &Server, id: &str) -> Vec<ChangeRecord> {
    let request = ListChangesRequest { id: id.into(), ..Default::default() };
    catalog(server).await.list_changes(request).await.unwrap().into_inner().changes
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_keeps_what_was_deleted_and_only_what_became_true() {
    let server = Server::start().await;
    import(&server, &records()).await;
    let pause = SetCampaignStatusRequest {
        campaign_id: "x:1".into(),
        status: CampaignStatus::Paused.into(),
        wait: None,
    };
    catalog(&server).await.set_campaign_status(pause).await.unwrap();

    // The status of a put or an import is not what the campaign has afterwards.
    let awake = campaign("x:1", r#""status":"CAMPAIGN_STATUS_ACTIVE","tier":7,"version":99"#);
    put(&server, &awake).await;
    let newest = &history(&server, "x:1").await[0];
    assert_eq!(newest.change.as_ref().unwrap().summary, "changed: tier");
    let awake = awake.replace("\"tier\":7", "\"tier\":8");
    import(&server, &[awake]).await;
    for line in history(&server, "x:1").await.iter().take(2) {
        let Some(CatalogRecord { record: Some(catalog_record::Record::Campaign(after)) }) =
            &line.after
        else {
            panic!("{line:?}")
        };
        assert_eq!((after.status(), after.version), (CampaignStatus::Paused, 0), "{line:?}");
    }

    let delete = DeleteCampaignRequest { campaign_id: "x:1".into(), if_version: 0 };
    catalog(&server).await.delete_campaign(delete).await.unwrap();
    let options = ImportOptions { replace: true, force: true, validate_only: false };
    assert_eq!(try_import(&server, options, &place(&["z1"])).await.unwrap().problem_count, 0);
    for id in ["x:1", "x:1/u", "x:2", "x:2/u", "s/z2"] {
        let newest = &history(&server, id).await[0];
        assert!(newest.change.as_ref().unwrap().summary.starts_with("deleted"), "{newest:?}");
        assert!(newest.before.is_some() && newest.after.is_none(), "{newest:?}");
    }
    server.stop().await;
}
