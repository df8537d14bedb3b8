//! A door of its own, with a recorder that remembers, and a client that sends what it is told.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use prost::Message;
use slotwise_core::index::Key;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_proto::json;
use slotwise_proto::v1::Ad;
use slotwise_proto::v1::event_service_client::EventServiceClient;
use slotwise_server::bots::Bots;
use slotwise_server::doors::{
    Calls, Doorman, Drain, EventDoor, Events, Health, Landings, bind, reflect,
};
use slotwise_server::events::{Event, Kind, Lives, Lost, Recorder, Settling};
use slotwise_server::ports::{AuditRow, CatalogStore, Commit, Put};
use slotwise_server::serials::{NamedAd, Serials};
use slotwise_server::store::embedded::EmbeddedCatalog;
use slotwise_server::telemetry::{Counters, Metric};
use slotwise_server::testing::ManualClock;
use slotwise_server::tokens::{CurrentKeys, PriceKind, Showing, TokenKeys};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tonic::transport::Channel;

use crate::support::{NOON_US, channel};

/// When the tests' tokens are issued: at noon, as their clock says.
pub const ISSUED_MS: i64 = NOON_US / 1_000;
/// An ad that the door's node knows.
pub const KNOWN: AdSerial = AdSerial(7);
/// Where it leads.
pub const LANDING: &str = "https://shop.example/a%20b?x=1&y=%C3%A4&t={click_token}#frag";

/// Remembers what it was given.
#[derive(Default)]
pub struct Remembering {
    pub events: Mutex<Vec<Event>>,
    pub is_broken: AtomicBool,
    /// Each record waits for one of its permits, where it is there.
    pub gate: Mutex<Option<Arc<Semaphore>>>,
    pub begun: Arc<tokio::sync::Notify>,
}

#[async_trait]
impl Recorder for Remembering {
    async fn record(&self, events: Vec<Event>) -> Result<(), Lost> {
        self.begun.notify_one();
        let gate = self.gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.acquire().await.unwrap().forget();
        }
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(Lost);
        }
        self.events.lock().unwrap().extend(events);
        Ok(())
    }
}

/// What was settled: whether it was seen, else lost; which; when.
#[derive(Default)]
pub struct Settled(pub Mutex<Vec<(bool, Showing, i64)>>);

#[async_trait]
impl Settling for Settled {
    async fn seen(&self, showing: &Showing, now_us: i64) {
        self.0.lock().unwrap().push((true, *showing, now_us));
    }

    async fn lost(&self, showing: &Showing, now_us: i64) {
        self.0.lock().unwrap().push((false, *showing, now_us));
    }
}

/// The door, and all that it works with.
pub struct Door {
    pub addr: SocketAddr,
    pub clock: Arc<ManualClock>,
    pub recorder: Arc<Remembering>,
    pub settled: Arc<Settled>,
    pub keys: Arc<ArcSwap<TokenKeys>>,
    pub counters: Arc<Counters>,
    pub store: Arc<dyn CatalogStore>,
    drain: Drain,
    _health: Health,
    _dir: tempfile::TempDir,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.drain.begin();
    }
}

/// The key of this number.
pub fn key(number: u8) -> (u8, [u8; 32]) {
    (number, [number; 32])
}

/// One showing of the known ad, unlike any other.
pub fn showing(decision: u64) -> Showing {
    Showing {
        decision,
        slot: 0,
        issued_at_ms: ISSUED_MS,
        price_nanos: 1_500,
        price_kind: PriceKind::Impression,
        on_impression: false,
        visitor: Some(77),
        account: AccountSerial(1),
        zone: ZoneSerial(2),
        ad: KNOWN,
    }
}

/// What is recorded of `showing` where nothing special is told.
pub fn event(kind: Kind, showing: Showing, at_us: i64) -> Event {
    Event { kind, showing, at_us, tag: String::new(), value_micros: 0, filtered_by: None }
}

impl Door {
    pub async fn open() -> Self {
        Self::trusting(false).await
    }

    pub async fn trusting(trusts_occurred_at: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn CatalogStore> = Arc::new(EmbeddedCatalog::open(dir.path()).unwrap());
        let serials = Arc::<Serials>::default();
        for (serial, landing_url) in [(KNOWN.0, LANDING), (8, "https://8/"), (9, "https://9/")] {
            serials.put_ad(NamedAd {
                serial: AdSerial(serial),
                campaign: "x:1".into(),
                unit: "a".into(),
                landing_url: landing_url.into(),
                markup: "".into(),
            });
        }
        let keys = TokenKeys::new(&[key(1)]).unwrap();
        let keys = Arc::new(ArcSwap::from_pointee(keys));
        let (clock, counters) = (ManualClock::new(NOON_US), Arc::<Counters>::default());
        let (recorder, settled) = (Arc::<Remembering>::default(), Arc::<Settled>::default());
        let [hour, day] = [3_600, 86_400].map(std::time::Duration::from_secs);
        let events = Events {
            keys: Arc::new(CurrentKeys::of({
                let keys = Arc::clone(&keys);
                move || keys.load()
            })),
            lives: Lives { impression: hour, click: day, conversion: day * 30 },
            trusts_occurred_at,
            landings: Landings::new(serials, Arc::clone(&store)),
            recorder: recorder.clone(),
            settling: settled.clone(),
            clock: clock.clone(),
            bots: Bots::known().unwrap(),
            counters: counters.clone(),
        };
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let (doorman, queue) = Doorman::for_one(1_000);
        let drain = Drain::default();
        tokio::spawn(doorman.accept(listener, drain.clone()));
        let (health, routes) = reflect(&["slotwise.v1.EventService"]).await.unwrap();
        health.set(true).await;
        let door = EventDoor::new(Arc::new(events), Calls::default(), drain.clone());
        tokio::spawn(door.serve(routes, queue));
        let (_dir, _health) = (dir, health);
        Self { addr, clock, recorder, settled, keys, counters, store, drain, _health, _dir }
    }

