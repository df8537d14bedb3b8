//! SIGTERM and SIGINT: the process ends by itself, cleanly and in time, whoever is connected.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::{ChooseAdsRequest, ChooseAdsResponse, WatchChangesRequest};
use tokio_stream::StreamExt;
use tonic::Streaming;
use tonic::transport::Endpoint;

use super::catalogue::Clients;
use super::child::{Doors, Slotwise};
use crate::support::{ask, place};

const SIGNALS: [&str; 2] = ["TERM", "INT"];

/// What a stop may take where nothing else is configured.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(10);

/// What an HTTP/2 client says first, and settings with nothing in them.
const HTTP2_HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn start(arguments: &[&str]) -> (tempfile::TempDir, Slotwise, Doors) {
    let dir = tempfile::tempdir().unwrap();
    let (slotwise, doors) = Slotwise::serve(dir.path(), arguments);
    (dir, slotwise, doors)
}

/// Waits for the end of a process that was told to stop; whether it says that every call was
/// finished.
fn finished(slotwise: Slotwise, told_at: Instant) -> bool {
    let ended = slotwise.ended();
    let took = told_at.elapsed();
    assert_eq!(ended.status.code(), Some(0), "{}:\n{}", ended.status, ended.stderr);
    assert!(took < DEADLINE_DEFAULT, "{took:?}:\n{}", ended.stderr);
    let last: serde_json::Value =
        serde_json::from_str(ended.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(last["message"], "stopped", "{}", ended.stderr);
    last["is_finished"].as_bool().unwrap()
}

fn tell(slotwise: &Slotwise, signal: &str) -> Instant {
    slotwise.signal(signal);
    Instant::now()
}

#[test]
fn a_signal_stops_it() {
    for signal in SIGNALS {
        let (_dir, slotwise, _) = start(&[]);
        let told_at = tell(&slotwise, signal);
        assert!(finished(slotwise, told_at), "{signal}");
    }
}

#[test]
fn a_peer_that_never_speaks_does_not_hold_it() {
    for (signal, says) in SIGNALS.into_iter().zip([&b""[..], HTTP2_HELLO]) {
        let (_dir, slotwise, doors) = start(&[]);
        let connect = |addr: SocketAddr| {
            let mut peer = TcpStream::connect(addr).unwrap();
            peer.write_all(says).unwrap();
            peer
        };
        let _peers = [doors.decisions, doors.events, doors.admin].map(connect);
        let told_at = tell(&slotwise, signal);
        assert!(finished(slotwise, told_at), "{signal} with {says:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_client_does_not_hold_it() {
    for signal in SIGNALS {
        let (_dir, slotwise, doors) = start(&[]);
        let mut clients = Clients::of(doors).await;
        // Both connections have been used, and stay open.
        clients.put(&place(&["top"])).await;
        let told_at = tell(&slotwise, signal);
        assert!(finished(slotwise, told_at), "{signal}");
        drop(clients);
    }
}

/// Requests of some 100 bytes, which their answers repeat.
fn requests(count: usize) -> Vec<ChooseAdsRequest> {
    let request = |number: usize| ChooseAdsRequest {
        request_id: format!("{number:0>100}"),
        ..ask("top", "", 1)
    };
    (0..count).map(request).collect()
}

/// So many are sent in one piece, below the 16 KiB of a frame: where the first is answered, all
/// have been read.
const IN_ONE_PIECE: usize = 120;

/// An open stream of requests whose caller takes a few answers at a time: the others wait.
async fn slow_stream(doors: Doors, count: usize) -> Streaming<ChooseAdsResponse> {
    let endpoint = Endpoint::try_from(format!("http://{}", doors.decisions)).unwrap();
    let channel = endpoint.initial_stream_window_size(1_024).connect().await.unwrap();
    let asked = futures_util::stream::iter(requests(count)).chain(tokio_stream::pending());
    AdDecisionServiceClient::new(channel).choose_ads_stream(asked).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_stream_gets_what_was_read_answered_and_then_ends() {
    // A caller that takes its time is waited for: together these pauses are longer than the
    // moment of quiet after which a peer is given up.
    for (signal, pause) in SIGNALS.into_iter().zip([Duration::ZERO, Duration::from_millis(10)]) {
        let (_dir, slotwise, doors) = start(&[]);
        let mut answers = slow_stream(doors, IN_ONE_PIECE).await;
        let mut answered = vec![answers.message().await.unwrap().unwrap().request_id];
        let told_at = tell(&slotwise, signal);
        while let Some(answer) = answers.message().await.unwrap() {
            answered.push(answer.request_id);
            tokio::time::sleep(pause).await;
        }
        let asked: Vec<_> =
            requests(IN_ONE_PIECE).into_iter().map(|request| request.request_id).collect();
        assert_eq!(answered, asked, "each in order, and a clean end");
        assert!(finished(slotwise, told_at), "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_holds_where_a_caller_takes_no_answers() {
    let (_dir, slotwise, doors) = start(&["--shutdown-deadline-s", "1"]);
    // More than the transport keeps for a caller that does not read.
    let mut answers = slow_stream(doors, 1_000).await;
    assert!(answers.message().await.unwrap().is_some());
    // What is waited for is the configured deadline, not the default one.
    let told_at = tell(&slotwise, "TERM");
    assert!(!finished(slotwise, told_at), "answers are left");
    drop(answers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_watch_ends() {
    for signal in SIGNALS {
        let (_dir, slotwise, doors) = start(&["--shutdown-deadline-s", "1"]);
        let mut clients = Clients::of(doors).await;
        let watch = WatchChangesRequest { after_version: 0 };
        let mut changes = clients.catalog.watch_changes(watch).await.unwrap().into_inner();
        clients.put(&place(&["top"])).await;
        for kind in ["account", "site", "zone"] {
            assert_eq!(changes.message().await.unwrap().unwrap().kind, kind);
        }
        let told_at = tell(&slotwise, signal);
        assert_eq!(changes.message().await.unwrap(), None, "a clean end");
        assert!(finished(slotwise, told_at), "{signal}");
    }
}
