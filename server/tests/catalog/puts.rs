//! Puts, deletes and the status: what changes, what stays, what is refused.

use super::*;

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
        assert_eq!(change.summary, "changed: budget; not served, as this version keeps no budgets");
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
