//! Against the real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use slotwise_client::stubs::HealthClient;
use slotwise_client::v1::{ChooseAdsRequest, NoAdReason};
use slotwise_client::{Decisions, Health, Options};
use slotwise_server::testing::Server;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;

fn options(servers: &[&Server]) -> Options {
    Options::new(servers.iter().map(|server| server.decision_addr().into()))
        .deadline(Duration::from_secs(20))
}

/// A decision that may record an exposure, so that it is not repeated when its fate is unclear.
fn recorded() -> ChooseAdsRequest {
    ChooseAdsRequest {
        site_id: "news".into(),
        zone_id: "top".into(),
        user_id: "visitor-1".into(),
        ..ChooseAdsRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_node_costs_no_decision() {
    let (one, two) = (Server::start().await, Server::start().await);
    let decisions = Decisions::connect(&options(&[&one, &two])).await.unwrap();
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (decisions, stop, answered) = (decisions.clone(), stop.clone(), answered.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let answer = decisions.choose_ads(recorded()).await.unwrap();
                    assert_eq!(answer.no_ad_reason(), NoAdReason::ZoneUnknown);
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let until = async |count| {
        while answered.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    until(100).await;
    one.stop().await;
    until(answered.load(Ordering::SeqCst) + 100).await;
    stop.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_answered_one_by_one_and_the_door_says_how_it_is() {
    let server = Server::start().await;
    let decisions = Decisions::connect(&options(&[&server])).await.unwrap();
    let bad = ChooseAdsRequest { count: 101, ..recorded() };
    let answers = decisions.choose_ads_batch(vec![recorded(), bad]).await.unwrap();
    assert_eq!(answers[0].no_ad_reason(), NoAdReason::ZoneUnknown);
    assert_eq!(answers[1].error.as_ref().unwrap().field, "count");

    let health = Health::connect(&options(&[&server])).await.unwrap();
    let answer = health.call(HealthCheckRequest::default(), HealthClient::check).await.unwrap();
    assert_eq!(answer.status(), ServingStatus::Serving);
    server.stop().await;
}
