//! Explanations through a real socket: in every call, of large zones, and where what is stored of
//! the visitor cannot be had. What they say of each candidate is among the cases.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

#[path = "support/nodes.rs"]
mod nodes;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/redis.rs"]
mod redis_server;
mod support;

use std::time::Duration;

use nodes::{node_at, says};
use proxy::{Mode, Proxy};
use redis_server::RedisServer;
use slotwise_proto::v1::{
    ChooseAdsBatchRequest, ChooseAdsRequest, ChooseAdsResponse, Explanation, Verdict,
};
use slotwise_server::testing::{ManualClock, Server};
use support::{NOON_US, ad, ask, campaign, decisions, import, place, refused_fields};
use tokio_stream::StreamExt;

fn cap(more: &str) -> String {
    let cap = r#"{"level":"CAP_LEVEL_CAMPAIGN","impressionsMax":1,"window":"86400s"}"#;
    format!(r#""caps":[{cap}]{more}"#)
}

/// Zone `z`: a capped ad worth 10, one with a strict cap worth 9, one for a segment worth 8, one
/// that anybody may see worth 1.
fn records() -> Vec<String> {
    let mut records = place(&["z"]);
    records.extend([
        campaign("x:capped", &cap("")),
        campaign("y:strict", &cap(r#","strictCaps":true"#)),
        campaign("z:segment", r#""targeting":{"segmentsAny":["auto/in-market"]}"#),
        campaign("z:free", ""),
        ad("x:capped", "u", &["z"], 10, ""),
        ad("y:strict", "u", &["z"], 9, ""),
        ad("z:segment", "u", &["z"], 8, ""),
        ad("z:free", "u", &["z"], 1, ""),
    ]);
    records
}

async fn server(records: Vec<String>) -> Server {
    let server = Server::start_with(ManualClock::new(NOON_US), &[]).await;
    import(&server, &records).await;
    server
}

fn explained(user: &str, count: u32) -> ChooseAdsRequest {
    ChooseAdsRequest { explain: true, ..ask("z", user, count) }
}

fn verdicts(answer: &ChooseAdsResponse) -> Vec<(&str, Verdict)> {
    let verdicts = &answer.explanation.as_ref().unwrap().verdicts;
    verdicts.iter().map(|one| (one.campaign_id.as_str(), one.verdict())).collect()
}

fn sum(explanation: &Explanation) -> u32 {
    explanation.counts.iter().map(|count| count.count).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn explaining_changes_nothing_and_reads_the_profile() {
    let server = server(records()).await;
    let mut client = decisions(&server).await;
    let mut plain = client.choose_ads(ask("z", "v", 9)).await.unwrap().into_inner();
    assert!(plain.explanation.is_none());
    let mut explained_first = client.choose_ads(explained("w", 9)).await.unwrap().into_inner();
    // Each showing has a token of its own.
    for ad in plain.ads.iter_mut().chain(&mut explained_first.ads) {
        assert!(!std::mem::take(&mut ad.token).is_empty());
    }
    assert_eq!(plain.ads, explained_first.ads);
    // One that needs no profile to be chosen is explained with it all the same.
    let floor_0 = ChooseAdsRequest { dry_run: true, ..explained("v", 1) };
    let answer = client.choose_ads(floor_0).await.unwrap().into_inner();
    let expected = [
        ("x:capped", Verdict::FrequencyCapped),
        ("y:strict", Verdict::FrequencyCapped),
        ("z:segment", Verdict::Targeting),
        ("z:free", Verdict::Chosen),
    ];
    assert_eq!(verdicts(&answer), expected);
    // An explained decision records as any other does.
    let again = client.choose_ads(explained("w", 9)).await.unwrap().into_inner();
    assert_eq!(verdicts(&again), expected);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_and_streams_are_explained_one_request_at_a_time() {
    let server = server(records()).await;
    let mut client = decisions(&server).await;
    let requests = vec![explained("", 1), ask("z", "", 1), explained("", 9), ask("", "", 1)];
    let check = |answers: &[ChooseAdsResponse]| {
        assert_eq!(verdicts(&answers[0])[0], ("x:capped", Verdict::Chosen));
        assert!(answers[1].explanation.is_none() && answers[1].ads.len() == 1);
        let counts = &answers[2].explanation.as_ref().unwrap().counts;
        let counts: Vec<_> = counts.iter().map(|one| (one.verdict(), one.count)).collect();
        assert_eq!(counts, [(Verdict::Chosen, 3), (Verdict::Targeting, 1)]);
        assert_eq!(answers[3].error.as_ref().unwrap().field, "zone_id");
    };
    let batch = ChooseAdsBatchRequest { requests: requests.clone() };
    check(&client.choose_ads_batch(batch).await.unwrap().into_inner().responses);
    let stream = client.choose_ads_stream(tokio_stream::iter(requests)).await.unwrap();
    let answers: Result<Vec<_>, _> = stream.into_inner().collect().await;
    check(&answers.unwrap());

    let most = ChooseAdsBatchRequest { requests: vec![explained("", 1); 1_000] };
    let answers = client.choose_ads_batch(most).await.unwrap().into_inner().responses;
    assert!(answers.iter().all(|answer| verdicts(answer).len() == 4));
    let request = ChooseAdsRequest { explain_max: 1_000, ..explained("", 1) };
    let too_many = ChooseAdsBatchRequest { requests: vec![request; 21] };
    let status = client.choose_ads_batch(too_many).await.unwrap_err();
    assert_eq!(refused_fields(&status), ["requests"], "{status}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_zone_is_counted_whole_and_told_from_its_top() {
    const ADS: u32 = 3_000;
    let mut records = place(&["z"]);
    for n in 0..ADS {
        let id = format!("x:{n}");
        let status = if n % 3 == 0 { r#""status":"CAMPAIGN_STATUS_PAUSED""# } else { "" };
        records.push(campaign(&id, status));
        records.push(ad(&id, "u", &["z"], i64::from(n) + 1, ""));
    }
    let server = server(records).await;
    let mut client = decisions(&server).await;
    let request = ChooseAdsRequest { explain_max: 1_000, ..explained("", 100) };
    let answer = client.choose_ads(request).await.unwrap().into_inner();
    let explanation = answer.explanation.as_ref().unwrap();
    assert_eq!((explanation.candidates, sum(explanation)), (ADS, ADS));
    let counts: Vec<_> = explanation.counts.iter().map(|one| (one.verdict(), one.count)).collect();
    let expected =
        [(Verdict::Chosen, 100), (Verdict::CampaignPaused, 1_000), (Verdict::Outranked, 1_900)];
    assert_eq!(counts, expected);
    let told = verdicts(&answer);
    assert_eq!(told.len(), 1_000);
    for ((campaign, verdict), n) in told.into_iter().zip((0..ADS).rev()) {
        assert_eq!(campaign, format!("x:{n}"));
        // Of the 150 best a third is paused, and the others fill the answer.
        let expected = match n {
            n if n % 3 == 0 => Verdict::CampaignPaused,
            n if n >= ADS - 150 => Verdict::Chosen,
            _ => Verdict::Outranked,
        };
        assert_eq!(verdict, expected, "{n}");
    }
    let default = client.choose_ads(explained("", 1)).await.unwrap().into_inner();
    assert_eq!(verdicts(&default).len(), 20);
    server.stop().await;
}

/// Caps go on from what the node remembers; nobody can say that strict ones hold, or which
/// segments the visitor has.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_store_that_is_away_would_decide_is_said() {
    let mut redis = RedisServer::start();
    let node = node_at(&redis.url(), "a", &[]).await;
    let mut records = records();
    records.push(campaign("z:none", r#""targeting":{"segmentsNone":["auto/bought"]}"#));
    records.push(ad("z:none", "u", &["z"], 7, ""));
    import(&node, &records).await;
    let mut client = decisions(&node).await;
    client.choose_ads(ask("z", "v", 1)).await.unwrap();
    redis.kill();
    says(&node, "redis").await;
    let expected = |capped| {
        [
            ("x:capped", capped),
            ("y:strict", Verdict::ProfileUnavailable),
            ("z:segment", Verdict::ProfileUnavailable),
            ("z:none", Verdict::ProfileUnavailable),
            ("z:free", Verdict::Chosen),
        ]
    };
    for dry_run in [true, false] {
        for (user, capped) in [("v", Verdict::FrequencyCapped), ("w", Verdict::Chosen)] {
            let request = ChooseAdsRequest { dry_run, ..explained(user, 9) };
            let answer = client.choose_ads(request).await.unwrap().into_inner();
            assert_eq!(verdicts(&answer), expected(capped), "{user}, dry run {dry_run}");
            assert!(answer.explanation.unwrap().notes[0].contains("away"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_profile_that_is_not_to_be_had_is_said() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port);
    let node = node_at(&proxy.url(), "a", &[]).await;
    import(&node, &records()).await;
    let mut client = decisions(&node).await;
    // Later than a decision waits: nothing is known of the visitor.
    proxy.set(Mode::Delay(Duration::from_millis(300)));
    let request = ChooseAdsRequest { dry_run: true, ..explained("v", 9) };
    let answer = client.choose_ads(request.clone()).await.unwrap().into_inner();
    let expected = [
        ("x:capped", Verdict::ProfileUnavailable),
        ("y:strict", Verdict::ProfileUnavailable),
        ("z:segment", Verdict::ProfileUnavailable),
        ("z:free", Verdict::Chosen),
    ];
    assert_eq!(verdicts(&answer), expected);
    assert_eq!(answer.explanation.unwrap().notes.len(), 1);
    // Of nobody there is nothing to be known.
    let nobody = client.choose_ads(explained("", 9)).await.unwrap().into_inner();
    assert_eq!(verdicts(&nobody)[0], ("x:capped", Verdict::Chosen));
    node.stop().await;
}
