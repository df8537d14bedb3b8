//! The click door of a whole server: clicks a second that are in the log before their 302, how long
//! one takes at half of that, and how long until it stands in its minute.
//!
//! `cargo bench -p slotwise-server --bench clicks [-- SECONDS]`. Server and callers are in this
//! process and share its cores. Each caller keeps one HTTP/1.1 connection and sends prepared
//! requests, each with a token of its own. The embedded store lies in the directory that `TMPDIR`
//! names: its disk decides.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark stops where something is not as it must be"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_proto::json;
use slotwise_proto::v1::CatalogRecord;
use slotwise_server::catalog::ImportOptions;
use slotwise_server::telemetry::Metric;
use slotwise_server::testing::Server;
use slotwise_server::tokens::{PriceKind, Showing, TokenKeys};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const SECONDS: f64 = 10.0;
const CONNECTIONS: usize = 256;
const ADS: u32 = 1_000;
const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
/// How often the open loop sends what is due.
const TURN: Duration = Duration::from_millis(1);

/// Makes requests, each with a token that was not used before.
struct Requests {
    keys: Arc<TokenKeys>,
    next: AtomicU64,
}

impl Requests {
    fn next(&self) -> Vec<u8> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let showing = Showing {
            decision: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            slot: 0,
            issued_at_ms: now_us() / 1_000,
            price_nanos: 2_000_000,
            price_kind: PriceKind::Click,
            on_impression: false,
            visitor: Some(u128::from(number) << 64),
            account: AccountSerial(1),
            zone: ZoneSerial(1),
            ad: AdSerial(1 + number as u32 % ADS),
        };
        let token = self.keys.seal(&showing);
        format!("GET /c/{token} HTTP/1.1\r\nHost: ads.example\r\nUser-Agent: {AGENT}\r\n\r\n")
            .into_bytes()
    }
}

fn now_us() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_micros() as i64
}

/// One connection; an answer is read whole, and has to be a redirect.
struct Caller {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Caller {
    async fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::with_capacity(1_024) }
    }

    async fn click(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
        self.buffer.clear();
        while !self.buffer.ends_with(b"\r\n\r\n") {
            assert_ne!(self.stream.read_buf(&mut self.buffer).await.unwrap(), 0, "cut off");
        }
        assert!(self.buffer.starts_with(b"HTTP/1.1 302 "), "{:?}", self.buffer);
    }
}

/// As fast as the answers come: clicks a second.
async fn closed(addr: SocketAddr, requests: &Arc<Requests>, seconds: f64) -> f64 {
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(seconds);
    let calling = |_| {
        let requests = Arc::clone(requests);
        async move {
            let (mut caller, mut clicks) = (Caller::connect(addr).await, 0_u64);
            while Instant::now() < until {
                caller.click(&requests.next()).await;
                clicks += 1;
            }
            clicks
        }
    };
    let clicks = (0..CONNECTIONS).map(calling).collect::<JoinSet<_>>().join_all().await;
    clicks.into_iter().sum::<u64>() as f64 / began.elapsed().as_secs_f64()
}

/// At a fixed rate, whatever the answers do: what each took from the instant when it was due.
async fn open(addr: SocketAddr, requests: &Arc<Requests>, rate: f64, seconds: f64) -> Vec<u64> {
    let began = Instant::now() + Duration::from_millis(100);
    let calling = |number: usize| {
        let requests = Arc::clone(requests);
        async move {
            let mut caller = Caller::connect(addr).await;
            let every = Duration::from_secs_f64(CONNECTIONS as f64 / rate);
            let mut due = began + every.mul_f64(number as f64 / CONNECTIONS as f64);
            let mut took_us = Vec::new();
            while due < began + Duration::from_secs_f64(seconds) {
                if let Some(wait) = due.checked_duration_since(Instant::now() + TURN) {
                    tokio::time::sleep(wait + TURN).await;
                }
                caller.click(&requests.next()).await;
                took_us.push(due.elapsed().as_micros() as u64);
                due += every;
            }
            took_us
        }
    };
    (0..CONNECTIONS).map(calling).collect::<JoinSet<_>>().join_all().await.concat()
}

