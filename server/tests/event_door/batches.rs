//! RecordEvents, over gRPC and as `POST /events`.

use std::sync::atomic::Ordering;

use prost_types::Timestamp;
use slotwise_proto::json;
use slotwise_proto::v1::EventKind::{Click, Conversion, Impression, Loss, Unspecified};
use slotwise_proto::v1::EventResult::{Accepted, BadTime, BadToken, Expired, Filtered};
use slotwise_proto::v1::{
    Event as Told, EventKind, EventResult, RecordEventsRequest, RecordEventsResponse,
};
use slotwise_server::events::{Event, Kind};
use slotwise_server::telemetry::Metric;
use slotwise_server::tokens::Showing;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tonic::Code;

use crate::bench::{Door, ISSUED_MS, Reply, event, showing};
use crate::support::{NOON_US, refused_fields};

const SECOND_US: i64 = 1_000_000;
const JSON: (&str, &[u8]) = ("content-type", b"application/json");
const PAGE: (&str, &[u8]) = ("origin", b"https://news.example");

fn told(kind: EventKind, token: &str) -> Told {
    Told { kind: kind.into(), token: token.to_owned(), ..Told::default() }
}

fn at(told: Told, at_us: i64) -> Told {
    let seconds = at_us.div_euclid(SECOND_US);
    let nanos = i32::try_from(at_us.rem_euclid(SECOND_US) * 1_000).unwrap();
    Told { occurred_at: Some(Timestamp { seconds, nanos }), ..told }
}

async fn record(door: &Door, events: Vec<Told>) -> Result<Vec<EventResult>, tonic::Status> {
    let answer = door.grpc().await.record_events(RecordEventsRequest { events }).await?;
    Ok(answer.into_inner().results().collect())
}

fn results(reply: &Reply) -> Vec<EventResult> {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let answer: RecordEventsResponse =
        json::from_str(std::str::from_utf8(&reply.body).unwrap()).unwrap();
    answer.results().collect()
}

#[tokio::test]
async fn each_event_has_its_own_result_in_order() {
    let door = Door::open().await;
    let good = door.token(&showing(1));
    let old = Showing { issued_at_ms: ISSUED_MS - 3_600_001, ..showing(2) };
    let old_token = door.token(&old);
    let sale = Told { value_micros: 9, conversion_id: "order-7".into(), ..told(Conversion, &good) };
    let events = vec![
        told(Impression, &good),
        told(Click, "nonsense"),
        told(Impression, &old_token),
        told(Click, &old_token),
        sale,
        told(Click, ""),
        told(Impression, &good),
    ];
    let answer = record(&door, events).await.unwrap();
    let expected = [Accepted, BadToken, Expired, Accepted, Accepted, BadToken, Accepted];
    assert_eq!(answer, expected);
    let sale = Event {
        tag: "order-7".into(),
        value_micros: 9,
        ..event(Kind::Conversion, showing(1), NOON_US)
    };
    let seen = event(Kind::Impression, showing(1), NOON_US);
    let clicked = event(Kind::Click, old, NOON_US);
    assert_eq!(door.recorded(), [seen.clone(), clicked, sale, seen]);
    assert_eq!((door.count(Metric::EventsAccepted), door.count(Metric::EventsRefused)), (4, 3));
    assert_eq!(record(&door, vec![]).await.unwrap(), []);
}

#[tokio::test]
async fn a_loss_frees_what_was_held_and_is_counted_nowhere() {
    let door = Door::open().await;
    let of = |decision| Showing { on_impression: true, ..showing(decision) };
    let tokens = [1, 2, 3].map(|decision| door.token(&of(decision)));
    let plain = door.token(&showing(4));
    let events = vec![
        told(Loss, &tokens[0]),
        told(Impression, &tokens[1]),
        told(Click, &tokens[2]),
        told(Impression, &plain),
    ];
    assert_eq!(record(&door, events).await.unwrap(), [Accepted; 4]);
    let mut settled = door.settled();
    settled.sort_by_key(|(_, showing, _)| showing.decision);
    assert_eq!(settled, [(false, of(1), NOON_US), (true, of(2), NOON_US)]);
    let recorded = door.recorded();
    let decisions: Vec<_> = recorded.iter().map(|event| event.showing.decision).collect();
    assert_eq!(decisions, [2, 3, 4], "the loss is not among them");
    // Of a showing that is too old nothing is held any more.
    door.clock.set(NOON_US + 3_601 * SECOND_US);
    assert_eq!(record(&door, vec![told(Loss, &tokens[0])]).await.unwrap(), [Expired]);
    assert_eq!(door.settled(), []);
}

