//! Imports and exports: all or nothing, checked against the rest, the same elsewhere.

use super::*;

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
                r#""targeting":{"countries":["at"],"hoursOfWeek":[168],"expression":"a == 1"}"#,
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
