//! The admin door through a real socket: puts with masks and versions, imports, exports, pages,
//! the audit log and the live feed.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

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

#[tokio::test(flavor = "multi_thread")]
async fn only_a_new_daily_budget_leaves_the_rest_as_it_was() {
    let (server, mut client) = start().await;
    import(&server, &rich()).await;
    let before = get(&mut client, "7:3").await;
    let budget = |daily| Some(Budget { daily_micros: Some(daily), ..Budget::default() });
    for (daily, update_mask) in [(1, None), (2, mask(&["budget.daily_micros"]))] {
        let campaign =
            Campaign { campaign_id: "7:3".into(), budget: budget(daily), ..Campaign::default() };
        let request = PutCampaignRequest { update_mask, ..put(campaign) };
        let change = client.put_campaign(request).await.unwrap().into_inner();
        assert_eq!((change.kind.as_str(), change.id.as_str()), ("campaign", "7:3"));
        assert_eq!(change.summary, "changed: budget");
        let mut expected = before.clone();
        expected.budget.as_mut().unwrap().daily_micros = Some(daily);
        expected.version = change.catalog_version;
        assert_eq!(get(&mut client, "7:3").await, expected, "with the status, the caps, the total");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_changes_only_where_it_is_meant() {
    let (server, mut client) = start().await;
    import(&server, &rich()).await;
    let named = |update_mask| {
        let campaign = Campaign {
            campaign_id: "7:3".into(),
            account_id: "a".into(),
            status: CampaignStatus::Active.into(),
            ..Campaign::default()
        };
        PutCampaignRequest { update_mask, ..put(campaign) }
    };
    let paused = i32::from(CampaignStatus::Paused);
    // A star would take the price per thousand away, which no ad needs here: each has its own.
    for update_mask in [None, mask(&["tier"]), mask(&["*"])] {
        client.put_campaign(named(update_mask.clone())).await.unwrap();
        assert_eq!(get(&mut client, "7:3").await.status, paused, "{update_mask:?}");
    }
    import(
        &server,
        &rich()[4..5].iter().map(|r| r.replace("PAUSED", "ACTIVE")).collect::<Vec<_>>(),
    )
    .await;
    assert_eq!(get(&mut client, "7:3").await.status, paused, "an import never wakes one");
    client.put_campaign(named(mask(&["status"]))).await.unwrap();
    assert_eq!(get(&mut client, "7:3").await.status, i32::from(CampaignStatus::Active));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_the_objects_aborts() {
    let (server, mut client) = start().await;
    import(&server, &rich()).await;
    let version = get(&mut client, "8:1").await.version;
    let tier = |tier, if_version| PutCampaignRequest {
        if_version,
        ..put(Campaign { campaign_id: "8:1".into(), tier, ..Campaign::default() })
    };
    let stale = client.put_campaign(tier(1, version + 1)).await.unwrap_err();
    assert_eq!(stale.code(), Code::Aborted);
    let done = client.put_campaign(tier(1, version)).await.unwrap().into_inner();
    assert_eq!(get(&mut client, "8:1").await.version, done.catalog_version);
    assert_eq!(client.put_campaign(tier(2, version)).await.unwrap_err().code(), Code::Aborted);
    let same = client.put_campaign(tier(1, 0)).await.unwrap().into_inner();
    assert_eq!((same.summary.as_str(), same.catalog_version), ("unchanged", done.catalog_version));
    let gone = DeleteCampaignRequest { campaign_id: "8:1".into(), if_version: version };
    assert_eq!(client.delete_campaign(gone).await.unwrap_err().code(), Code::Aborted);
    assert_eq!(get(&mut client, "8:1").await.tier, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
async fn what_an_object_names_must_be_there_and_belong_to_it() {
    let (server, mut client) = start().await;
    import(&server, &rich()).await;
    let other = [
        r#"{"account":{"accountId":"b","timeZone":"Europe/Vienna","currency":"EUR"}}"#,
        r#"{"site":{"siteId":"sb","accountId":"b"}}"#,
        r#"{"zone":{"siteId":"sb","zoneId":"z"}}"#,
    ];
    import(&server, &other).await;
    let before = export(&mut client).await;
    let cases: Vec<(String, &[&str])> = vec![
        (r#"{"site":{"siteId":"s2","accountId":"c"}}"#.into(), &["site.account_id"]),
        (r#"{"site":{"siteId":"s","accountId":"b"}}"#.into(), &["site.account_id"]),
        (r#"{"zone":{"siteId":"s9","zoneId":"z"}}"#.into(), &["zone.site_id"]),
        (campaign("8:1", "").replace(r#""a""#, r#""b""#), &["campaign.account_id"]),
        (campaign("nocolon", ""), &["campaign.campaign_id"]),
        (campaign(":3", ""), &["campaign.campaign_id"]),
        (ad("9:9", "u", &["z1"], 1, ""), &["ad.campaign_id"]),
        (ad("8:1", "u", &["z1", "z9"], 1, ""), &["ad.zones[1].zone_id"]),
        (
            ad("8:1", "u", &["z1"], 1, "").replace(r#""s","zoneId":"z1""#, r#""sb","zoneId":"z""#),
            &["ad.zones[0].zone_id"],
        ),
        (ad("8:1", "u", &["z1", "z1"], 1, ""), &["ad.zones[1].zone_id"]),
        (
            r#"{"account":{"accountId":"b","timeZone":"Europe/Berlin","currency":"EUR"}}"#.into(),
            &["account.time_zone"],
        ),
        (
            r#"{"account":{"accountId":"b","timeZone":"Europe/Vienna","currency":"USD"}}"#.into(),
            &["account.currency"],
        ),
        (
            r#"{"account":{"accountId":"n","timeZone":"Mars/Olympus"}}"#.into(),
            &["account.time_zone"],
        ),
        (r#"{"account":{"accountId":"n","currency":"euro"}}"#.into(), &["account.currency"]),
        (
            campaign(
                "8:2",
                r#""caps":[{"level":"CAP_LEVEL_AD","impressionsMax":0,"window":"60s"}]"#,
            ),
            &["campaign.caps[0].impressions_max"],
        ),
        (
            campaign(
                "8:2",
                r#""caps":[{"level":"CAP_LEVEL_AD","impressionsMax":201,"window":"60s"}]"#,
            ),
            &["campaign.caps[0].impressions_max"],
        ),
        (
            campaign(
                "8:2",
                r#""caps":[{"level":"CAP_LEVEL_AD","impressionsMax":1,"window":"2592001s"}]"#,
            ),
            &["campaign.caps[0].window"],
        ),
        (
            campaign("8:2", r#""caps":[{"impressionsMax":1,"window":"1.5s"}]"#),
            &["campaign.caps[0].level", "campaign.caps[0].window"],
        ),
        (
            campaign(
                "8:2",
                r#""targeting":{"countries":["at"],"hoursOfWeek":[168],"expression":"a = 1"}"#,
            ),
            &[
                "campaign.targeting.countries[0]",
                "campaign.targeting.hours_of_week[0]",
                "campaign.targeting.expression",
            ],
        ),
    ];
    for (record, fields) in cases {
        let answer = try_import(&server, ImportOptions::default(), &[&record]).await.unwrap();
        let found: Vec<&str> = answer.problems.iter().map(|p| p.field.as_str()).collect();
        assert_eq!(found, fields, "{record}");
        assert_eq!(answer.problem_count as usize, fields.len());
    }
    // An ad that ranks by its campaign's price needs it to stay.
    let by_price = ad("8:1", "p", &["z1"], 0, "").replace(r#""ecpmMicros":"0","#, "");
    import(&server, &[by_price]).await;
    let clicks = Price { per: Some(price::Per::ClickMicros(1)) };
    let request =
        put(Campaign { campaign_id: "8:1".into(), price: Some(clicks), ..Campaign::default() });
    assert_refused(
        &client.put_campaign(request).await.unwrap_err(),
        Code::FailedPrecondition,
        &["price"],
    );
    let delete =
        DeleteAdRequest { campaign_id: "8:1".into(), ad_unit_id: "p".into(), if_version: 0 };
    client.delete_ad(delete).await.unwrap();
    assert_eq!(export(&mut client).await, before, "nothing was half written");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
async fn puts_are_refused_with_the_field_and_the_kind_of_problem() {
    let (server, mut client) = start().await;
    import(&server, &rich()).await;
    let missing = client.put_ad(PutAdRequest::default()).await.unwrap_err();
    assert_refused(&missing, Code::InvalidArgument, &["ad"]);
    let no_campaign = Ad {
        campaign_id: "9:9".into(),
        ad_unit_id: "u".into(),
        landing_url: "https://x.example/".into(),
        ecpm_micros: Some(1),
        ..Ad::default()
    };
    let request = PutAdRequest { ad: Some(no_campaign), ..PutAdRequest::default() };
    assert_refused(
        &client.put_ad(request).await.unwrap_err(),
        Code::FailedPrecondition,
        &["campaign_id"],
    );
    let bad = Campaign {
        campaign_id: "8:1".into(),
        start_time: Some(prost_types::Timestamp { seconds: 10, nanos: 0 }),
        end_time: Some(prost_types::Timestamp { seconds: 10, nanos: 0 }),
        tier: 9,
        ..Campaign::default()
    };
    assert_refused(
        &client.put_campaign(put(bad.clone())).await.unwrap_err(),
        Code::InvalidArgument,
        &["end_time"],
    );
    let request = PutCampaignRequest { update_mask: mask(&["teir"]), ..put(bad) };
    assert_refused(
        &client.put_campaign(request).await.unwrap_err(),
        Code::InvalidArgument,
        &["update_mask"],
    );
    assert_eq!(get(&mut client, "8:1").await.tier, 0);
    for (code, status) in [
        (
            Code::NotFound,
            client
                .get_campaign(GetCampaignRequest { campaign_id: "0:0".into() })
                .await
                .unwrap_err(),
        ),
        (
            Code::NotFound,
            client
                .delete_campaign(DeleteCampaignRequest { campaign_id: "0:0".into(), if_version: 0 })
                .await
                .unwrap_err(),
        ),
        (
            Code::NotFound,
            client
                .list_ads(ListAdsRequest { campaign_id: "0:0".into(), ..Default::default() })
                .await
                .unwrap_err(),
        ),
        (
            Code::NotFound,
            client
                .list_zone_ads(ListZoneAdsRequest {
                    site_id: "s".into(),
                    zone_id: "no".into(),
                    ..Default::default()
                })
                .await
                .unwrap_err(),
        ),
        (Code::Unimplemented, client.list_nodes(ListNodesRequest {}).await.unwrap_err()),
        (
            Code::Unimplemented,
            client
                .get_delivery(GetDeliveryRequest { campaign_id: "8:1".into() })
                .await
                .unwrap_err(),
        ),
    ] {
        assert_eq!(status.code(), code, "{status}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_import_names_its_records_and_changes_nothing() {
    let (server, mut client) = start().await;
    import(&server, &rich()).await;
    let (before, version) = (export(&mut client).await, server.app().admin.served.borrow().version);
    let mut records: Vec<String> =
        (0..150).map(|n| ad("8:1", &format!("n{n}"), &["z1"], 1, "")).collect();
    records.push(ad("8:1", "n3", &["z1"], 1, ""));
    let answer = try_import(&server, ImportOptions::default(), &records).await.unwrap();
    assert_eq!(answer.problem_count, 1);
    assert_eq!(
        (answer.problems[0].record_number, answer.problems[0].field.as_str()),
        (151, "ad.ad_unit_id")
    );
    assert!(answer.problems[0].message.contains("record 4"), "{:?}", answer.problems);
    let many: Vec<String> = (0..150).map(|n| ad("9:9", &format!("n{n}"), &["z1"], 1, "")).collect();
    let answer = try_import(&server, ImportOptions::default(), &many).await.unwrap();
    assert_eq!((answer.problems.len(), answer.problem_count, answer.records), (100, 150, 150));
    assert_eq!(answer.catalog_version, version);
    let check = ImportOptions { validate_only: true, ..ImportOptions::default() };
    let answer = try_import(&server, check, &records[..150]).await.unwrap();
    assert_eq!((answer.problem_count, answer.records, answer.catalog_version), (0, 150, version));
    let late = [
        ImportRequest {
            step: Some(import_request::Step::Record(json::from_str(&records[0]).unwrap())),
        },
        ImportRequest { step: Some(import_request::Step::Options(ImportOptions::default())) },
    ];
    let status = client.import(tokio_stream::iter(late)).await.unwrap_err();
    assert_refused(&status, Code::InvalidArgument, &["options"]);
    let empty = [ImportRequest {
        step: Some(import_request::Step::Record(CatalogRecord { record: None })),
    }];
    let answer = client.import(tokio_stream::iter(empty)).await.unwrap().into_inner();
    assert_eq!((answer.problems[0].record_number, answer.problem_count), (1, 1));
    assert_eq!(export(&mut client).await, before);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_imports_elsewhere_as_the_same_catalogue() {
    let (server, mut client) = start().await;
    import(&server, &rich()).await;
    let lines = export(&mut client).await;
    assert_eq!(lines.len(), rich().len());
    let (other, mut there) = start().await;
    // In any order.
    let backwards: Vec<_> = lines.iter().rev().collect();
    import(&other, &backwards).await;
    assert_eq!(export(&mut there).await, lines);
    let again = try_import(&other, ImportOptions::default(), &lines).await.unwrap();
    assert_eq!(again.catalog_version, 1, "the same once more is no change");
    assert!(lines.iter().any(|line| line.contains("CAMPAIGN_STATUS_PAUSED")));
    server.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacing_import_deletes_the_rest_and_guards_against_a_slip() {
    let (server, mut client) = start().await;
    let mut records = rich();
    records.extend((0..4).map(|n| ad("8:1", &format!("n{n}"), &["z2"], 1, "")));
    import(&server, &records).await;
    let replace = ImportOptions { replace: true, ..ImportOptions::default() };
    // Four of six ads would go.
    let status = try_import(&server, replace, &rich()).await.unwrap_err();
    assert_refused(&status, Code::FailedPrecondition, &["options.force"]);
    let forced = ImportOptions { force: true, ..replace };
    let answer = try_import(&server, forced, &rich()).await.unwrap();
    support::served(&server, answer.catalog_version).await;
    assert_eq!(export(&mut client).await.len(), rich().len());
    let zone = client.choose_zone("z2").await;
    assert_eq!(zone, ["7:3/a1"]);
    // A site that goes takes its zones along only when nothing needs them.
    let without_zone: Vec<String> = rich()
        .into_iter()
        .filter(|r| !r.contains(r#""zone":{"siteId":"s","zoneId":"z2""#))
        .collect();
    let answer = try_import(&server, forced, &without_zone).await.unwrap();
    assert_eq!(answer.problems[0].field, "ad.zones[1].zone_id");
    server.stop().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_made_again_begins_anew_and_its_ads_are_gone() {
    let (server, mut client) = start().await;
    let mut records = place(&["z"]);
    let cap = r#""caps":[{"level":"CAP_LEVEL_CAMPAIGN","impressionsMax":1,"window":"86400s"}]"#;
    records.extend([
        campaign("x:1", cap),
        ad("x:1", "u", &["z"], 1, ""),
        ad("x:1", "v", &["z"], 2, ""),
    ]);
    import(&server, &records).await;
    let mut door = decisions(&server).await;
    assert_eq!(door.choose_ads(ask("z", "v", 9)).await.unwrap().into_inner().ads.len(), 1);
    assert!(door.choose_ads(ask("z", "v", 9)).await.unwrap().into_inner().ads.is_empty());
    let request = DeleteCampaignRequest { campaign_id: "x:1".into(), if_version: 0 };
    let gone = client.delete_campaign(request).await.unwrap().into_inner();
    assert_eq!(gone.summary, "deleted, with 2 ads");
    support::served(&server, gone.catalog_version).await;
    assert_eq!(
        door.choose_ads(ask("z", "v", 9)).await.unwrap().into_inner().no_ad_reason(),
        NoAdReason::ZoneEmpty
    );
    import(&server, &records[3..5]).await;
    // The new campaign is another one: what was shown of the old one is not its own.
    let shown = door.choose_ads(ask("z", "v", 9)).await.unwrap().into_inner().ads;
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].ad_unit_id, "u", "the old one's other ad did not come back");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_in_pages() {
    let (server, mut client) = start().await;
    let mut records = place(&["z"]);
    for n in 0..250 {
        records.push(campaign(&format!("{}:{n:03}", if n % 2 == 0 { "even" } else { "odd" }), ""));
    }
    import(&server, &records).await;
    let (mut ids, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListCampaignsRequest {
            advertiser_id: "odd".into(),
            page_size: 50,
            page_token,
            ..Default::default()
        };
        let page = client.list_campaigns(request).await.unwrap().into_inner();
        assert!(page.campaigns.len() <= 50);
        ids.extend(page.campaigns.into_iter().map(|campaign| campaign.campaign_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let expected: Vec<String> =
        (0..250).filter(|n| n % 2 == 1).map(|n| format!("odd:{n:03}")).collect();
    assert_eq!(ids, expected);
    let all = client
        .list_campaigns(ListCampaignsRequest {
            account_id: "a".into(),
            page_size: 1_000,
            ..Default::default()
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(all.campaigns.len(), 250);
    let usual = client.list_campaigns(ListCampaignsRequest::default()).await.unwrap().into_inner();
    assert_eq!(usual.campaigns.len(), 100);
    let none = client
        .list_campaigns(ListCampaignsRequest { account_id: "b".into(), ..Default::default() })
        .await
        .unwrap()
        .into_inner();
    assert!(none.campaigns.is_empty() && none.next_page_token.is_empty());
    let over = client
        .list_sites(ListSitesRequest { page_size: 1_001, ..Default::default() })
        .await
        .unwrap_err();
    assert_refused(&over, Code::InvalidArgument, &["page_size"]);
    let forged = client
        .list_sites(ListSitesRequest { page_token: "?".into(), ..Default::default() })
        .await
        .unwrap_err();
    assert_refused(&forged, Code::InvalidArgument, &["page_token"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_says_who_did_what_from_what_to_what() {
    let (server, mut client) = start().await;
    import(&server, &rich()).await;
    let tier = |tier| put(Campaign { campaign_id: "8:1".into(), tier, ..Campaign::default() });
    client.put_campaign(tier(4)).await.unwrap();
    client
        .set_campaign_status(SetCampaignStatusRequest {
            campaign_id: "8:1".into(),
            status: CampaignStatus::Paused.into(),
            wait: None,
        })
        .await
        .unwrap();
    let all =
        client.list_changes(ListChangesRequest::default()).await.unwrap().into_inner().changes;
    let lines: Vec<_> = all
        .iter()
        .map(|c| c.change.clone().unwrap())
        .map(|c| (c.catalog_version, c.kind, c.id, c.summary, c.actor))
        .collect();
    let line = |version, kind: &str, id: &str, summary: &str| {
        (version, kind.to_owned(), id.to_owned(), summary.to_owned(), "local".to_owned())
    };
    assert_eq!(
        lines,
        [
            line(3, "campaign", "8:1", "paused"),
            line(2, "campaign", "8:1", "changed: tier"),
            line(1, "import", "", "8 added, 0 changed, 0 deleted"),
        ]
    );
    let one = ListChangesRequest { id: "8:1".into(), page_size: 2, ..Default::default() };
    let first = client.list_changes(one.clone()).await.unwrap().into_inner();
    assert_eq!(first.changes.len(), 2);
    let campaign = |record: &Option<CatalogRecord>| match record.clone().and_then(|r| r.record) {
        Some(catalog_record::Record::Campaign(campaign)) => campaign,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (campaign(&first.changes[1].before).tier, campaign(&first.changes[1].after).tier),
        (0, 4)
    );
    assert_eq!(campaign(&first.changes[0].after).status, i32::from(CampaignStatus::Paused));
    let rest = client
        .list_changes(ListChangesRequest { page_token: first.next_page_token, ..one })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(rest.changes[0].change.as_ref().unwrap().summary, "created by an import");
    assert!(rest.changes[0].before.is_none() && rest.next_page_token.is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_watched_from_any_version_that_is_kept() {
    let (server, mut client) = start().await;
    import(&server, &rich()).await;
    let tier = |tier| put(Campaign { campaign_id: "8:1".into(), tier, ..Campaign::default() });
    for n in 1..=3 {
        client.put_campaign(tier(n)).await.unwrap();
    }
    let mut all =
        client.watch_changes(WatchChangesRequest { after_version: 0 }).await.unwrap().into_inner();
    for version in 1..=4 {
        assert_eq!(all.next().await.unwrap().unwrap().catalog_version, version);
    }
    let mut live =
        client.watch_changes(WatchChangesRequest { after_version: 4 }).await.unwrap().into_inner();
    client.put_campaign(tier(9)).await.unwrap();
    for stream in [&mut all, &mut live] {
        let change = stream.next().await.unwrap().unwrap();
        assert_eq!((change.catalog_version, change.id.as_str()), (5, "8:1"));
        assert!(change.changed_at.is_some());
    }
    for beyond in [6, u64::MAX] {
        let status =
            client.watch_changes(WatchChangesRequest { after_version: beyond }).await.unwrap_err();
        assert_eq!(status.code(), Code::OutOfRange);
    }
    server.stop().await;
    assert!(all.next().await.is_none(), "a draining server ends the stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zones_ads_come_in_ecpm_order_and_in_pages() {
    let (server, mut client) = start().await;
    let mut records = place(&["z"]);
    records.push(campaign("x:1", ""));
    for n in 0..30 {
        records.push(ad("x:1", &format!("u{n:02}"), &["z"], (n * 7) % 10, ""));
    }
    import(&server, &records).await;
    let (mut ads, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListZoneAdsRequest {
            site_id: "s".into(),
            zone_id: "z".into(),
            page_size: 7,
            page_token,
        };
        let page = client.list_zone_ads(request).await.unwrap().into_inner();
        ads.extend(page.ads);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(ads.len(), 30);
    assert!(ads.is_sorted_by_key(|ad| (std::cmp::Reverse(ad.ecpm_micros), ad.ad_unit_id.clone())));
    server.stop().await;
}