#[tokio::test]
async fn a_callers_clock_is_not_believed_unless_the_door_is_told_to() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let nonsense = Told {
        occurred_at: Some(Timestamp { seconds: i64::MAX, nanos: -1 }),
        ..told(Click, &token)
    };
    let events = vec![at(told(Click, &token), NOON_US - 60 * SECOND_US), nonsense];
    assert_eq!(record(&door, events).await.unwrap(), [Accepted, Accepted]);
    assert!(door.recorded().iter().all(|event| event.at_us == NOON_US));
}

#[tokio::test]
async fn a_trusted_callers_time_stays_between_the_token_and_a_minute_ahead() {
    let door = Door::trusting(true).await;
    let token = door.token(&showing(1));
    let now_us = NOON_US + 600 * SECOND_US;
    door.clock.set(now_us);
    for (said_us, recorded_us) in [
        (now_us - 1, now_us - 1),
        (NOON_US, NOON_US),
        (NOON_US - 1, NOON_US),
        (0, NOON_US),
        (now_us + 60 * SECOND_US, now_us + 60 * SECOND_US),
        (now_us + 61 * SECOND_US, now_us + 60 * SECOND_US),
        (253_402_300_799 * SECOND_US, now_us + 60 * SECOND_US),
    ] {
        let events = vec![at(told(Click, &token), said_us)];
        assert_eq!(record(&door, events).await.unwrap(), [Accepted], "{said_us}");
        assert_eq!(door.recorded()[0].at_us, recorded_us, "{said_us}");
    }
    assert_eq!(record(&door, vec![told(Click, &token)]).await.unwrap(), [Accepted]);
    assert_eq!(door.recorded()[0].at_us, now_us, "nothing was said");
    for bad in [
        Timestamp { seconds: 253_402_300_800, nanos: 0 },
        Timestamp { seconds: -62_135_596_801, nanos: 0 },
        Timestamp { seconds: 0, nanos: -1 },
        Timestamp { seconds: 0, nanos: 1_000_000_000 },
    ] {
        let event = Told { occurred_at: Some(bad), ..told(Click, &token) };
        assert_eq!(record(&door, vec![event]).await.unwrap(), [BadTime], "{bad:?}");
    }
    // What happened in time may be told late: an hour for an impression.
    door.clock.set(NOON_US + 10_000 * SECOND_US);
    let events = vec![
        at(told(Impression, &token), NOON_US + 3_600 * SECOND_US),
        at(told(Impression, &token), NOON_US + 3_601 * SECOND_US),
    ];
    assert_eq!(record(&door, events).await.unwrap(), [Accepted, Expired]);
}

