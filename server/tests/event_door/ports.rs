//! One port for all: HTTP/1.1 and HTTP/2, URLs and calls, fast peers and slow ones.

use std::collections::HashSet;
use std::time::Duration;

use slotwise_proto::v1::{Event as Told, EventKind, EventResult, RecordEventsRequest};
use slotwise_server::events::Event;
use slotwise_server::telemetry::Metric;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::bench::{Door, Http1, LANDING, showing};
use crate::support::channel;

#[tokio::test]
async fn a_connection_of_http_1_is_kept() {
    let door = Door::open().await;
    let mut browser = Http1::connect(door.addr).await;
    for decision in 1..=5 {
        let token = door.token(&showing(decision));
        let reply = browser.ask("GET", &format!("/c/{token}"), &[], b"").await;
        reply.assert_leads_to(&LANDING.replace("{click_token}", &token));
        assert_eq!(browser.ask("HEAD", &format!("/i/{token}"), &[], b"").await.status, 200);
        assert_eq!(browser.ask("GET", "/favicon.ico", &[], b"").await.status, 404);
        let body = format!(r#"{{"events":[{{"kind":"EVENT_KIND_CLICK","token":"{token}"}}]}}"#);
        assert_eq!(browser.ask("POST", "/events", &[], body.as_bytes()).await.status, 200);
    }
    assert_eq!(door.recorded().len(), 10);
    let refused = door.count(Metric::EventCallsRefused);
    door.ask("POST", "/c/x", &[]).await.assert_refused(405);
    assert_eq!(door.count(Metric::EventCallsRefused), refused + 1);
}

#[tokio::test]
async fn http_2_has_the_same_urls_beside_the_calls() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let stream = TcpStream::connect(door.addr).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let url = |path: &str| format!("http://ads.example{path}");
    let get = async |client: &mut h2::client::SendRequest<_>, path: &str| {
        let request = http::Request::get(url(path)).body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        response.await.unwrap()
    };
    let response = get(&mut client, &format!("/c/{token}")).await;
    assert_eq!(response.status(), 302);
    assert_eq!(
        response.headers()["location"].as_bytes(),
        LANDING.replace("{click_token}", &token).as_bytes()
    );
    assert_eq!(get(&mut client, &format!("/i/{token}")).await.status(), 200);
    assert_eq!(get(&mut client, "/nothing").await.status(), 404);
    // Headers of 64 KB are more than a connection takes.
    let request = http::Request::get(url(&format!("/c/{token}")));
    let request = request.header("user-agent", "x".repeat(64 << 10)).body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    if let Ok(response) = response.await {
        assert_eq!(response.status(), 431);
    }
    assert_eq!(door.recorded().len(), 2);

    let event = Told { kind: EventKind::Click.into(), token, ..Told::default() };
    let ask = RecordEventsRequest { events: vec![event] };
    let answer = door.grpc().await.record_events(ask).await.unwrap().into_inner();
    assert_eq!(answer.results().collect::<Vec<_>>(), [EventResult::Accepted]);
    for service in ["", "slotwise.v1.EventService"] {
        let ask = HealthCheckRequest { service: service.to_owned() };
        let answer = HealthClient::new(channel(door.addr).await).check(ask).await.unwrap();
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    }
    // Another door's call.
    let mut wrong = slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient::new(
        channel(door.addr).await,
    );
    let refused = wrong.choose_ads(crate::support::ask("z", "u", 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slow_peers_hold_up_nobody() {
    let door = Door::open().await;
    let mut slow = Vec::new();
    for said in ["", "G", "GET /c/", "GET / HTTP/1.1\r\nhost: x\r\nx-slow: "] {
        let mut peer = TcpStream::connect(door.addr).await.unwrap();
        peer.write_all(said.as_bytes()).await.unwrap();
        slow.push(peer);
    }
    let mut body = TcpStream::connect(door.addr).await.unwrap();
    body.write_all(b"POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        .await
        .unwrap();
    slow.push(body);
    let token = door.token(&showing(1));
    assert_eq!(door.get(&format!("/c/{token}")).await.status, 302);
    // What is nonsense from the first line on is told so, and hung up on.
    let mut nonsense = TcpStream::connect(door.addr).await.unwrap();
    nonsense.write_all(b"\x16\x03\x01 this is no HTTP at all, whatever\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    nonsense.read_to_end(&mut said).await.unwrap();
    assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 400"), "{said:?}");
}

/// How long until the door hangs up on `peer`, by a clock that runs as soon as nothing else does.
async fn held_s(mut peer: TcpStream) -> u64 {
    tokio::time::pause();
    let since = tokio::time::Instant::now();
    let mut said = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(600), peer.read_to_end(&mut said)).await;
    tokio::time::resume();
    read.expect("it is held for ever").unwrap_or_default();
    since.elapsed().as_secs()
}

#[tokio::test]
async fn a_peer_that_does_not_finish_its_request_is_let_go() {
    let door = Door::open().await;
    let head = "GET /favicon.ico HTTP/1.1\r\nhost: ads.example\r\n";
    for (said, answers, limit_s) in [
        // The end of the head never comes.
        (format!("{head}x-slow: "), 0, 30),
        // It is answered, and no further request comes.
        (format!("{head}\r\n"), 1, 30),
        // The body never comes.
        ("POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{".to_owned(), 0, 20),
    ] {
        let mut peer = TcpStream::connect(door.addr).await.unwrap();
        peer.write_all(said.as_bytes()).await.unwrap();
        if answers > 0 {
            let mut first = [0; 12];
            peer.read_exact(&mut first).await.unwrap();
            assert_eq!(&first, b"HTTP/1.1 404");
        }
        // By then the door has read what was said.
        assert_eq!(door.get("/x").await.status, 404);
        let held_s = held_s(peer).await;
        // The wait began before the test's own clock was looked at.
        assert!((limit_s - 1..=limit_s + 1).contains(&held_s), "{said:?} for {held_s} s");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_clicks_at_once_are_sixty_four() {
    let door = std::sync::Arc::new(Door::open().await);
    let tokens: Vec<_> = (0..64).map(|decision| door.token(&showing(decision))).collect();
    // Each of its own, and the first once more from everybody.
    let urls = tokens.iter().chain(std::iter::repeat_n(&tokens[0], 64));
    let clicks: Vec<_> = urls
        .map(|token| {
            let (door, url) = (std::sync::Arc::clone(&door), format!("/c/{token}"));
            tokio::spawn(async move { door.get(&url).await.status })
        })
        .collect();
    for click in clicks {
        assert_eq!(click.await.unwrap(), 302);
    }
    let recorded = door.recorded();
    assert_eq!(recorded.len(), 128);
    assert_eq!(recorded.iter().map(Event::id).collect::<HashSet<_>>().len(), 64);
    assert_eq!(door.count(Metric::EventCallsTaken), 128);
}
