//! The event door's URLs: each request is answered, recorded, settled and counted as a second
//! reading of docs/events.md says (`event_door/rules.rs`), and in no other way.

#[path = "event_door/request.rs"]
mod request;
#[path = "event_door/rules.rs"]
mod rules;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, header};
use slotwise_core::model::AdSerial;
use slotwise_proto::json;
use slotwise_proto::v1::RecordEventsResponse;
use slotwise_server::bots::Bots;
use slotwise_server::doors::{Events, Landings};
use slotwise_server::events::{Event, Lives, Lost, Recorder, Settling};
use slotwise_server::serials::{NamedAd, Serials};
use slotwise_server::store::embedded::EmbeddedCatalog;
use slotwise_server::telemetry::{Counters, Metric};
use slotwise_server::testing::ManualClock;
use slotwise_server::tokens::{CurrentKeys, Showing};
use tower::Service as _;

use request::{Asked, KNOWN, LANDING, NOON_US, Tokens};
use rules::{Answer, Expected, Rules};

/// More than any answer has.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How a call of the door may end.
const ENDS: [Metric; 5] = [
    Metric::EventCallsTaken,
    Metric::EventCallsUncounted,
    Metric::EventCallsRefused,
    Metric::EventCallsFailed,
    Metric::EventCallsCancelled,
];
/// What may become of an event.
const FATES: [Metric; 3] = [Metric::EventsAccepted, Metric::EventsFiltered, Metric::EventsRefused];

/// What was recorded and settled by the request at hand.
#[derive(Default)]
struct Remembering {
    is_broken: AtomicBool,
    recorded: Mutex<Vec<Event>>,
    settled: Mutex<Vec<(bool, Showing, i64)>>,
}

#[async_trait]
impl Recorder for Remembering {
    async fn record(&self, events: Vec<Event>) -> Result<(), Lost> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(Lost);
        }
        self.recorded.lock().unwrap().extend(events);
        Ok(())
    }
}

#[async_trait]
impl Settling for Remembering {
    async fn seen(&self, showing: &Showing, now_us: i64) {
        self.settled.lock().unwrap().push((true, *showing, now_us));
    }

    async fn lost(&self, showing: &Showing, now_us: i64) {
        self.settled.lock().unwrap().push((false, *showing, now_us));
    }
}

/// The URLs of one door, and what they did.
struct Door {
    urls: Router,
    memory: Arc<Remembering>,
    counters: Arc<Counters>,
    trusts_occurred_at: bool,
}

/// Two doors, one of which believes its callers' clocks, over an empty catalogue.
pub struct Doors {
    runtime: tokio::runtime::Runtime,
    doors: [Door; 2],
    tokens: Tokens,
    bots: Bots,
    _dir: tempfile::TempDir,
}

impl Doors {
    /// Opens them on a directory of their own.
    #[allow(clippy::new_without_default, reason = "it makes a directory and starts threads")]
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(EmbeddedCatalog::open(dir.path()).unwrap());
        let (tokens, bots) = (Tokens::new(), Bots::known().unwrap());
        let doors = [false, true].map(|trusts_occurred_at| {
            let serials = Arc::<Serials>::default();
            serials.put_ad(NamedAd {
                serial: AdSerial(KNOWN),
                campaign: "x:1".into(),
                unit: "a".into(),
                landing_url: LANDING.into(),
                markup: "".into(),
            });
            let (memory, counters) = (Arc::<Remembering>::default(), Arc::<Counters>::default());
            let [hour, day] = [3_600, 86_400].map(Duration::from_secs);
            let events = Events {
                keys: Arc::new(CurrentKeys::fixed(tokens.keys.clone())),
                lives: Lives { impression: hour, click: day, conversion: day * 30 },
                trusts_occurred_at,
                landings: Landings::new(serials, store.clone()),
                recorder: memory.clone(),
                settling: memory.clone(),
                clock: ManualClock::new(NOON_US),
                bots: bots.clone(),
                counters: counters.clone(),
            };
            Door { urls: Arc::new(events).urls(), memory, counters, trusts_occurred_at }
        });
        drop(_inside);
        Self { runtime, doors, tokens, bots, _dir: dir }
    }

    /// Sends both doors the request that `data` writes: a line with method and target, lines of
    /// headers, an empty line, a body. `{good}` and its like stand for tokens (see
    /// `event_door/request.rs`); with a `!` in front the events can be recorded nowhere.
    pub fn check(&self, data: &[u8]) {
        let Some(asked) = Asked::read(data, &self.tokens) else { return };
        for door in &self.doors {
            let rules = Rules {
                tokens: &self.tokens,
                bots: &self.bots,
                trusts_occurred_at: door.trusts_occurred_at,
            };
            self.runtime.block_on(door.check(&asked, &rules.expected(&asked)));
        }
    }
}

