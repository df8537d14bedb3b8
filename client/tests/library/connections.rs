//! The connections of a client: spread, kept, and left when they break.

use std::net::SocketAddr;
use std::time::Duration;

use slotwise_client::v1::ChooseAdsRequest;
use slotwise_client::{Decisions, Error, Options, Token};

use crate::decider::Node;

/// Ample for a loaded machine; nothing here waits for it.
const DEADLINE: Duration = Duration::from_secs(20);

fn options(addresses: &[SocketAddr]) -> Options {
    Options::new(addresses.iter().copied().map(Into::into)).deadline(DEADLINE)
}

fn look() -> ChooseAdsRequest {
    ChooseAdsRequest { dry_run: true, ..ChooseAdsRequest::default() }
}

/// An address where nobody listens; no other test's server does, as they are on other addresses.
async fn dead() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.2.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// Calls until `peers` connections have come to the node, then forgets what it saw.
async fn until_all_stand(decisions: &Decisions, node: &Node, peers: usize) {
    while node.seen.lock().unwrap().by_peer.len() < peers {
        decisions.choose_ads(look()).await.unwrap();
    }
    node.seen.lock().unwrap().by_peer.clear();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_spread_evenly_over_the_connections() {
    let node = Node::start();
    let decisions = Decisions::connect(&options(&[node.address]).connections(4)).await.unwrap();
    until_all_stand(&decisions, &node, 4).await;
    for _ in 0..40 {
        decisions.choose_ads(look()).await.unwrap();
    }
    let by_peer = node.seen.lock().unwrap().by_peer.clone();
    assert_eq!(by_peer.into_values().collect::<Vec<u32>>(), [10, 10, 10, 10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_connection_is_passed_over() {
    let node = Node::start();
    let decisions = Decisions::connect(&options(&[node.address]).connections(2)).await.unwrap();
    until_all_stand(&decisions, &node, 2).await;
    let hanging = decisions.clone();
    let never = ChooseAdsRequest { zone_id: "never".into(), ..look() };
    let hanging = tokio::spawn(async move { hanging.choose_ads(never).await });
    while node.calls() == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..10 {
        decisions.choose_ads(look()).await.unwrap();
    }
    let mut counts: Vec<u32> = node.seen.lock().unwrap().by_peer.values().copied().collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 10]);
    hanging.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_address_among_three_costs_no_call() {
    let (one, two) = (Node::start(), Node::start());
    // One refuses; the other takes connections and never says a word.
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    for bad in [dead().await, mute.local_addr().unwrap()] {
        let addresses = [bad, one.address, two.address];
        let decisions = Decisions::connect(&options(&addresses)).await.unwrap();
        let before = (one.calls(), two.calls());
        let mut sent = 0;
        while one.calls() < before.0 + 20 || two.calls() < before.1 + 20 {
            decisions.choose_ads(look()).await.unwrap();
            sent += 1;
        }
        assert_eq!(one.calls() + two.calls() - before.0 - before.1, sent);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_is_found() {
    let node = Node::start();
    let decisions = Decisions::connect(&options(&[node.address])).await.unwrap();
    decisions.choose_ads(look()).await.unwrap();
    let address = node.kill();
    let short = decisions.within(Duration::from_millis(300));
    let away = short.choose_ads(look()).await.unwrap_err();
    assert!(matches!(away, Error::Unreachable(_)), "{away:?}");
    assert!(away.to_string().contains(&address.to_string()), "{away}");
    // A call that waits for a connection gets it.
    let waiting = tokio::spawn({
        let decisions = decisions.clone();
        async move { decisions.choose_ads(look()).await }
    });
    let node = Node::start_at(address, None);
    waiting.await.unwrap().unwrap();
    assert_eq!(node.calls(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_of_two_nodes_dies_every_look_is_answered() {
    let (one, two) = (Node::start(), Node::start());
    let decisions = Decisions::connect(&options(&[one.address, two.address])).await.unwrap();
    until_all_stand(&decisions, &one, 2).await;
    until_all_stand(&decisions, &two, 2).await;
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let decisions = decisions.clone();
            tokio::spawn(async move {
                for _ in 0..200 {
                    decisions.choose_ads(look()).await.unwrap();
                }
            })
        })
        .collect();
    while one.calls() < 50 {
        tokio::task::yield_now().await;
    }
    one.kill();
    for caller in callers {
        caller.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_holds_whatever_the_other_side_does() {
    let node = Node::start();
    let decisions = Decisions::connect(&options(&[node.address])).await.unwrap();
    let short = Duration::from_millis(100);
    let never = ChooseAdsRequest { zone_id: "never".into(), ..look() };
    let late = decisions.within(short).choose_ads(never).await.unwrap_err();
    assert!(matches!(late, Error::Deadline(bound) if bound == short), "{late:?}");
    let told = node.seen.lock().unwrap().timeouts.pop().unwrap().unwrap();
    let (number, unit) = told.split_at(told.len() - 1);
    let unit_us = match unit {
        "n" => 1e-3,
        "u" => 1.0,
        "m" => 1e3,
        other => panic!("{other}"),
    };
    let told_us = number.parse::<f64>().unwrap() * unit_us;
    assert!(told_us > 0.0 && told_us <= 100_000.0, "the server knows it too: {told}");

    // Connections are taken, and nothing is ever said on them: none of them stands.
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = options(&[mute.local_addr().unwrap()]).deadline(short);
    let away = Decisions::lazy(&options).unwrap().choose_ads(look()).await.unwrap_err();
    assert!(matches!(away, Error::Unreachable(_)), "{away:?}");
    assert!(matches!(Decisions::connect(&options).await, Err(Error::Unreachable(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_fails_at_once_where_nobody_listens() {
    // The deadline is long: it must not be what ends this.
    let options = options(&[dead().await, dead().await]).deadline(Duration::from_secs(3_600));
    let away = Decisions::connect(&options).await.unwrap_err();
    assert!(matches!(&away, Error::Unreachable(why) if why.contains("refused")), "{away:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_comes_with_every_call_and_goes_to_no_far_address_in_clear() {
    let node = Node::start();
    let token = || Token::new("s3cret").unwrap();
    let near = options(&[node.address]).token(token());
    let decisions = Decisions::connect(&near).await.unwrap();
    decisions.choose_ads(look()).await.unwrap();
    let mut chosen = decisions.choose_ads_stream(tokio_stream::iter([look()])).await.unwrap();
    assert!(chosen.message().await.unwrap().is_some());
    let tokens = node.seen.lock().unwrap().tokens.clone();
    assert_eq!(tokens, [Some("Bearer s3cret".to_owned()), Some("Bearer s3cret".to_owned())]);
    let shown = format!("{decisions:?} {near:?}");
    assert!(!shown.contains("s3cret"), "{shown}");

    // 192.0.2.0/24 is nobody's: refused before anything is dialled.
    let far = Options::parse(["192.0.2.1:7070"]).unwrap().token(token());
    assert!(matches!(Decisions::lazy(&far), Err(Error::Options(why)) if why.contains("clear")));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_deadline_is_too_long() {
    let node = Node::start();
    let decisions = Decisions::connect(&options(&[node.address])).await.unwrap();
    decisions.within(Duration::MAX).choose_ads(look()).await.unwrap();
    assert_eq!(node.seen.lock().unwrap().timeouts.len(), 1);
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let options = Options::parse(["127.0.0.1:7070"]).unwrap();
    assert!(
        matches!(Decisions::lazy(&options), Err(Error::Options(why)) if why.contains("runtime"))
    );
}
