//! Decision cases as data: each file in `cases/` is a catalogue, requests and what must come
//! back. A new case needs no code.
//!
//! A file holds `rule` (what it shows), `catalogue` (records in JSON) and
//! `steps`. A step may set the clock (`at`, RFC 3339), have a `request` (JSON of
//! ChooseAdsRequest, sent `times` times) and expect of every answer: `ads` (a list of groups;
//! the members of a group may come in any order), `count`, `scores`, `reason`, `refused` (the
//! fields); of all answers: `seen` (every ad that came at least once) or `shares` (of each ad,
//! with the chi-square below `chi_square_max`). Where the request has `explain`, `explained` has
//! all that is explained one by one, in order ([ad, verdict], or [ad, verdict, part of the
//! detail]), `verdicts` the count of each verdict, `notes` a part of each note. A step with a
//! `page` (JSON of ChoosePageRequest) expects of its `placements`, by their ids, what other steps
//! expect of an answer, or `error`: the field that was refused. An `import` step sends further records and
//! expects `problems` ([number, field], or [number, field, part of the message]) or none.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

#[path = "cases/explain.rs"]
mod explain;
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use slotwise_proto::json;
use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::{
    ChooseAdsBatchRequest, ChooseAdsRequest, ChooseAdsResponse, ChoosePageRequest, ImportOptions,
};
use slotwise_server::testing::{ManualClock, Server};
use support::{NOON_US, refused_fields};
use tonic::transport::Channel;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert_eq!(files.len(), 33, "every case is there");
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let case: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        println!("case {name}");
        run(&name, &case).await;
    }
}

async fn run(name: &str, case: &Value) {
    let clock = ManualClock::new(NOON_US);
    let server = Server::start_with(clock.clone(), &[]).await;
    let records = texts(&case["catalogue"]);
    support::import(&server, &records).await;
    let mut client = support::decisions(&server).await;
    for (at, step) in list(&case["steps"]).iter().enumerate() {
        let place = format!("{name}, step {at}");
        check_words(step, &place);
        if let Some(instant) = step["at"].as_str() {
            let instant: jiff::Timestamp = instant.parse().unwrap();
            clock.set(instant.as_microsecond());
        }
        if !step["import"].is_null() {
            import(&server, step, &place).await;
        }
        if !step["request"].is_null() {
            ask(&mut client, step, &place).await;
        }
        if !step["page"].is_null() {
            ask_page(&mut client, step, &place).await;
        }
    }
    server.stop().await;
}

/// A misspelt expectation would hold whatever comes back.
fn check_words(step: &Value, place: &str) {
    let does = ["at", "request", "page", "times", "import"];
    let expects = [
        "ads",
        "count",
        "scores",
        "reason",
        "explained",
        "verdicts",
        "notes",
        "error",
        "placements",
        "refused",
        "seen",
        "shares",
        "chi_square_max",
        "problems",
    ];
    let words: Vec<&str> = step.as_object().unwrap().keys().map(String::as_str).collect();
    let unknown: Vec<_> =
        words.iter().filter(|word| !does.contains(word) && !expects.contains(word)).collect();
    assert!(unknown.is_empty(), "{place}: {unknown:?}");
    assert!(words.iter().any(|word| expects.contains(word)), "{place} expects nothing");
}

async fn import(server: &Server, step: &Value, place: &str) {
    let before = server.app().admin.served.borrow().version;
    let records = texts(&step["import"]);
    let answer = support::try_import(server, ImportOptions::default(), &records).await.unwrap();
    let problems: Vec<Value> = answer
        .problems
        .iter()
        .enumerate()
        .map(|(at, problem)| match step["problems"][at][2].as_str() {
            Some(part) if problem.message.contains(part) => {
                serde_json::json!([problem.record_number, problem.field, part])
            }
            _ => serde_json::json!([problem.record_number, problem.field]),
        })
        .collect();
    assert_eq!(Value::from(problems), step["problems"], "{place}: {:?}", answer.problems);
    let is_refused = answer.problem_count > 0;
    assert_eq!(is_refused, answer.catalog_version == before, "{place}: all or nothing");
    support::served(server, answer.catalog_version).await;
}