impl Door {
    async fn check(&self, asked: &Asked, expected: &Expected) {
        self.memory.is_broken.store(asked.is_broken, Ordering::SeqCst);
        let count = |metric: &Metric| self.counters.get(*metric);
        let before = (ENDS.each_ref().map(count), FATES.each_ref().map(count));
        let mut request = http::Request::new(Body::from(asked.body.clone()));
        *request.method_mut() = asked.method.clone();
        *request.uri_mut() = asked.uri.clone();
        *request.headers_mut() = asked.headers.clone();
        let response = self.urls.clone().call(request).await.unwrap();

        assert_eq!(*self.memory.recorded.lock().unwrap(), expected.recorded, "{asked:?}");
        assert_eq!(*self.memory.settled.lock().unwrap(), expected.settled, "{asked:?}");
        self.memory.recorded.lock().unwrap().clear();
        self.memory.settled.lock().unwrap().clear();
        let since = |now: u64, before: u64| now - before;
        let ends: Vec<_> = ENDS.iter().zip(before.0).map(|(m, was)| since(count(m), was)).collect();
        let ended = ENDS.map(|metric| u64::from(expected.end == Some(metric)));
        assert_eq!(ends, ended, "one end of {ENDS:?}: {asked:?}");
        let fates: Vec<_> =
            FATES.iter().zip(before.1).map(|(m, was)| since(count(m), was)).collect();
        assert_eq!(fates, expected.fates, "{FATES:?}: {asked:?}");
        is_answered(asked, response, expected).await;
    }
}

async fn is_answered(asked: &Asked, response: Response, expected: &Expected) {
    let (parts, body) = response.into_parts();
    assert_eq!(parts.status, expected.status, "{asked:?}");
    let headers = parts.headers;
    let locations: Vec<_> = headers.get_all(header::LOCATION).iter().collect();
    assert_eq!(
        locations,
        expected.location.iter().map(String::as_str).collect::<Vec<_>>(),
        "{asked:?}"
    );
    if expected.status == StatusCode::SERVICE_UNAVAILABLE {
        assert!(headers.contains_key(header::RETRY_AFTER), "{asked:?}");
    }
    let never_kept =
        headers.get(header::CACHE_CONTROL) == Some(&HeaderValue::from_static("no-store"));
    assert_eq!(never_kept, expected.is_never_kept, "{asked:?}: {headers:?}");
    if expected.is_for_pages {
        let allowed = headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN);
        assert_eq!(allowed, asked.headers.get(header::ORIGIN), "{asked:?}");
        assert_eq!(headers.get(header::VARY), Some(&HeaderValue::from_static("origin")));
    }
    let body = to_bytes(body, ANSWER_BYTES_MAX).await.unwrap();
    if asked.method == Method::HEAD {
        return;
    }
    match &expected.answer {
        Answer::Anything => {}
        Answer::Nothing => assert!(body.is_empty(), "{asked:?}"),
        Answer::Pixel => assert!(body.len() == 43 && body.starts_with(b"GIF89a\x01\0\x01\0")),
        Answer::Words => assert!(body.ends_with(b"\n"), "{asked:?}"),
        Answer::Error => {
            let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert!(said["code"].as_i64().is_some_and(|code| code > 0), "{said}");
            assert!(said["message"].as_str().is_some_and(|message| !message.is_empty()), "{said}");
        }
        Answer::Results(results) => {
            let said = json::from_str::<RecordEventsResponse>(std::str::from_utf8(&body).unwrap());
            let said: Vec<_> = said.unwrap().results().collect();
            assert_eq!(said, *results, "{asked:?}");
        }
    }
}
