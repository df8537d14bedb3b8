//! A disk that is full, under a whole server: no visitor is turned away, what is lost is counted
//! and said to be, and what was acknowledged is counted.

use std::process::Command;
use std::time::Instant;

use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::event_service_client::EventServiceClient;
use slotwise_proto::v1::{
    Event as Told, EventKind, ImportOptions, ListNodesRequest, RecordEventsRequest,
};
use slotwise_server::telemetry::Metric;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::book::Event;
use crate::catalogue::Clients;
use crate::child::{Doors, PATIENCE, Slotwise, serve_command};
use crate::lines::{Lines, Reply, ask};
use crate::random::Random;
use crate::reports::Reports;
use crate::sender::{Sender, now_us};
use crate::world::{LANDING_URL, ZONES, records};

/// Files of at most 512 KiB (1,024 blocks), and an error for who writes on, not a signal. For
/// whoever writes, that is a full disk.
const FULL: &str = r#"trap '' XFSZ; ulimit -f 1024; exec "$0" "$@""#;
/// Conversions of one call, each with an id of the greatest length.
const AT_ONCE: u64 = 500;
const ID_BYTES: usize = 128;
/// More of them do not fit twice 512 KiB.
const FITS_MAX: u64 = (1 << 20) / ID_BYTES as u64;
/// What health is asked for whether a node is whole.
const WHOLE: &str = "slotwise.whole";

/// What is told, and what it came to.
struct Caller {
    doors: Doors,
    sender: Sender,
    lines: Lines,
    /// Told, and said to be lost.
    lost: u64,
    last_id: u64,
}

impl Caller {
    /// Conversions of the first showing; whether they were taken.
    async fn converts(&mut self, events: u64) -> bool {
        let first = self.sender.book().event(0);
        let ids = (self.last_id + 1..=self.last_id + events).map(|id| format!("{id:0ID_BYTES$}"));
        let ids: Vec<_> = ids.collect();
        self.last_id += events;
        let told = ids.iter().map(|id| Told {
            kind: EventKind::Conversion.into(),
            token: first.token.clone(),
            conversion_id: id.clone(),
            ..Told::default()
        });
        let request = RecordEventsRequest { events: told.collect() };
        let mut door = EventServiceClient::new(self.lines.to(self.doors.events));
        match door.record_events(request).await {
            Ok(_) => {
                for id in ids {
                    let (cell, token) = (first.cell.clone(), first.token.clone());
                    let kind = EventKind::Conversion;
                    self.sender.book().add(Event { kind, cell, token, id, at_us: None });
                }
                true
            }
            Err(status) => {
                assert_eq!(status.code(), Code::Unavailable, "{status:?}");
                self.lost += events;
                false
            }
        }
    }

    async fn get(&self, target: String) -> Reply {
        ask(self.doors.events, "GET", &target, "").await.unwrap()
    }

    /// What every visitor sees, whatever becomes of the event.
    async fn visits(&self, event: &Event) {
        let is_click = event.kind == EventKind::Click;
        let path = if is_click { "c" } else { "i" };
        let reply = self.get(format!("/{path}/{}", event.token)).await;
        assert_eq!(reply.status, if is_click { 302 } else { 200 }, "{reply:?}");
        let leads = reply.head.contains(&format!("location: {LANDING_URL}\r\n"));
        assert_eq!(leads, is_click, "{reply:?}");
    }

    async fn degraded(&mut self) -> String {
        let mut door = CatalogServiceClient::new(self.lines.to(self.doors.admin));
        let nodes = door.list_nodes(ListNodesRequest {}).await.unwrap().into_inner().nodes;
        nodes[0].degraded_reason.clone()
    }

    async fn is_whole(&mut self) -> bool {
        let ask = HealthCheckRequest { service: WHOLE.to_owned() };
        let mut door = HealthClient::new(self.lines.to(self.doors.events));
        door.check(ask).await.unwrap().into_inner().status() == ServingStatus::Serving
    }
}

