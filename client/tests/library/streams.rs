//! Streams of decisions: what was not answered is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use slotwise_client::v1::{ChooseAdsRequest, ChoosePageRequest};
use slotwise_client::{Chosen, Code, Decisions, Error, Options};
use tokio_stream::StreamExt;

use crate::decider::Node;

async fn decisions(node: &Node) -> Decisions {
    let options = Options::new([node.address.into()]).deadline(Duration::from_secs(20));
    Decisions::connect(&options).await.unwrap()
}

fn request(request_id: &str, zone_id: &str) -> ChooseAdsRequest {
    ChooseAdsRequest {
        request_id: request_id.into(),
        zone_id: zone_id.into(),
        user_id: "visitor-1".into(),
        ..ChooseAdsRequest::default()
    }
}

fn ids(requests: &[ChooseAdsRequest]) -> Vec<&str> {
    requests.iter().map(|request| request.request_id.as_str()).collect()
}

async fn answered(chosen: &mut Chosen, expected: &[&str]) {
    for id in expected {
        assert_eq!(chosen.message().await.unwrap().unwrap().request_id, *id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_says_what_was_not_answered() {
    let node = Node::start();
    let decisions = decisions(&node).await;
    let requests = [request("1", "top"), request("2", "top"), request("3", "break")];
    // The caller is not done: the break must not wait for that.
    let requests = tokio_stream::iter(requests).chain(tokio_stream::pending());
    let mut chosen = decisions.choose_ads_stream(requests).await.unwrap();
    answered(&mut chosen, &["1", "2"]).await;
    let broken = chosen.message().await.unwrap_err();
    assert_eq!(broken.code(), Some(Code::Unavailable));
    assert_eq!(ids(&chosen.unanswered()), ["3"]);
    assert!(chosen.message().await.unwrap().is_none(), "it has ended");
    assert_eq!(node.calls(), 1, "nothing is sent again by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_leaves_its_requests_unanswered() {
    let node = Node::start();
    let decisions = decisions(&node).await;
    let requests = [request("1", "top"), request("2", "never"), request("3", "top")];
    let requests = tokio_stream::iter(requests).chain(tokio_stream::pending());
    let mut chosen = decisions.choose_ads_stream(requests).await.unwrap();
    answered(&mut chosen, &["1"]).await;
    while chosen.unanswered().len() < 2 {
        tokio::task::yield_now().await;
    }
    node.kill();
    let broken = chosen.message().await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");
    assert_eq!(ids(&chosen.unanswered()), ["2", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_server_ends_the_stream_well() {
    let node = Node::start();
    let decisions = decisions(&node).await;
    let requests = [request("1", "top"), request("2", "drain")];
    let requests = tokio_stream::iter(requests).chain(tokio_stream::pending());
    let mut chosen = decisions.choose_ads_stream(requests).await.unwrap();
    answered(&mut chosen, &["1"]).await;
    assert!(chosen.message().await.unwrap().is_none());
    assert_eq!(ids(&chosen.unanswered()), ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_taken_than_may_wait() {
    let node = Node::start();
    let decisions = decisions(&node).await;
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = taken.clone();
    let requests = tokio_stream::iter(0..5_000).map(move |n| {
        counter.fetch_add(1, Ordering::SeqCst);
        request(&n.to_string(), if n < 10 { "top" } else { "never" })
    });
    let mut chosen = decisions.choose_ads_stream(requests).await.unwrap();
    answered(&mut chosen, &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]).await;
    // The server answers no more. What is taken is bounded by what waits, not by what there is.
    while chosen.unanswered().len() < 1_024 {
        tokio::task::yield_now().await;
    }
    assert!(tokio::time::timeout(Duration::from_millis(50), chosen.message()).await.is_err());
    assert_eq!(chosen.unanswered().len(), 1_024);
    assert_eq!(taken.load(Ordering::SeqCst), 10 + 1_024);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_with_another_number_of_answers_is_no_answer() {
    let node = Node::start();
    let decisions = decisions(&node).await;
    let requests = vec![request("1", "top"), request("2", "top")];
    let broken = decisions.choose_ads_batch(requests).await.unwrap_err();
    assert!(broken.to_string().contains("1 answers to 2 requests"), "{broken}");
    let page = ChoosePageRequest { request_id: "p".into(), ..ChoosePageRequest::default() };
    assert_eq!(decisions.choose_page(page).await.unwrap().request_id, "p");
}
