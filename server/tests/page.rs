//! ChoosePage through a real socket: what refuses a whole page, and what holds over all of its
//! placements. The rules themselves are among the cases.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod support;

use std::collections::HashSet;

use slotwise_proto::v1::{
    ChoosePageRequest, ChoosePageResponse, Detail, Placement, RequestContext,
};
use slotwise_server::telemetry::Metric;
use slotwise_server::testing::{ManualClock, Server};
use support::{NOON_US, ad, ask, campaign, decisions, import, place, refused_fields};
use tonic::Code;

const CAP_3_A_DAY: &str =
    r#""caps":[{"level":"CAP_LEVEL_CAMPAIGN","impressionsMax":3,"window":"86400s"}]"#;

async fn server(records: Vec<String>) -> Server {
    let server = Server::start_with(ManualClock::new(NOON_US), &[]).await;
    import(&server, &records).await;
    server
}

/// Zones `a` and `b`, in both of them `ads` equal ads, each of a campaign with `more`.
fn equals(ads: usize, more: &str) -> Vec<String> {
    let mut records = place(&["a", "b"]);
    for n in 0..ads {
        let id = format!("x:{n}");
        records.push(campaign(&id, more));
        records.push(ad(&id, "u", &["a", "b"], 5, r#""keywords":["k64","k1"]"#));
    }
    records
}

fn placement(id: &str, zone: &str, count: u32) -> Placement {
    Placement {
        placement_id: id.into(),
        site_id: "s".into(),
        zone_id: zone.into(),
        count,
        ..Placement::default()
    }
}

fn page(user: &str, placements: &[(&str, &str, u32)]) -> ChoosePageRequest {
    let placements = placements.iter().map(|(id, zone, count)| placement(id, zone, *count));
    ChoosePageRequest {
        user_id: user.into(),
        placements: placements.collect(),
        ..ChoosePageRequest::default()
    }
}

fn chosen(answer: &ChoosePageResponse) -> Vec<&str> {
    let ads = answer.placements.iter().flat_map(|placement| &placement.ads);
    ads.map(|ad| ad.campaign_id.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_page_as_a_whole_is_refused_by_name() {
    let server = server(equals(1, "")).await;
    let mut client = decisions(&server).await;
    type Spoil = fn(&mut ChoosePageRequest);
    let spoils: [(&str, Spoil); 17] = [
        ("request_id", |page| page.request_id = "x".repeat(129)),
        ("user_id", |page| page.user_id = "a\nb".into()),
        ("timeout_ms", |page| page.timeout_ms = 60_001),
        ("exposure", |page| page.exposure = 77),
        ("detail", |page| page.detail = -1),
        ("blocked_advertisers", |page| page.blocked_advertisers = vec!["x".into(); 1_001]),
        ("blocked_domains[0]", |page| page.blocked_domains = vec![String::new()]),
        ("explain_max", |page| page.explain_max = 1_001),
        ("as_of", |page| page.as_of = Some(prost_types::Timestamp::default())),
        ("context.country", |page| {
            page.context = Some(RequestContext { country: "at".into(), ..Default::default() });
        }),
        ("placements", |page| page.placements = vec![placement("a", "a", 1); 65]),
        ("placements[1].placement_id", |page| page.placements[1].placement_id = "1".into()),
        ("placements[0].placement_id", |page| page.placements[0].placement_id = "x".repeat(129)),
        ("placements[1].placement_id", |page| page.placements[1].placement_id = "\u{7}".into()),
        ("placements[2].placement_id", |page| {
            page.placements = vec![placement("1", "a", 1), placement("", "a", 1)];
            page.placements.push(placement("", "b", 1));
        }),
        // Even where a placement has a fault of its own.
        ("detail", |page| (page.placements[0].count, page.detail) = (101, 9)),
        ("explain_max", |page| {
            let many = (0..21).map(|n| placement(&n.to_string(), "a", 1));
            page.placements = many.collect();
            (page.explain, page.explain_max) = (true, 1_000);
        }),
    ];
    let total = spoils.len() as u64;
    for (field, spoil) in spoils {
        let mut request = page("", &[("1", "a", 1), ("2", "b", 1)]);
        spoil(&mut request);
        let status = client.choose_page(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status}");
        assert_eq!(refused_fields(&status), [field], "{status}");
    }
    assert_eq!(server.app().counters().get(Metric::DecisionsRefused), total);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_64_is_answered_in_order_and_holds_no_ad_twice() {
    let server = server(equals(70, "")).await;
    let mut client = decisions(&server).await;
    let zone = |n| if n % 2 == 0 { "a" } else { "b" };
    let placements = (0..64).map(|n| placement(&format!("p{n}"), zone(n), 1)).collect();
    let request = ChoosePageRequest { placements, ..ChoosePageRequest::default() };
    let answer = client.choose_page(request).await.unwrap().into_inner();
    for (n, placement) in answer.placements.iter().enumerate() {
        assert_eq!(placement.placement_id, format!("p{n}"));
        assert_eq!((placement.ads.len(), placement.no_ad_reason), (1, 0));
    }
    assert_eq!(chosen(&answer).into_iter().collect::<HashSet<_>>().len(), 64);
    let empty = client.choose_page(ChoosePageRequest::default()).await.unwrap().into_inner();
    assert!(empty.placements.is_empty() && !empty.request_id.is_empty());
    assert_eq!(server.app().counters().get(Metric::DecisionsFilled), 1, "a page is one decision");
    assert_eq!(server.app().counters().get(Metric::DecisionsUnfilled), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_fixes_a_page_and_a_dry_run_leaves_no_trace() {
    let server = server(equals(30, CAP_3_A_DAY)).await;
    let mut client = decisions(&server).await;
    let mut seen = HashSet::new();
    for seed in 0..20 {
        let request = ChoosePageRequest {
            dry_run: true,
            seed: Some(seed),
            explain: seed % 2 == 0,
            ..page("v", &[("1", "a", 5), ("2", "b", 5)])
        };
        let first = client.choose_page(request.clone()).await.unwrap().into_inner();
        assert_eq!(first, client.choose_page(request.clone()).await.unwrap().into_inner());
        // An explanation changes nothing of what it explains.
        let mut plain = first.clone();
        plain.placements.iter_mut().for_each(|placement| placement.explanation = None);
        let other = ChoosePageRequest { explain: false, ..request };
        assert_eq!(plain, client.choose_page(other).await.unwrap().into_inner());
        seen.insert(format!("{:?}", chosen(&first)));
    }
    assert!(seen.len() > 15, "another seed is another choice");
    for _ in 0..3 {
        let request = page("v", &[("1", "a", 15), ("2", "b", 15)]);
        assert_eq!(chosen(&client.choose_page(request).await.unwrap().into_inner()).len(), 30);
    }
    assert!(client.choose_ads(ask("a", "v", 1)).await.unwrap().into_inner().ads.is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placements_own_keywords_come_before_the_pages() {
    let server = server(equals(1, "")).await;
    let mut client = decisions(&server).await;
    let words = |range: std::ops::Range<u32>| range.map(|n| format!("k{n}")).collect::<Vec<_>>();
    let mut request = page("", &[("1", "a", 1)]);
    request.keywords = words(0..40);
    request.keywords.push("x".repeat(65));
    request.placements[0].keywords = words(40..80);
    let answer = client.choose_page(request).await.unwrap().into_inner();
    assert_eq!(answer.placements[0].ads[0].matched_keywords, 2, "k64 and k1");
    // The long one, and the last 16 of the page's: k24 to k39.
    assert_eq!(server.app().counters().get(Metric::KeywordsIgnored), 17);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_ids_and_facts_are_as_with_choose_ads() {
    let mut records = place(&["a"]);
    records.push(campaign("x:1", r#""categories":["IAB1"]"#));
    records.push(ad("x:1", "u", &["a"], 5, ""));
    let server = server(records).await;
    let mut client = decisions(&server).await;
    let named = ChoosePageRequest { request_id: "mine".into(), ..page("", &[("", "a", 0)]) };
    let answer = client.choose_page(named).await.unwrap().into_inner();
    assert_eq!(answer.request_id, "mine");
    assert!(answer.catalog_version > 0 && answer.placements[0].ads[0].creative.is_none());
    assert_eq!(answer.placements[0].ads.len(), 1, "a count of 0 means 1");
    let facts = ChoosePageRequest { detail: Detail::Facts.into(), ..page("", &[("", "a", 1)]) };
    let answer = client.choose_page(facts).await.unwrap().into_inner();
    assert_eq!(answer.request_id.len(), 32);
    assert_eq!(answer.placements[0].ads[0].creative.clone().unwrap().categories, ["IAB1"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cap_holds_over_pages_however_parallel() {
    let server = server(equals(1, CAP_3_A_DAY)).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(decisions(&server).await);
    }
    for round in 0..20 {
        let user = format!("visitor {round}");
        let request = page(&user, &[("1", "a", 1), ("2", "b", 1)]);
        let calls: Vec<_> = (0..32)
            .map(|n| {
                let (mut client, request) = (clients[n % 4].clone(), request.clone());
                tokio::spawn(async move { client.choose_page(request).await.unwrap().into_inner() })
            })
            .collect();
        let mut shown = 0;
        for call in calls {
            shown += chosen(&call.await.unwrap()).len();
        }
        assert_eq!(shown, 3, "round {round}");
    }
    server.stop().await;
}