/// A click and an impression for every ad of every zone, still to be told.
async fn showings(doors: Doors) -> Sender {
    let (sender, mut lines) = (Sender::new(1, false), Lines::default());
    let asked = Sender::new(1, false);
    for zone in ZONES {
        asked.ask_for(doors, zone, &mut lines, &mut Random::new(7)).await;
    }
    let shown = std::mem::take(&mut *asked.book());
    for event in shown.events().filter(|event| event.kind == EventKind::Impression) {
        for kind in [EventKind::Impression, EventKind::Click] {
            let (cell, token) = (event.cell.clone(), event.token.clone());
            sender.book().add(Event { kind, cell, token, id: String::new(), at_us: None });
        }
    }
    sender
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_turns_no_visitor_away_and_says_what_is_lost() {
    let (dir, began_us) = (tempfile::tempdir().unwrap(), now_us());
    let inner = serve_command(dir.path(), &[]);
    let mut command = Command::new("sh");
    command.args(["-c", FULL]).arg(inner.get_program()).args(inner.get_args());
    let (slotwise, doors) = Slotwise::serve_by(command);
    Clients::of(doors).await.import(ImportOptions::default(), &records()).await;
    let sender = showings(doors).await;
    let mut caller = Caller { doors, sender, lines: Lines::default(), lost: 0, last_id: 0 };

    // Until neither the log nor the spill file has room for one more.
    for at_once in [AT_ONCE, 1] {
        while caller.converts(at_once).await {
            assert!(caller.last_id < FITS_MAX, "the disk does not become full");
        }
    }
    // With the visits, which are in the book as well.
    let taken = caller.sender.book().len();
    let visits: Vec<_> = caller.sender.book().events().take(2 * 36).cloned().collect();
    assert_eq!(visits.len(), 72, "two for each ad of each zone");
    for event in &visits {
        caller.visits(event).await;
    }
    let reply = caller.get(format!("/v/{}?id=one-more", visits[0].token)).await;
    assert!(reply.status == 503 && reply.head.contains("retry-after: "), "{reply:?}");
    caller.lost += 1;
    let began = Instant::now();
    while !caller.degraded().await.contains("events are lost") {
        assert!(began.elapsed() < PATIENCE, "nothing is said");
    }
    assert!(!caller.is_whole().await, "health says so, too");
    slotwise.signal("TERM");
    let ended = slotwise.ended();
    assert!(ended.stderr.contains("neither the log nor the disk takes them"), "{}", ended.stderr);
    let fates = [Metric::EventsRecorded, Metric::EventsSpilled, Metric::EventsLost];
    let [recorded, spilled, lost] = fates.map(|fate| counter(&ended.stderr, fate));
    assert_eq!(recorded + spilled + lost, taken + caller.lost, "each has one fate");
    // There may have been room for the first visits, which are shorter than conversions.
    assert!(lost > caller.lost && spilled > 0, "{recorded} {spilled} {lost}");

    // There is room again: what was not lost is counted, and what was lost can be told.
    let (_slotwise, doors) = Slotwise::serve(dir.path(), &[]);
    caller.doors = doors;
    let mut reports = Reports::of(doors, &mut caller.lines, began_us);
    let began = Instant::now();
    while reports.total().await.events() != recorded + spilled {
        assert!(
            began.elapsed() < PATIENCE,
            "{:?}, not {recorded} + {spilled}",
            reports.total().await
        );
    }
    for event in &visits {
        caller.visits(event).await;
    }
    let cells = caller.sender.book().cells();
    reports.come_to(&cells).await;
    assert_eq!(caller.degraded().await, "");
    assert!(caller.is_whole().await);
}

/// What the last line of a server's log says of `metric`.
fn counter(log: &str, metric: Metric) -> u64 {
    let name = format!("({metric:?}, ");
    let (_, after) = log.rsplit_once(&name).unwrap_or_else(|| panic!("{log}"));
    after[..after.find(')').unwrap()].parse().unwrap()
}
