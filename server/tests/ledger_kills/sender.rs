//! An independent sender: asks for ads, tells what happened to them by every door there is, in
//! any order and often more than once, and writes down what was acknowledged. What had no answer
//! is told again until it has one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use slotwise_proto::v1 as wire;
use slotwise_proto::v1::EventKind;
use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::event_service_client::EventServiceClient;
use tonic::{Code, Status};

use crate::book::{Book, Event};
use crate::child::Doors;
use crate::lines::{Lines, ask};
use crate::random::Random;
use crate::world::{Cell, LANDING_URL, ZONES};

/// So many callers at once.
pub const CALLERS: usize = 6;
/// With fewer events to tell than this, ads are asked for.
const OPEN_MIN: usize = 60;
/// With more events than this in a round, what was told is only repeated.
const EVENTS_MAX: u64 = 4_000;
/// Events of one batch at most.
const BATCH: u64 = 12;
/// A caller gives up after this: somebody froze the node.
const ANSWER_MAX: Duration = Duration::from_secs(4);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Conversions of one showing; the ids are the advertiser's own business.
const IDS: [&str; 5] = ["", "1", "order 7/8", "ä&id=2", "1 "];

/// What becomes of a call.
enum Answer {
    Acknowledged,
    /// None came, or one that says to try again.
    Unknown,
}

pub struct Sender {
    book: Mutex<Book>,
    /// Where the nodes are that run.
    nodes: Mutex<Vec<Option<Doors>>>,
    /// Whether the nodes believe when an event is said to have happened.
    trusts: bool,
    is_finishing: AtomicBool,
}

