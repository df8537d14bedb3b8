//! Events on their way into the log, with the real thing: what was acknowledged is there, however
//! the process, the disk or Redis fails in between.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "event_log/child.rs"]
mod child;
#[path = "event_log/full_disk.rs"]
mod full_disk;
#[path = "event_log/killed.rs"]
mod killed;
#[path = "event_log/on_redis.rs"]
mod on_redis;
#[path = "support/redis.rs"]
mod redis_server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::app::SystemClock;
use slotwise_server::events::{Event, EventId, HotAds, Kind, LogRecorder, Partition, batch};
use slotwise_server::ports::{EventLog, Position};
use slotwise_server::store::embedded::EmbeddedLog;
use slotwise_server::telemetry::{Counters, Metric};
use slotwise_server::testing::Server;
use slotwise_server::tokens::{PriceKind, Showing};

/// Nothing here takes so long, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(60);
const SPILL: &str = "events.spill";

/// The event with this number: what a sender sends, and a reader expects.
fn event_of(number: u64) -> Event {
    let kind = [Kind::Impression, Kind::Click, Kind::Conversion][(number % 3) as usize];
    let is_conversion = kind == Kind::Conversion;
    Event {
        kind,
        showing: Showing {
            decision: number,
            slot: (number % 100) as u16,
            issued_at_ms: 1_796_040_000_000,
            price_nanos: 2_000_000,
            price_kind: PriceKind::Click,
            on_impression: number.is_multiple_of(2),
            visitor: number.is_multiple_of(5).then_some(u128::from(number) << 64),
            account: AccountSerial(1),
            zone: ZoneSerial(2),
            ad: AdSerial((number % 40) as u32),
        },
        at_us: 1_796_040_001_000_000,
        tag: if is_conversion { format!("order {number}") } else { String::new() },
        value_micros: 0,
        filtered_by: None,
    }
}

/// A recorder over `log`, with its spill file in `dir`.
fn recorder(dir: &Path, log: Arc<dyn EventLog>, counters: &Arc<Counters>) -> LogRecorder {
    LogRecorder::open(dir, 1 << 30, log, Arc::default(), Arc::clone(counters)).unwrap()
}

fn embedded(dir: &Path) -> Arc<dyn EventLog> {
    Arc::new(EmbeddedLog::open(dir, Arc::new(SystemClock)).unwrap())
}

/// Waits until nothing is wrong: what was spilled is in the log.
async fn settled(recorder: &LogRecorder) {
    let mut degraded = recorder.degraded();
    let settled = degraded.wait_for(String::is_empty);
    tokio::time::timeout(PATIENCE, settled).await.expect("it heals").unwrap();
}

/// Every event in the log is one that was sent, whole and in its place, and has one id, which no
/// other has; and every one of `acknowledged` is there.
async fn check(log: &dyn EventLog, acknowledged: &BTreeSet<u64>) {
    let mut found: BTreeMap<u64, EventId> = BTreeMap::new();
    for partition in Partition::all() {
        let mut last = Position::default();
        loop {
            let batches = log.read(partition, last, 1 << 20).await.unwrap();
            let Some(end) = batches.last() else { break };
            last = end.position;
            for event in batches.iter().flat_map(|batch| batch::decode(&batch.bytes).unwrap()) {
                let number = event.showing.decision;
                assert_eq!(event, event_of(number));
                assert_eq!(partition, HotAds::default().partition(&event.showing));
                let id = *found.entry(number).or_insert_with(|| event.id());
                assert_eq!(id, event.id(), "a repeat has the same id");
            }
        }
    }
    let ids: BTreeSet<_> = found.values().collect();
    assert_eq!(ids.len(), found.len(), "different events have different ids");
    let lost: Vec<_> = acknowledged.iter().filter(|number| !found.contains_key(number)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}

#[tokio::test]
async fn the_app_records_in_the_log_of_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_in(dir.path(), Arc::new(SystemClock), &[]).await;
    server.app().ledger.recording.recorder.record((0..50).map(event_of).collect()).await.unwrap();
    assert_eq!(server.app().counters().get(Metric::EventsRecorded), 50);
    assert_eq!(*server.app().ledger.recording.degraded.borrow(), "");
    server.stop().await;
    check(&*embedded(dir.path()), &(0..50).collect()).await;
}
