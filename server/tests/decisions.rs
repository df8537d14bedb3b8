//! The decision door through a real socket: what is refused, what is echoed, what is fixed by a
//! seed, and what holds however parallel the callers are.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

mod support;

use std::collections::HashSet;

use slotwise_proto::v1::{
    ChooseAdsBatchRequest, ChooseAdsRequest, ChooseAdsResponse, Detail, RequestContext, Size,
};
use slotwise_server::telemetry::Metric;
use slotwise_server::testing::{ManualClock, Server};
use support::{NOON_US, ad, ask, campaign, decisions, import, place, refused_fields};
use tokio_stream::StreamExt;
use tonic::Code;

const CAP_3_A_DAY: &str =
    r#""caps":[{"level":"CAP_LEVEL_CAMPAIGN","impressionsMax":3,"window":"86400s"}]"#;

async fn server(records: Vec<String>) -> Server {
    let server = Server::start_with(ManualClock::new(NOON_US), &[]).await;
    import(&server, &records).await;
    server
}

/// Zone `z` with ads worth 10, 9, 8, each of a campaign of its own; the first is capped.
fn three_ads() -> Vec<String> {
    let mut records = place(&["z"]);
    records.extend([
        campaign("x:1", CAP_3_A_DAY),
        campaign("x:2", r#""categories":["IAB1"],"advertiserDomains":["x.example"]"#),
        campaign("x:3", ""),
        ad("x:1", "u", &["z"], 10, ""),
        ad("x:2", "u", &["z"], 9, r#""size":{"width":300,"height":250}"#),
        ad("x:3", "u", &["z"], 8, ""),
    ]);
    records
}

fn chosen(answer: &ChooseAdsResponse) -> Vec<&str> {
    answer.ads.iter().map(|ad| ad.campaign_id.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
async fn every_bad_field_is_refused_by_name() {
    let server = server(three_ads()).await;
    let mut client = decisions(&server).await;
    let long = "x".repeat(129);
    let size = |width, height| Size { width, height };
    type Spoil = Box<dyn Fn(&mut ChooseAdsRequest)>;
    let spoils: Vec<(&str, Spoil)> = vec![
        (
            "request_id",
            Box::new({
                let long = long.clone();
                move |r| r.request_id = long.clone()
            }),
        ),
        ("site_id", Box::new(|r| r.site_id = String::new())),
        (
            "site_id",
            Box::new({
                let long = long.clone();
                move |r| r.site_id = long.clone()
            }),
        ),
        ("zone_id", Box::new(|r| r.zone_id = String::new())),
        ("zone_id", Box::new(|r| r.zone_id = "a\nb".into())),
        ("user_id", Box::new(move |r| r.user_id = long.clone())),
        ("count", Box::new(|r| r.count = 101)),
        ("timeout_ms", Box::new(|r| r.timeout_ms = 60_001)),
        ("exposure", Box::new(|r| r.exposure = 77)),
        ("detail", Box::new(|r| r.detail = -1)),
        (
            "context.country",
            Box::new(|r| {
                r.context = Some(RequestContext { country: "at".into(), ..Default::default() });
            }),
        ),
        ("floor_ecpm_micros", Box::new(|r| r.floor_ecpm_micros = -1)),
        ("floor_ecpm_micros", Box::new(|r| r.floor_ecpm_micros = i64::MAX)),
        ("blocked_advertisers", Box::new(|r| r.blocked_advertisers = vec!["x".into(); 1_001])),
        (
            "blocked_categories[1]",
            Box::new(|r| {
                r.blocked_categories = vec!["IAB1".into(), String::new()];
            }),
        ),
        ("blocked_domains[0]", Box::new(|r| r.blocked_domains = vec!["\u{7}".into()])),
        ("sizes", Box::new(move |r| r.sizes = vec![size(1, 1); 65])),
        ("sizes[1]", Box::new(move |r| r.sizes = vec![size(1, 1), size(0, 1)])),
        ("explain_max", Box::new(|r| r.explain_max = 1_001)),
        ("as_of", Box::new(|r| r.as_of = Some(prost_types::Timestamp::default()))),
        (
            "as_of",
            Box::new(|r| {
                r.dry_run = true;
                r.as_of = Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 });
            }),
        ),
        (
            "as_of",
            Box::new(|r| {
                r.dry_run = true;
                r.as_of = Some(prost_types::Timestamp { seconds: 0, nanos: -1 });
            }),
        ),
        (
            "as_of",
            Box::new(|r| {
                // The year 10000.
                r.dry_run = true;
                r.as_of = Some(prost_types::Timestamp { seconds: 253_402_300_800, nanos: 0 });
            }),
        ),
        (
            "as_of",
            Box::new(|r| {
                // The last second before the year 1.
                r.dry_run = true;
                r.as_of = Some(prost_types::Timestamp { seconds: -62_135_596_801, nanos: 0 });
            }),
        ),
    ];
    let total = spoils.len() as u64;
    for (field, spoil) in spoils {
        let mut request = ask("z", "v", 1);
        spoil(&mut request);
        let status = client.choose_ads(request.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status}");
        assert_eq!(refused_fields(&status), [field], "{status}");
        assert!(status.message().starts_with(field), "{status}");
        // In a batch the others are answered all the same.
        let requests = vec![request, ask("z", "", 1)];
        let batch = ChooseAdsBatchRequest { requests };
        let answers = client.choose_ads_batch(batch).await.unwrap().into_inner().responses;
        let error = answers[0].error.as_ref().unwrap();
        assert_eq!((error.code, error.field.as_str()), (3, field));
        assert_eq!(answers[0].ads.len() as i32 + answers[0].no_ad_reason, 0);
        assert_eq!(chosen(&answers[1]), ["x:1"]);
    }
    let counters = server.app().counters();
    assert_eq!(counters.get(Metric::DecisionsRefused), 2 * total);
    assert_eq!(counters.get(Metric::DecisionsFilled), total);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_over_its_limits_is_refused_whole() {
    let server = server(three_ads()).await;
    let mut client = decisions(&server).await;
    let too_many = ChooseAdsBatchRequest { requests: vec![ask("z", "", 1); 1_001] };
    let status = client.choose_ads_batch(too_many).await.unwrap_err();
    assert_eq!(
        (status.code(), refused_fields(&status)),
        (Code::InvalidArgument, vec!["requests".into()])
    );
    let too_large = ChooseAdsBatchRequest { requests: vec![ask("z", "", 100); 101] };
    let status = client.choose_ads_batch(too_large).await.unwrap_err();
    assert_eq!(
        (status.code(), refused_fields(&status)),
        (Code::InvalidArgument, vec!["requests".into()])
    );
    let most = ChooseAdsBatchRequest { requests: vec![ask("z", "", 10); 1_000] };
    let answers = client.choose_ads_batch(most).await.unwrap().into_inner().responses;
    assert!(answers.iter().all(|answer| chosen(answer) == ["x:1", "x:2", "x:3"]));
    assert_eq!(answers.len(), 1_000);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_answered_in_order_and_outlives_a_refusal() {
    let server = server(three_ads()).await;
    let mut client = decisions(&server).await;
    let requests = (0..300_u32).map(|n| ChooseAdsRequest {
        request_id: n.to_string(),
        count: if n % 3 == 1 { 101 } else { 1 },
        ..ask("z", "", 1)
    });
    let stream = tokio_stream::iter(requests.collect::<Vec<_>>());
    let mut answers = client.choose_ads_stream(stream).await.unwrap().into_inner();
    for n in 0..300 {
        let answer = answers.next().await.unwrap().unwrap();
        assert_eq!(answer.request_id, n.to_string());
        match n % 3 {
            1 => assert_eq!(answer.error.unwrap().field, "count"),
            _ => assert_eq!(chosen(&answer), ["x:1"]),
        }
    }
    assert!(answers.next().await.is_none());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_are_given_when_asked_for() {
    let server = server(three_ads()).await;
    let mut client = decisions(&server).await;
    let plain = client.choose_ads(ask("z", "", 3)).await.unwrap().into_inner();
    assert!(plain.ads.iter().all(|ad| ad.creative.is_none()));
    let request = ChooseAdsRequest { detail: Detail::Facts.into(), ..ask("z", "", 3) };
    let facts = client.choose_ads(request).await.unwrap().into_inner();
    let creative = facts.ads[1].creative.clone().unwrap();
    assert_eq!(creative.size, Some(Size { width: 300, height: 250 }));
    assert_eq!(
        (creative.categories, creative.advertiser_domains),
        (vec!["IAB1".into()], vec!["x.example".into()])
    );
    assert_eq!(creative.markup, "");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_ids_are_echoed_or_made() {
    let server = server(three_ads()).await;
    let mut client = decisions(&server).await;
    let mut made = HashSet::new();
    for _ in 0..100 {
        made.insert(client.choose_ads(ask("z", "", 1)).await.unwrap().into_inner().request_id);
    }
    assert_eq!(made.len(), 100, "every one is new");
    let named = ChooseAdsRequest { request_id: "mine".into(), ..ask("nowhere", "", 1) };
    assert_eq!(client.choose_ads(named).await.unwrap().into_inner().request_id, "mine");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_fixes_every_choice_and_dry_runs_leave_no_trace() {
    let mut records = place(&["z"]);
    for n in 0..50 {
        let id = format!("x:{n}");
        records.push(campaign(&id, CAP_3_A_DAY));
        records.push(ad(&id, "u", &["z"], 5, ""));
    }
    let server = server(records).await;
    let mut client = decisions(&server).await;
    let mut orders = HashSet::new();
    for seed in 0..20 {
        let request = ChooseAdsRequest { dry_run: true, seed: Some(seed), ..ask("z", "v", 10) };
        let first = client.choose_ads(request.clone()).await.unwrap().into_inner();
        let again = client.choose_ads(request.clone()).await.unwrap().into_inner();
        assert_eq!(first, again, "the same bytes");
        let named = ChooseAdsRequest { request_id: "r-1".into(), ..request };
        let named = client.choose_ads(named).await.unwrap().into_inner();
        assert_eq!(chosen(&first), chosen(&named), "an id of the caller's own changes nothing");
        orders.insert(format!("{:?}", chosen(&first)));
    }
    assert!(orders.len() > 15, "another seed is another choice");
    // Not one of the 40 dry runs was an exposure: the whole cap is left.
    for _ in 0..3 {
        let all = client.choose_ads(ask("z", "v", 100)).await.unwrap().into_inner();
        assert_eq!(all.ads.len(), 50);
    }
    assert!(client.choose_ads(ask("z", "v", 100)).await.unwrap().into_inner().ads.is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_sees_the_profile_and_the_flights_of_its_instant() {
    let clock = ManualClock::new(NOON_US);
    let server = Server::start_with(clock.clone(), &[]).await;
    let mut records = place(&["z"]);
    let flight = r#""endTime":"2026-11-30T13:00:00Z","budget":{"dailyMicros":"5"}"#;
    let cap = r#""caps":[{"level":"CAP_LEVEL_AD","impressionsMax":1,"window":"60s"}]"#;
    records.extend([
        campaign("x:flight", flight),
        campaign("x:cap", cap),
        ad("x:flight", "u", &["z"], 9, ""),
        ad("x:cap", "u", &["z"], 5, ""),
    ]);
    import(&server, &records).await;
    let mut client = decisions(&server).await;
    let shown = client.choose_ads(ask("z", "v", 9)).await.unwrap().into_inner();
    assert_eq!(chosen(&shown), ["x:cap"], "a campaign with a budget does not serve yet");
    let replay = |seconds_later: i64| ChooseAdsRequest {
        dry_run: true,
        as_of: Some(prost_types::Timestamp {
            seconds: NOON_US / 1_000_000 + seconds_later,
            nanos: 0,
        }),
        ..ask("z", "v", 9)
    };
    let expected: [(i64, &[&str]); 5] = [
        (-1, &["x:flight", "x:cap"]),
        (0, &["x:flight"]),
        (59, &["x:flight"]),
        (60, &["x:flight", "x:cap"]),
        (3_600, &["x:cap"]),
    ];
    for (later, ads) in expected {
        let answer = client.choose_ads(replay(later)).await.unwrap().into_inner();
        assert_eq!(chosen(&answer), ads, "{later} s later");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keywords_beyond_the_limits_are_ignored_and_counted() {
    let mut records = place(&["z"]);
    records.extend([campaign("x:1", ""), ad("x:1", "u", &["z"], 1, r#""keywords":["k64","k0"]"#)]);
    let server = server(records).await;
    let mut client = decisions(&server).await;
    let keywords = |n| (0..n).map(|n| format!("k{n}")).collect::<Vec<_>>();
    let mut request = ChooseAdsRequest { keywords: keywords(70), ..ask("z", "", 1) };
    request.keywords.extend(["x".repeat(65), format!("  {}  ", "y".repeat(64))]);
    let answer = client.choose_ads(request).await.unwrap().into_inner();
    assert_eq!(answer.ads[0].matched_keywords, 1, "k64 is the 65th");
    // k64 to k69 and the two words after them: one too long, one too many.
    assert_eq!(server.app().counters().get(Metric::KeywordsIgnored), 8);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cap_holds_however_parallel_the_requests() {
    let rounds: usize =
        std::env::var("SLOTWISE_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let mut records = place(&["z"]);
    records.extend([campaign("x:1", CAP_3_A_DAY), ad("x:1", "u", &["z"], 1, "")]);
    let server = server(records).await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(decisions(&server).await);
    }
    for round in 0..rounds {
        let user = format!("visitor {round}");
        let calls: Vec<_> = (0..64)
            .map(|n| {
                let (mut client, request) = (clients[n % 8].clone(), ask("z", &user, 1));
                tokio::spawn(async move { client.choose_ads(request).await.unwrap().into_inner() })
            })
            .collect();
        let mut shown = 0;
        for call in calls {
            shown += call.await.unwrap().ads.len();
        }
        assert_eq!(shown, 3, "round {round}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_of_two_accounts_are_two() {
    let mut records = place(&["z"]);
    records.extend([campaign("x:1", CAP_3_A_DAY), ad("x:1", "u", &["z"], 1, "")]);
    records.extend([
        r#"{"account":{"accountId":"b"}}"#.to_owned(),
        r#"{"site":{"siteId":"sb","accountId":"b"}}"#.to_owned(),
        r#"{"zone":{"siteId":"sb","zoneId":"z"}}"#.to_owned(),
        campaign("x:2", CAP_3_A_DAY).replace(r#""accountId":"a""#, r#""accountId":"b""#),
        ad("x:2", "u", &["z"], 1, "").replace(r#""siteId":"s""#, r#""siteId":"sb""#),
    ]);
    let server = server(records).await;
    let mut client = decisions(&server).await;
    let there = ChooseAdsRequest { site_id: "sb".into(), ..ask("z", "v", 1) };
    for _ in 0..3 {
        for request in [ask("z", "v", 1), there.clone()] {
            assert_eq!(client.choose_ads(request).await.unwrap().into_inner().ads.len(), 1);
        }
    }
    for request in [ask("z", "v", 1), there] {
        assert!(client.choose_ads(request).await.unwrap().into_inner().ads.is_empty());
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalogue_that_is_confirmed_is_never_stale() {
    let clock = ManualClock::new(NOON_US);
    let server = Server::start_with(clock.clone(), &[("catalog_stale_after_s", "60")]).await;
    import(&server, &three_ads()).await;
    let mut client = decisions(&server).await;
    assert_eq!(client.choose_ads(ask("z", "", 1)).await.unwrap().into_inner().ads.len(), 1);
    // The catalogue is as old as the store's last word, not as its last change.
    clock.set(NOON_US + 3_600_000_000);
    let mut served = server.app().admin.served.clone();
    served.wait_for(|served| served.confirmed_at_us > NOON_US).await.unwrap();
    assert_eq!(client.choose_ads(ask("z", "", 1)).await.unwrap().into_inner().ads.len(), 1);
    server.stop().await;
}
