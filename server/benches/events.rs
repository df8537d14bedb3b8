//! What recording events costs: calls of one event each, by callers that wait for their answers.
//!
//! `cargo bench -p slotwise-server --bench events [-- SECONDS]`. For each number of callers: calls
//! a second, how long a call took, what CPU it cost (all threads, this program's own included),
//! and how many shared an append. First with a log that does nothing, which leaves the recorder;
//! then with the embedded log, in the directory that `TMPDIR` names: its disk decides.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::app::SystemClock;
use slotwise_server::events::{Event, Kind, LogRecorder, Partition, Recorder};
use slotwise_server::ports::{EventLog, LogBatch, Position, StoreError};
use slotwise_server::store::embedded::EmbeddedLog;
use slotwise_server::telemetry::Counters;
use slotwise_server::tokens::{PriceKind, Showing};
use tokio::task::JoinSet;

const CALLERS: [usize; 4] = [1, 64, 512, 4_096];
const SECONDS: f64 = 5.0;

/// Counts appends on their way to another log, or to nowhere.
struct Counting(AtomicU64, Option<EmbeddedLog>);

#[async_trait]
impl EventLog for Counting {
    async fn append(&self, batches: Vec<(Partition, Vec<u8>)>) -> Result<(), StoreError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match &self.1 {
            Some(log) => log.append(batches).await,
            None => Ok(()),
        }
    }

    async fn read(&self, _: Partition, _: Position, _: usize) -> Result<Vec<LogBatch>, StoreError> {
        Ok(Vec::new())
    }

    async fn trim(&self, _: Partition, _: Position, _: i64) -> Result<u64, StoreError> {
        Ok(0)
    }
}

fn event(number: u64) -> Event {
    let showing = Showing {
        decision: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        slot: 0,
        issued_at_ms: 1_796_040_000_000,
        price_nanos: 2_000_000,
        price_kind: PriceKind::Click,
        on_impression: false,
        visitor: Some(u128::from(number) << 64),
        account: AccountSerial(1),
        zone: ZoneSerial(2),
        // Of a thousand ads.
        ad: AdSerial(u32::try_from(number % 1_000).unwrap()),
    };
    let (kind, at_us) = (Kind::Click, 1_796_040_001_000_000);
    Event { kind, showing, at_us, tag: String::new(), value_micros: 0, filtered_by: None }
}

/// CPU that this process has used so far, as Linux counts it.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, after)| after);
    let ticks = after_name.split(' ').skip(11).take(2).filter_map(|n| n.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

fn run(name: &str, log: Option<EmbeddedLog>, callers: usize, seconds: f64) {
    let dir = tempfile::tempdir().unwrap();
    let log = Arc::new(Counting(AtomicU64::new(0), log));
    let its_log = Arc::clone(&log) as Arc<dyn EventLog>;
    let counters = Arc::<Counters>::default();
    let recorder = LogRecorder::open(dir.path(), 0, its_log, Arc::default(), counters).unwrap();
    let recorder = Arc::new(recorder);
    let next = Arc::new(AtomicU64::new(0));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let (began, cpu_before) = (Instant::now(), cpu());
    let until = began + Duration::from_secs_f64(seconds);
    let mut took_us = runtime.unwrap().block_on(async {
        let calling = |_| {
            let (recorder, next) = (Arc::clone(&recorder), Arc::clone(&next));
            async move {
                let mut took_us = Vec::new();
                while Instant::now() < until {
                    let event = event(next.fetch_add(1, Ordering::Relaxed));
                    let began = Instant::now();
                    recorder.record(vec![event]).await.unwrap();
                    took_us.push(began.elapsed().as_micros());
                }
                took_us
            }
        };
        (0..callers).map(calling).collect::<JoinSet<_>>().join_all().await.concat()
    });
    let (elapsed, cpu) = (began.elapsed().as_secs_f64(), cpu() - cpu_before);
    took_us.sort_unstable();
    let calls = took_us.len();
    let at = |share: usize| took_us[(calls - 1) * share / 1_000] as f64 / 1e3;
    println!(
        "{name:>9} {callers:>8} {:>10.0} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>10.1}",
        calls as f64 / elapsed,
        at(500),
        at(990),
        at(999),
        cpu.as_secs_f64() * 1e6 / calls as f64,
        calls as f64 / log.0.load(Ordering::Relaxed) as f64,
    );
}

fn main() {
    // Cargo itself says `--bench`.
    let seconds = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(SECONDS);
    println!(
        "{:>9} {:>8} {:>10} {:>9} {:>9} {:>9} {:>9} {:>10}",
        "log", "callers", "calls/s", "p50 ms", "p99 ms", "p99.9 ms", "us CPU", "calls/app."
    );
    for callers in CALLERS {
        run("none", None, callers, seconds);
    }
    for callers in CALLERS {
        let dir = tempfile::tempdir().unwrap();
        let log = EmbeddedLog::open(dir.path(), Arc::new(SystemClock)).unwrap();
        run("embedded", Some(log), callers, seconds);
    }
}
