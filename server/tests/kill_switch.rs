//! The kill switch: after it has answered, no decision holds the campaign.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use slotwise_proto::v1::{
    CampaignStatus, ChooseAdsBatchRequest, ChooseAdsRequest, ChoosePageRequest, Placement,
    SetCampaignStatusRequest, SetCampaignStatusResponse,
};
use slotwise_server::testing::Server;
use support::{ad, ask, campaign, catalog, decisions, import, place};
use tokio_stream::StreamExt;
use tonic::Code;

async fn set(server: &Server, status: CampaignStatus) -> SetCampaignStatusResponse {
    let request =
        SetCampaignStatusRequest { campaign_id: "x:1".into(), status: status.into(), wait: None };
    catalog(server).await.set_campaign_status(request).await.unwrap().into_inner()
}

/// Campaign x:1 is the best in each of `zones` zones; x:2 is behind it.
async fn server(zones: usize) -> Server {
    let server = Server::start().await;
    let names: Vec<String> = (0..zones).map(|n| format!("z{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut records = place(&names);
    records.extend([campaign("x:1", ""), campaign("x:2", "")]);
    records.extend([ad("x:1", "u", &names, 9, ""), ad("x:2", "u", &names, 1, "")]);
    import(&server, &records).await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_the_answer_no_decision_holds_the_campaign() {
    let server = Arc::new(server(500).await);
    // Odd while paused: a decision that began and ended inside one pause must not hold x:1.
    let phase = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let inside = Arc::new(AtomicU64::new(0));
    let mut load = Vec::new();
    for caller in 0..4 {
        let (phase, stop, inside) = (Arc::clone(&phase), Arc::clone(&stop), Arc::clone(&inside));
        let mut client = decisions(&server).await;
        load.push(tokio::spawn(async move {
            let mut n = caller;
            while !stop.load(Ordering::SeqCst) {
                n += 1;
                let before = phase.load(Ordering::SeqCst);
                let request = ask(&format!("z{}", n % 500), "", 1);
                let answers = if n % 2 == 0 {
                    vec![client.choose_ads(request).await.unwrap().into_inner()]
                } else {
                    let batch = ChooseAdsBatchRequest { requests: vec![request; 8] };
                    client.choose_ads_batch(batch).await.unwrap().into_inner().responses
                };
                // Only what began after the answer counts.
                if before % 2 == 1 && phase.load(Ordering::SeqCst) == before {
                    inside.fetch_add(1, Ordering::SeqCst);
                    assert!(answers.iter().all(|a| a.ads[0].campaign_id == "x:2"), "{answers:?}");
                }
            }
        }));
    }
    for _ in 0..50 {
        let paused = set(&server, CampaignStatus::Paused).await;
        phase.fetch_add(1, Ordering::SeqCst);
        assert_eq!((paused.nodes_live, paused.nodes_applied, paused.nodes_silent), (1, 1, 0));
        assert_eq!((paused.ads_changed, paused.zones_changed), (1, 500));
        let checked = inside.load(Ordering::SeqCst);
        while inside.load(Ordering::SeqCst) < checked + 8 && !load.iter().any(|l| l.is_finished()) {
            tokio::time::sleep(std::time::Duration::from_micros(100)).await;
        }
        phase.fetch_add(1, Ordering::SeqCst);
        let active = set(&server, CampaignStatus::Active).await;
        assert_eq!((active.ads_changed, active.zones_changed), (1, 500));
        let answer = decisions(&server).await.choose_ads(ask("z7", "", 1)).await.unwrap();
        assert_eq!(answer.into_inner().ads[0].campaign_id, "x:1", "and it is back");
    }
    stop.store(true, Ordering::SeqCst);
    for caller in load {
        caller.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_changes_nothing_and_an_unknown_id_says_so() {
    let server = server(3).await;
    let first = set(&server, CampaignStatus::Paused).await;
    let again = set(&server, CampaignStatus::Paused).await;
    assert_eq!((again.ads_changed, again.zones_changed), (0, 0));
    assert_eq!((again.nodes_live, again.nodes_applied), (1, 1), "it waits all the same");
    assert_eq!(again.catalog_version, first.catalog_version, "no change, no version");
    for zone in ["z0", "z1", "z2"] {
        let answer = decisions(&server).await.choose_ads(ask(zone, "", 9)).await.unwrap();
        let ads = answer.into_inner().ads;
        assert!(ads.iter().all(|ad| ad.campaign_id == "x:2") && ads.len() == 1);
    }
    let mut admin = catalog(&server).await;
    let unknown = SetCampaignStatusRequest {
        campaign_id: "x:9".into(),
        status: CampaignStatus::Paused.into(),
        wait: None,
    };
    let status = admin.set_campaign_status(unknown.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().contains("x:9"), "{status}");
    let nothing = SetCampaignStatusRequest { campaign_id: "x:1".into(), ..Default::default() };
    let status = admin.set_campaign_status(nothing).await.unwrap_err();
    assert_eq!(
        (status.code(), support::refused_fields(&status)),
        (Code::InvalidArgument, vec!["status".into()])
    );
    let negative = SetCampaignStatusRequest {
        wait: Some(prost_types::Duration { seconds: -1, nanos: 0 }),
        campaign_id: "x:1".into(),
        ..unknown
    };
    let status = admin.set_campaign_status(negative).await.unwrap_err();
    assert_eq!(
        (status.code(), support::refused_fields(&status)),
        (Code::InvalidArgument, vec!["wait".into()])
    );
    server.stop().await;
}

/// A caller that stops reading must not hold up a kill, and must not get the killed ad later.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_frozen_reader_does_not_hold_up_a_kill() {
    let server = server(1).await;
    let mut client = decisions(&server).await;
    // Far more answers than the transport's windows hold, and nobody takes them.
    let long = "r".repeat(128);
    let requests = (0..100_000)
        .map(move |_| ChooseAdsRequest { request_id: long.clone(), ..ask("z0", "", 1) });
    let answers = client.choose_ads_stream(tokio_stream::iter(requests)).await.unwrap();
    let mut answers = answers.into_inner();
    assert_eq!(answers.next().await.unwrap().unwrap().ads[0].campaign_id, "x:1");
    let mut others = decisions(&server).await;
    let paused = set(&server, CampaignStatus::Paused).await;
    assert_eq!((paused.nodes_applied, paused.nodes_live), (1, 1));
    let answer = others.choose_ads(ask("z0", "", 1)).await.unwrap().into_inner();
    assert_eq!(answer.ads[0].campaign_id, "x:2");
    // It wakes up: what the transport had is its own, and what comes after that was decided anew
    // (or the connection was closed, where some answer had to be called off).
    let (mut before, mut after) = (1, 0);
    while let Some(Ok(answer)) = answers.next().await {
        match answer.ads[0].campaign_id.as_str() {
            "x:1" if after == 0 => before += 1,
            "x:2" => after += 1,
            other => panic!("{other} after {after} answers without it"),
        }
    }
    assert!(before < 20_000, "{before} answers are more than the windows hold");
    server.stop().await;
}

/// An answer that is still being made when a kill has waited long enough is not given; whoever
/// shares its connection is not concerned.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_long_explanation_costs_nobody_else_the_connection() {
    let server = server(1).await;
    // The longest expressions, so that a page takes far longer than a kill waits.
    let longest = vec!["exists(q) or k = \\\"v\\\""; 80].join(" or ");
    let targeting = format!(r#""targeting":{{"expression":"{longest}"}}"#);
    let mut records = vec![campaign("y:1", &targeting)];
    records.extend((0..2_000).map(|n| ad("y:1", &format!("u{n}"), &["z0"], 1, "")));
    import(&server, &records).await;
    let mut client = decisions(&server).await;
    let placement = |n: usize| Placement {
        placement_id: n.to_string(),
        site_id: "s".into(),
        zone_id: "z0".into(),
        ..Placement::default()
    };
    let page = ChoosePageRequest {
        placements: (0..64).map(placement).collect(),
        explain: true,
        ..ChoosePageRequest::default()
    };
    let mut explaining = client.clone();
    let page = tokio::spawn(async move { explaining.choose_page(page).await });
    let stop = Arc::new(AtomicBool::new(false));
    let (ended, mut beside) = (Arc::clone(&stop), client.clone());
    let others = tokio::spawn(async move {
        while !ended.load(Ordering::SeqCst) {
            beside.choose_ads(ask("z0", "", 1)).await.unwrap();
        }
    });
    // They share a connection: the page was there before this.
    client.choose_ads(ask("z0", "", 1)).await.unwrap();
    let paused = set(&server, CampaignStatus::Paused).await;
    assert_eq!((paused.nodes_applied, paused.nodes_live), (1, 1));
    let was_over = page.is_finished();
    match page.await.unwrap() {
        Ok(answer) => {
            let placements = answer.into_inner().placements;
            let mut ads = placements.iter().flat_map(|placement| &placement.ads);
            assert!(was_over || ads.all(|ad| ad.campaign_id != "x:1"), "after the kill's answer");
        }
        Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
    }
    stop.store(true, Ordering::SeqCst);
    others.await.unwrap();
    server.stop().await;
}

/// A kill on this node lasts until the table has the pause, and not beyond it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_switch_that_nobody_waits_for_can_be_switched_back() {
    let server = server(1).await;
    let mut admin = catalog(&server).await;
    let mut version = 0;
    for status in [CampaignStatus::Paused, CampaignStatus::Active] {
        let request = SetCampaignStatusRequest {
            campaign_id: "x:1".into(),
            status: status.into(),
            wait: Some(prost_types::Duration::default()),
        };
        let answer = admin.set_campaign_status(request).await.unwrap().into_inner();
        version = answer.catalog_version;
    }
    support::served(&server, version).await;
    // The lift comes right after.
    for _ in 0..1_000 {
        let answer = decisions(&server).await.choose_ads(ask("z0", "", 1)).await.unwrap();
        if answer.into_inner().ads[0].campaign_id == "x:1" {
            return server.stop().await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("x:1 is active and served, and is not shown");
}