    pub fn token(&self, showing: &Showing) -> String {
        self.keys.load().seal(showing)
    }

    /// What was recorded so far, taken away.
    pub fn recorded(&self) -> Vec<Event> {
        std::mem::take(&mut self.recorder.events.lock().unwrap())
    }

    pub fn settled(&self) -> Vec<(bool, Showing, i64)> {
        std::mem::take(&mut self.settled.0.lock().unwrap())
    }

    pub fn count(&self, metric: Metric) -> u64 {
        self.counters.get(metric)
    }

    /// One request on a connection of its own.
    pub async fn ask(&self, method: &str, target: &str, headers: &[(&str, &[u8])]) -> Reply {
        Http1::connect(self.addr).await.ask(method, target, headers, b"").await
    }

    pub async fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, &[]).await
    }

    pub async fn post(&self, headers: &[(&str, &[u8])], body: &str) -> Reply {
        Http1::connect(self.addr).await.ask("POST", "/events", headers, body.as_bytes()).await
    }

    pub async fn grpc(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(channel(self.addr).await)
    }

    /// Puts an ad into the store, of which the door's node does not hear; returns its serial.
    pub async fn put_unheard(&self, unit: &str, landing: &str) -> AdSerial {
        let ad = format!(
            r#"{{"campaignId":"x:1","adUnitId":"{unit}","zones":[{{"siteId":"s","zoneId":"z",
                "ecpmMicros":"1000000"}}],"landingUrl":"{landing}"}}"#
        );
        let body = json::from_str::<Ad>(&ad).unwrap().encode_to_vec();
        let key = Key::Ad("x:1".into(), unit.into());
        let put = Put { key: key.clone(), owner: String::new(), body, status: None };
        self.commit(Commit { puts: vec![put], ..Commit::default() }).await;
        let (_, rows) = self.store.get(&[key]).await.unwrap();
        AdSerial(rows[0].serial)
    }

    pub async fn delete(&self, unit: &str) {
        let deletes = vec![Key::Ad("x:1".into(), unit.into())];
        self.commit(Commit { deletes, forced: true, ..Commit::default() }).await;
    }

    async fn commit(&self, commit: Commit) {
        let base_version = self.store.head().await.unwrap().version;
        let line = AuditRow {
            change: slotwise_proto::v1::CatalogChange::default(),
            before: None,
            after: None,
        };
        let commit = Commit { base_version, at_us: NOON_US, audit: vec![line], ..commit };
        self.store.commit(commit).await.unwrap();
    }
}

/// An answer, byte for byte.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(known, _)| known == name)?;
        Some(std::str::from_utf8(value).unwrap())
    }

    /// Refused, leading nowhere.
    pub fn assert_refused(&self, status: u16) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("location"), None);
        assert_eq!(self.header("cache-control"), Some("no-store"));
    }

    /// Leads to `location`, once.
    pub fn assert_leads_to(&self, location: &str) {
        assert_eq!(self.status, 302, "{self:?}");
        assert_eq!(self.header("location"), Some(location));
        assert_eq!(self.header("cache-control"), Some("no-store"));
    }
}

/// A connection that is kept.
pub struct Http1(BufReader<TcpStream>);

impl Http1 {
    pub async fn connect(addr: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(addr).await.unwrap()))
    }

    pub async fn ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) -> Reply {
        self.send(method, target, headers, body).await;
        self.read(method == "HEAD").await
    }

    pub async fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) {
        let mut request =
            format!("{method} {target} HTTP/1.1\r\nhost: ads.example\r\n").into_bytes();
        for (name, value) in headers {
            request.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        if method == "POST" {
            request.extend(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
        request.extend(b"\r\n");
        request.extend(body);
        // A door that has refused it already may have hung up.
        let _ = self.0.get_mut().write_all(&request).await;
    }

    pub async fn read(&mut self, is_head: bool) -> Reply {
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            assert!(self.0.read_until(b'\n', &mut line).await.unwrap() > 0, "hung up");
            let line = line.strip_suffix(b"\r\n").unwrap().to_vec();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let status = std::str::from_utf8(&lines[0][9..12]).unwrap().parse().unwrap();
        let header = |line: &Vec<u8>| {
            let at = line.iter().position(|byte| *byte == b':').unwrap();
            let name = String::from_utf8(line[..at].to_ascii_lowercase()).unwrap();
            (name, line[at + 1..].trim_ascii().to_vec())
        };
        let headers = lines[1..].iter().map(header).collect();
        let mut reply = Reply { status, headers, body: Vec::new() };
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        if !is_head {
            reply.body = vec![0; length];
            self.0.read_exact(&mut reply.body).await.unwrap();
        }
        reply
    }

    /// Whether a byte of an answer is here by now.
    pub fn is_answered(&mut self) -> bool {
        self.0.get_mut().try_read(&mut [0]).is_ok()
    }
}
