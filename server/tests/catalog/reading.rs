//! Lists, the audit log and the live feed.

use super::*;

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
    let colon = ListCampaignsRequest { advertiser_id: "odd:1".into(), ..Default::default() };
    let colon = client.list_campaigns(colon).await.unwrap_err();
    assert_refused(&colon, Code::InvalidArgument, &["advertiser_id"]);
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
