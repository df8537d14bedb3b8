//! Replays: which lines count, and what is said of those that cannot.

use slotwise_proto::v1::*;
use tonic::{Code, Status};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_line_counts_once_however_often_and_in_whatever_parts_its_file_comes() {
    let bench = Bench::start().await;
    let events: Vec<_> = (1..=5).map(|line| click(line, NOON_S, "a", "top")).collect();
    let total = async || {
        let read = bench.stats(stats_of("2026-11-30", "2026-11-30", &[])).await.unwrap();
        clicks(&read.total)
    };
    assert_eq!(bench.replay(file(1, events.clone())).await.unwrap(), 5);
    assert_eq!(bench.replay(file(1, events.clone())).await.unwrap(), 5);
    assert_eq!(bench.replay(file(1, events[3..].to_vec())).await.unwrap(), 2);
    assert_eq!(total().await, 5);
    // The same lines of another file are others.
    assert_eq!(bench.replay(file(2, events)).await.unwrap(), 5);
    assert_eq!(total().await, 10);
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_is_named_and_nothing_of_its_message_counts() {
    let bench = Bench::start().await;
    let good = click(2, NOON_S, "a", "top");
    for (field, said, bad) in [
        ("campaign_id", "x:none", ReplayedEvent { campaign_id: "x:none".into(), ..good.clone() }),
        ("ad_unit_id", "x:1/z", ReplayedEvent { ad_unit_id: "z".into(), ..good.clone() }),
        ("site_id", "none", ReplayedEvent { site_id: "none".into(), ..good.clone() }),
        ("zone_id", "s/none", ReplayedEvent { zone_id: "none".into(), ..good.clone() }),
        ("campaign_id", "other", ReplayedEvent { site_id: "other".into(), ..good.clone() }),
        ("kind", "none of", ReplayedEvent { kind: 0, ..good.clone() }),
        ("kind", "none of", ReplayedEvent { kind: EventKind::Loss.into(), ..good.clone() }),
        ("occurred_at", "missing", ReplayedEvent { occurred_at: None, ..good.clone() }),
        ("occurred_at", "1970", ReplayedEvent { occurred_at: at(-1), ..good.clone() }),
        ("occurred_at", "not come", ReplayedEvent { occurred_at: at(NOON_S + 61), ..good.clone() }),
        ("user_id", "128", ReplayedEvent { user_id: "v".repeat(129), ..good.clone() }),
        ("value_micros", "conversions", ReplayedEvent { value_micros: 1, ..good.clone() }),
        ("line", "after line 1", ReplayedEvent { line: 1, ..good.clone() }),
    ] {
        let before = bench.door.ledger.counted();
        let line = bad.line;
        let status =
            bench.replay(file(9, vec![click(1, NOON_S, "a", "top"), bad])).await.unwrap_err();
        assert_eq!(
            (status.code(), refused_fields(&status)),
            (Code::InvalidArgument, vec![field.to_owned()])
        );
        let message = status.message();
        assert!(message.contains(&format!("line {line}:")) && message.contains(said), "{message}");
        assert_eq!(bench.door.ledger.counted(), before);
    }
    // What came before stays, and a second attempt counts the rest.
    let first = ReplayEventsRequest {
        file_sha256: vec![8; 32],
        events: vec![click(1, NOON_S, "a", "top")],
    };
    let bad =
        ReplayEventsRequest { file_sha256: vec![], events: vec![click(2, NOON_S, "z", "top")] };
    bench.replay(vec![first.clone(), bad]).await.unwrap_err();
    assert_eq!(bench.door.ledger.counted(), 1);
    let mended =
        ReplayEventsRequest { file_sha256: vec![], events: vec![click(2, NOON_S, "a", "top")] };
    assert_eq!(bench.replay(vec![first, mended]).await.unwrap(), 2);
    assert_eq!(bench.door.ledger.counted(), 2);

    let field = |answer: Result<u64, Status>| refused(answer).1.join(",");
    assert_eq!(field(bench.replay(vec![ReplayEventsRequest::default()]).await), "file_sha256");
    let twice = [file(1, vec![]), file(1, vec![])].concat();
    assert_eq!(field(bench.replay(twice).await), "file_sha256");
    let many: Vec<_> = (1..=1_001).map(|line| click(line, NOON_S, "a", "top")).collect();
    assert_eq!(field(bench.replay(file(1, many)).await), "events");
    bench.door.ledger.set_away(true);
    let lost = bench.replay(file(5, vec![click(1, NOON_S, "a", "top")])).await;
    assert_eq!(refused(lost).0, Code::Unavailable);
    bench.clock.set(NOON_US);
    bench.server.stop().await;
}