/// How long it takes from a click's answer until it is counted, one after the other.
async fn until_counted(server: &Server, requests: &Requests, clicks: usize) -> Vec<u64> {
    let mut caller = Caller::connect(server.app().event_addr()).await;
    let counted = || server.app().counters().get(Metric::EventsCounted);
    let mut took_us = Vec::new();
    for _ in 0..clicks {
        let before = counted();
        let began = Instant::now();
        caller.click(&requests.next()).await;
        while counted() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        took_us.push(began.elapsed().as_micros() as u64);
    }
    took_us
}

/// Waits until every recorded click is counted; how long that took.
async fn drained(server: &Server) -> Duration {
    let began = Instant::now();
    let counters = server.app().counters();
    while counters.get(Metric::EventsCounted) < counters.get(Metric::EventsRecorded) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    began.elapsed()
}

fn at(sorted_us: &mut [u64], permille: usize) -> f64 {
    sorted_us.sort_unstable();
    sorted_us[(sorted_us.len() - 1) * permille / 1_000] as f64 / 1e3
}

/// A campaign with [`ADS`] ads.
async fn catalogue(server: &Server) {
    let mut records = vec![
        r#"{"account":{"accountId":"a","currency":"EUR"}}"#.to_owned(),
        r#"{"site":{"siteId":"s","accountId":"a"}}"#.to_owned(),
        r#"{"zone":{"siteId":"s","zoneId":"z"}}"#.to_owned(),
        r#"{"campaign":{"campaignId":"x:1","accountId":"a","price":{"clickMicros":"2000"}}}"#
            .to_owned(),
    ];
    records.extend((0..ADS).map(|ad| {
        format!(
            r#"{{"ad":{{"campaignId":"x:1","adUnitId":"{ad}","ecpmMicros":"1000000","landingUrl":"https://shop.example/{ad}?t={{click_token}}","zones":[{{"siteId":"s","zoneId":"z"}}]}}}}"#
        )
    }));
    let records = records
        .iter()
        .map(|record| json::from_str::<CatalogRecord>(record).unwrap().record.unwrap());
    let catalog = &server.app().admin.catalog;
    let done = catalog.import(records.collect(), ImportOptions::default(), "bench").await.unwrap();
    assert_eq!(done.problem_count, 0, "{:?}", done.problems);
    // Every ad is known by its serial before the first click.
    while server.app().showings.serials.ad(AdSerial(ADS)).is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn main() {
    // Cargo itself says `--bench`.
    let seconds = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(SECONDS);
    let runtime = |name: &str| {
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).thread_name(name.to_owned()).enable_all().build().unwrap()
    };
    let (serving, calling) = (runtime("server"), runtime("callers"));
    let server = serving.block_on(async {
        let server = Server::start().await;
        catalogue(&server).await;
        server
    });
    let keys = Arc::clone(&server.app().showings.token_keys.current());
    let requests = Arc::new(Requests { keys, next: AtomicU64::new(0) });
    let addr = server.event_addr();
    calling.block_on(async {
        closed(addr, &requests, 1.0).await;
        drained(&server).await;
        println!("clicks in the log before their 302, {CONNECTIONS} connections, {ADS} ads");
        let rate = closed(addr, &requests, seconds).await;
        let rest = drained(&server).await;
        println!(
            "closed loop: {rate:.0} clicks/s; counted {:.2} s after the last",
            rest.as_secs_f64()
        );
        for share in [0.5, 0.75] {
            let mut took_us = open(addr, &requests, rate * share, seconds).await;
            println!(
                "open loop at {:.0}/s: p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms ({} clicks)",
                rate * share,
                at(&mut took_us, 500),
                at(&mut took_us, 990),
                at(&mut took_us, 999),
                took_us.len(),
            );
            drained(&server).await;
        }
        let mut took_us = until_counted(&server, &requests, 200).await;
        println!(
            "from a click to its minute: p50 {:.0} ms, p99 {:.0} ms",
            at(&mut took_us, 500),
            at(&mut took_us, 990)
        );
    });
    serving.block_on(server.stop());
}