async fn ask(client: &mut AdDecisionServiceClient<Channel>, step: &Value, place: &str) {
    let request: ChooseAdsRequest = json::from_str(&step["request"].to_string()).unwrap();
    let times = step["times"].as_u64().unwrap_or(1);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    if step["refused"].is_array() {
        let status = client.choose_ads(request.clone()).await.unwrap_err();
        let refused: Vec<String> = list(&step["refused"]).iter().map(text).collect();
        assert_eq!(refused_fields(&status), refused, "{place}: {status}");
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{place}");
        return;
    }
    let mut left = times;
    while left > 0 {
        // One goes alone; many go as batches, which are decided one after another all the same.
        let answers = if times == 1 {
            vec![client.choose_ads(request.clone()).await.unwrap().into_inner()]
        } else {
            // Shares are of seeds 0, 1, 2 and so on: the same in every run.
            let seed = |n| step["shares"].is_object().then_some(times - left + n);
            let seeded = |n| ChooseAdsRequest { seed: seed(n), ..request.clone() };
            let requests = (0..left.min(500)).map(seeded).collect();
            let batch = ChooseAdsBatchRequest { requests };
            client.choose_ads_batch(batch).await.unwrap().into_inner().responses
        };
        left -= answers.len() as u64;
        for answer in answers {
            for ad in names(&answer) {
                *counts.entry(ad).or_default() += 1;
            }
            check(&answer, step, place);
        }
    }
    if let Some(seen) = step["seen"].as_array() {
        let seen: Vec<String> = seen.iter().map(text).collect();
        assert_eq!(counts.keys().cloned().collect::<Vec<_>>(), seen, "{place}");
    }
    if let Some(shares) = step["shares"].as_object() {
        let chi_square: f64 = shares
            .iter()
            .map(|(ad, share)| {
                let expected = share.as_f64().unwrap() * times as f64;
                let observed = counts.get(ad).copied().unwrap_or(0) as f64;
                (observed - expected).powi(2) / expected
            })
            .sum();
        let max = step["chi_square_max"].as_f64().unwrap();
        assert!(chi_square < max, "{place}: {chi_square} for {counts:?}");
        assert_eq!(counts.len(), shares.len(), "{place}: nothing else is chosen");
    }
}

async fn ask_page(client: &mut AdDecisionServiceClient<Channel>, step: &Value, place: &str) {
    let request: ChoosePageRequest = json::from_str(&step["page"].to_string()).unwrap();
    let expected = step["placements"].as_object().unwrap();
    for _ in 0..step["times"].as_u64().unwrap_or(1) {
        let page = client.choose_page(request.clone()).await.unwrap().into_inner();
        assert_eq!(page.placements.len(), request.placements.len(), "{place}");
        assert_eq!(page.placements.len(), expected.len(), "{place}");
        for (answer, asked) in page.placements.into_iter().zip(&request.placements) {
            let place = format!("{place}, {}", asked.placement_id);
            assert_eq!(answer.placement_id, asked.placement_id, "{place}: in order");
            let expected = &expected[&answer.placement_id];
            check_words(expected, &place);
            let answer = ChooseAdsResponse {
                ads: answer.ads,
                no_ad_reason: answer.no_ad_reason,
                explanation: answer.explanation,
                error: answer.error,
                ..ChooseAdsResponse::default()
            };
            check(&answer, expected, &place);
        }
    }
}

fn check(answer: &ChooseAdsResponse, step: &Value, place: &str) {
    let field = answer.error.as_ref().map(|error| error.field.as_str());
    assert_eq!(field, step["error"].as_str(), "{place}: {:?}", answer.error);
    if field.is_some() {
        let default = ChooseAdsResponse { error: answer.error.clone(), ..Default::default() };
        assert_eq!(*answer, default, "{place}: nothing but the error");
        return;
    }
    let ads = names(answer);
    if let Some(groups) = step["ads"].as_array() {
        let mut left = ads.as_slice();
        for group in groups {
            let mut group: Vec<String> = list(group).iter().map(text).collect();
            assert!(left.len() >= group.len(), "{place}: {ads:?}");
            let (head, tail) = left.split_at(group.len());
            let mut head = head.to_vec();
            head.sort();
            group.sort();
            assert_eq!(head, group, "{place}: {ads:?}");
            left = tail;
        }
        assert!(left.is_empty(), "{place}: {ads:?}");
    }
    if let Some(count) = step["count"].as_u64() {
        assert_eq!(ads.len() as u64, count, "{place}: {ads:?}");
    }
    let mut distinct = ads.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), ads.len(), "{place}: no ad twice");
    if let Some(scores) = step["scores"].as_array() {
        assert_eq!(scores.len(), answer.ads.len(), "{place}: {ads:?}");
        for (ad, score) in answer.ads.iter().zip(scores) {
            let expected = score.as_f64().unwrap();
            assert!((ad.score - expected).abs() < 5e-7, "{place}: {} for {expected}", ad.score);
        }
    }
    explain::check(answer, step, place);
    let reason = step["reason"].as_str().unwrap_or("NO_AD_REASON_UNSPECIFIED");
    if ads.is_empty() || step["reason"].is_string() {
        assert_eq!(answer.no_ad_reason().as_str_name(), reason, "{place}");
    }
    assert_eq!(ads.is_empty(), answer.no_ad_reason != 0, "{place}: why, if and only if empty");
}

fn names(answer: &ChooseAdsResponse) -> Vec<String> {
    answer.ads.iter().map(|ad| format!("{}/{}", ad.campaign_id, ad.ad_unit_id)).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn texts(records: &Value) -> Vec<String> {
    list(records).iter().map(ToString::to_string).collect()
}