#[tokio::test]
async fn an_ill_formed_event_refuses_the_call_and_is_named() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let good = || told(Click, &token);
    for (event, field) in [
        (told(Unspecified, &token), "events[1].kind"),
        (Told { kind: 99, ..good() }, "events[1].kind"),
        (Told { conversion_id: "a".into(), ..good() }, "events[1].conversion_id"),
        (Told { value_micros: 1, ..good() }, "events[1].value_micros"),
        (
            Told { conversion_id: "x".repeat(129), ..told(Conversion, &token) },
            "events[1].conversion_id",
        ),
    ] {
        let refused = record(&door, vec![good(), event]).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{field}");
        assert_eq!(refused_fields(&refused), [field]);
    }
    let many = record(&door, vec![good(); 1_001]).await.unwrap_err();
    assert_eq!(refused_fields(&many), ["events"]);
    assert!(many.message().contains("1001") && many.message().contains("1000"), "{many}");
    assert_eq!(door.recorded(), []);
    assert_eq!(record(&door, vec![good(); 1_000]).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn events_that_could_not_be_made_durable_are_to_be_sent_again() {
    let door = Door::open().await;
    let token = door.token(&Showing { on_impression: true, ..showing(1) });
    door.recorder.is_broken.store(true, Ordering::SeqCst);
    let refused = record(&door, vec![told(Impression, &token)]).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    let body = format!(r#"{{"events":[{{"kind":"EVENT_KIND_CLICK","token":"{token}"}}]}}"#);
    let reply = door.post(&[JSON], &body).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert_eq!(door.count(Metric::EventCallsFailed), 2);
    door.recorder.is_broken.store(false, Ordering::SeqCst);
    assert_eq!(record(&door, vec![told(Impression, &token)]).await.unwrap(), [Accepted]);
    assert_eq!(door.recorded().len(), 1);
}

#[tokio::test]
async fn json_and_beacons_are_taken() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let body = format!(
        r#"{{"events":[{{"kind":"EVENT_KIND_IMPRESSION","token":"{token}"}},
            {{"kind":"EVENT_KIND_CONVERSION","token":"{token}","valueMicros":"5","conversionId":"o"}},
            {{"kind":"EVENT_KIND_CLICK","token":"no"}}]}}"#
    );
    let kinds: [&[(&str, &[u8])]; 5] = [
        &[JSON],
        &[("content-type", b"application/json; charset=utf-8")],
        &[("content-type", b"text/plain;charset=UTF-8")],
        &[("content-type", b"Text/Plain")],
        &[],
    ];
    let sale = event(Kind::Conversion, showing(1), NOON_US);
    let expected = [
        event(Kind::Impression, showing(1), NOON_US),
        Event { tag: "o".into(), value_micros: 5, ..sale },
    ];
    for kind in kinds {
        let reply = door.post(kind, &body).await;
        assert_eq!(results(&reply), [Accepted, Accepted, BadToken], "{kind:?}");
        assert_eq!(door.recorded(), expected);
    }
    for (headers, body, status) in [
        (("content-type", &b"text/html"[..]), body.as_str(), 415),
        (("content-type", b"application/x-www-form-urlencoded"), "events=1", 415),
        (JSON, "", 400),
        (JSON, "{", 400),
        (JSON, "[]", 400),
        (JSON, r#"{"events":[{"kind":"EVENT_KIND_CLICK","tokn":"x"}]}"#, 400),
        (JSON, r#"{"events":[{"token":"x"}]}"#, 400),
        (JSON, &"x".repeat((1 << 20) + 1), 413),
    ] {
        let reply = door.post(&[headers], body).await;
        assert_eq!(reply.status, status, "{:?}", body.get(..40));
        let said: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert!(said["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    assert_eq!(door.recorded(), []);
    assert_eq!(door.count(Metric::EventCallsTaken), 5);
    assert_eq!(door.count(Metric::EventCallsRefused), 8);
    door.ask("GET", "/events", &[]).await.assert_refused(405);
    assert_eq!(door.count(Metric::EventCallsRefused), 9);
}

#[tokio::test]
async fn a_page_from_anywhere_may_send_events_and_read_the_answer() {
    let door = Door::open().await;
    let asks: [(&str, &[u8]); 3] = [
        PAGE,
        ("access-control-request-method", b"POST"),
        ("access-control-request-headers", b"content-type"),
    ];
    let reply = door.ask("OPTIONS", "/events", &asks).await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.header("access-control-allow-methods"), Some("POST"));
    assert_eq!(reply.header("access-control-allow-headers"), Some("content-type"));
    assert!(reply.header("access-control-max-age").is_some());
    let body = format!(
        r#"{{"events":[{{"kind":"EVENT_KIND_CLICK","token":"{}"}}]}}"#,
        door.token(&showing(1))
    );
    for reply in [reply, door.post(&[JSON, PAGE], &body).await, door.post(&[PAGE], "{").await] {
        // A beacon comes with credentials, which rules out "*".
        assert_eq!(reply.header("access-control-allow-origin"), Some("https://news.example"));
        assert_eq!(reply.header("access-control-allow-credentials"), Some("true"));
        assert_eq!(reply.header("vary"), Some("origin"));
    }
}

/// A browser's agent is its visitor's; a server's is a library's.
#[tokio::test]
async fn a_bot_that_runs_a_page_is_filtered_and_a_server_is_not() {
    let door = Door::open().await;
    let held = Showing { on_impression: true, ..showing(1) };
    let token = door.token(&held);
    let body = format!(
        r#"{{"events":[{{"kind":"EVENT_KIND_IMPRESSION","token":"{token}"}},
            {{"kind":"EVENT_KIND_CLICK","token":"bad"}}]}}"#
    );
    let googlebot: (&str, &[u8]) = ("user-agent", b"Mozilla/5.0 (compatible; Googlebot/2.1)");
    let reply = door.post(&[JSON, PAGE, googlebot], &body).await;
    assert_eq!(results(&reply), [Filtered, BadToken]);
    assert!(door.recorded()[0].filtered_by.is_some());
    assert_eq!(door.settled(), [], "a bot fills no cap");
    let python: (&str, &[u8]) = ("user-agent", b"python-requests/2.32.0");
    assert_eq!(results(&door.post(&[JSON, python], &body).await), [Accepted, BadToken]);
    assert_eq!(door.recorded(), [event(Kind::Impression, held, NOON_US)]);
    assert_eq!(door.settled().len(), 1);
}

#[tokio::test]
async fn a_body_that_does_not_end_is_no_call() {
    let door = Door::open().await;
    let mut cut = TcpStream::connect(door.addr).await.unwrap();
    let head = "POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n";
    cut.write_all(format!("{head}{{\"events\":[").as_bytes()).await.unwrap();
    drop(cut);
    let ended = || door.count(Metric::EventCallsRefused) + door.count(Metric::EventCallsCancelled);
    while ended() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(ended(), 1);
    assert_eq!(door.recorded(), []);
}