impl Sender {
    pub fn new(nodes: usize, trusts: bool) -> Self {
        let (book, is_finishing) = Default::default();
        Self { book, nodes: Mutex::new(vec![None; nodes]), trusts, is_finishing }
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// A node is there, or is not.
    pub fn knows(&self, node: usize, doors: Option<Doors>) {
        self.nodes.lock().unwrap()[node] = doors;
    }

    /// From now on it is only told what is still open.
    pub fn finish(&self) {
        self.is_finishing.store(true, Ordering::SeqCst);
    }

    pub fn is_finishing(&self) -> bool {
        self.is_finishing.load(Ordering::SeqCst)
    }

    /// Some node that runs.
    pub fn node(&self, random: &mut Random) -> Option<Doors> {
        let nodes: Vec<_> = self.nodes.lock().unwrap().iter().flatten().copied().collect();
        (!nodes.is_empty()).then(|| random.pick(&nodes))
    }

    /// Tells until everything is told, once it is to finish.
    pub async fn tell(self: Arc<Self>, mut random: Random) {
        let (mut lines, mut silent) = (Lines::default(), None);
        loop {
            let is_finishing = self.is_finishing();
            let open = self.book().open();
            let all = self.book().len();
            if is_finishing && open == 0 {
                return;
            }
            let Some(node) = self.node(&mut random) else {
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            };
            // One that was silent is mostly left alone, as long as another one is there.
            if silent == Some(node.events) && self.others(node) && !random.one_in(20) {
                continue;
            }
            if !is_finishing && open < OPEN_MIN && all < EVENTS_MAX {
                self.ask(node, &mut lines, &mut random).await;
            }
            let count = usize::try_from(1 + random.below(BATCH)).unwrap();
            let events = {
                let book = self.book();
                let of_open = is_finishing || !random.one_in(4);
                match book.open() {
                    0 if is_finishing => return,
                    _ if book.is_empty() => continue,
                    open => book.pick(&mut random, of_open && open > 0, count),
                }
            };
            let began = Instant::now();
            self.tell_once(node, events, &mut lines, &mut random).await;
            if began.elapsed() >= ANSWER_MAX {
                silent = Some(node.events);
            } else if silent == Some(node.events) {
                silent = None;
            }
        }
    }

    /// Whether other nodes run.
    fn others(&self, node: Doors) -> bool {
        let nodes = self.nodes.lock().unwrap();
        nodes.iter().flatten().any(|other| other.events != node.events)
    }

    /// Asks for every ad of a zone, and makes up what happens to them.
    pub async fn ask(&self, node: Doors, lines: &mut Lines, random: &mut Random) {
        let (site, zone) = random.pick(&ZONES);
        self.ask_for(node, (site, zone), lines, random).await;
    }

    /// Returns how many ads there were.
    pub async fn ask_for(
        &self,
        node: Doors,
        (site, zone): (&str, &str),
        lines: &mut Lines,
        random: &mut Random,
    ) -> usize {
        let request = wire::ChooseAdsRequest {
            site_id: site.into(),
            zone_id: zone.into(),
            count: 100,
            ..wire::ChooseAdsRequest::default()
        };
        let mut door = AdDecisionServiceClient::new(lines.to(node.decisions));
        let asked = tokio::time::timeout(ANSWER_MAX, door.choose_ads(request)).await;
        let Ok(Ok(answer)) = asked else { return 0 };
        let ads = answer.into_inner().ads;
        let now_us = now_us();
        for ad in &ads {
            let cell = Cell {
                site: site.into(),
                zone: zone.into(),
                campaign: ad.campaign_id.clone(),
                unit: ad.ad_unit_id.clone(),
            };
            let mut happens = |kind, id: &str| {
                // Nothing is before its token, nor more than a minute ahead.
                let at_us = self.trusts.then(|| now_us + random_us(random, 50));
                let (cell, token, id) = (cell.clone(), ad.token.clone(), id.to_owned());
                self.book().add(Event { kind, cell, token, id, at_us });
                random.below(12)
            };
            let more = happens(EventKind::Impression, "");
            if more < 6 {
                happens(EventKind::Click, "");
            }
            for id in &IDS[..IDS.len().min(usize::try_from(more).unwrap())] {
                if more < 8 {
                    happens(EventKind::Conversion, id);
                }
            }
        }
        ads.len()
    }

    /// Tells `events` by some way to `node`.
    async fn tell_once(
        &self,
        node: Doors,
        mut events: Vec<usize>,
        lines: &mut Lines,
        random: &mut Random,
    ) {
        // A URL says no time.
        let way = if self.trusts { 2 + random.below(2) } else { random.below(4) };
        if way < 2 {
            events.truncate(1);
        }
        let told: Vec<_> = {
            let mut book = self.book();
            book.sends(&events);
            events.iter().map(|at| book.event(*at)).collect()
        };
        let telling = async {
            match way {
                0 | 1 => by_url(node, &told[0]).await,
                2 => self.by_post(node, &told, random).await,
                _ => self.by_call(node, &told, lines, random).await,
            }
        };
        let answer = tokio::time::timeout(ANSWER_MAX, telling).await;
        let is_acknowledged = matches!(answer, Ok(Answer::Acknowledged));
        self.book().answered(&events, is_acknowledged);
        if !is_acknowledged {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// When it says that it happened; where nobody believes that, anything.
    fn said_us(&self, event: &Event, random: &mut Random) -> Option<i64> {
        match event.at_us {
            Some(at_us) => Some(at_us),
            None => random.one_in(3).then(|| now_us() - random_us(random, 90 * 86_400)),
        }
    }

    async fn by_post(&self, node: Doors, told: &[Arc<Event>], random: &mut Random) -> Answer {
        let mut events = Vec::new();
        for event in told {
            let mut json = serde_json::json!({
                "kind": event.kind.as_str_name(), "token": event.token,
            });
            if event.kind == EventKind::Conversion {
                json["conversionId"] = event.id.as_str().into();
            }
            if let Some(said_us) = self.said_us(event, random) {
                let said = Timestamp::from_microsecond(said_us).unwrap();
                json["occurredAt"] = said.to_string().into();
            }
            events.push(json);
        }
        let body = serde_json::json!({ "events": events }).to_string();
        let Ok(reply) = ask(node.events, "POST", "/events", &body).await else {
            return Answer::Unknown;
        };
        match reply.status {
            200 => {
                let reply: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
                let results = reply["results"].as_array().unwrap();
                assert_eq!(results.len(), told.len());
                assert!(results.iter().all(|r| r == "EVENT_RESULT_ACCEPTED"), "{results:?}");
                Answer::Acknowledged
            }
            503 => Answer::Unknown,
            _ => panic!("{reply:?}"),
        }
    }

    async fn by_call(
        &self,
        node: Doors,
        told: &[Arc<Event>],
        lines: &mut Lines,
        random: &mut Random,
    ) -> Answer {
        let mut event = |event: &Arc<Event>| wire::Event {
            kind: event.kind.into(),
            token: event.token.clone(),
            conversion_id: event.id.clone(),
            occurred_at: self.said_us(event, random).map(stamp),
            value_micros: 0,
        };
        let events = told.iter().map(&mut event).collect();
        let mut door = EventServiceClient::new(lines.to(node.events));
        match door.record_events(wire::RecordEventsRequest { events }).await {
            Ok(answer) => {
                let results: Vec<_> = answer.into_inner().results().collect();
                assert_eq!(results.len(), told.len());
                let is_accepted =
                    |result: &wire::EventResult| *result == wire::EventResult::Accepted;
                assert!(results.iter().all(is_accepted), "{results:?}");
                Answer::Acknowledged
            }
            Err(status) => {
                is_broken_off(&status);
                Answer::Unknown
            }
        }
    }
}

/// What a browser or an advertiser's server does.
async fn by_url(node: Doors, event: &Event) -> Answer {
    let (path, query) = match event.kind {
        EventKind::Click => ("c", String::new()),
        EventKind::Impression => ("i", String::new()),
        _ => ("v", format!("?id={}", utf8_percent_encode(&event.id, NON_ALPHANUMERIC))),
    };
    let target = format!("/{path}/{}{query}", event.token);
    let Ok(reply) = ask(node.events, "GET", &target, "").await else { return Answer::Unknown };
    match (event.kind, reply.status) {
        (EventKind::Click, 302) => {
            assert!(reply.head.contains(&format!("location: {LANDING_URL}\r\n")), "{reply:?}");
            Answer::Acknowledged
        }
        (EventKind::Impression | EventKind::Conversion, 200) => Answer::Acknowledged,
        (_, 503) => Answer::Unknown,
        _ => panic!("{event:?}: {reply:?}"),
    }
}

/// Nothing else comes of kills: a call that is refused for another reason is a fault.
pub fn is_broken_off(status: &Status) {
    let broken = [Code::Unavailable, Code::Cancelled, Code::Unknown, Code::Internal];
    assert!(broken.contains(&status.code()), "{status:?}");
}

pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}

pub fn stamp(us: i64) -> prost_types::Timestamp {
    let nanos = i32::try_from(us.rem_euclid(1_000_000) * 1_000).unwrap();
    prost_types::Timestamp { seconds: us.div_euclid(1_000_000), nanos }
}

/// Less than so many seconds.
pub fn random_us(random: &mut Random, seconds: u64) -> i64 {
    i64::try_from(random.below(seconds * 1_000_000)).unwrap()
}
