//! Counting at size: events a second of one counter, with ten minutes of ids already there.
//!
//! `cargo bench -p slotwise-server --bench counting` counts on SQLite;
//! `-- postgres://user@host/database` on that PostgreSQL, which should be empty.
//! SLOTWISE_BENCH_IDS: ids that are there at first (default 1,000,000; ten minutes of the
//! mission's load are 41,700,000). SLOTWISE_BENCH_EVENTS: events that are timed (default
//! 1,000,000). The log is in memory, and everything in it is made from fixed rules: 1,000 ads in
//! ten zones each, Zipf-like; nine impressions to a click; one event in fifty is a repeat.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::app::SystemClock;
use slotwise_server::counting::{Job, Worker};
use slotwise_server::events::{Event, Kind, PARTITIONS, Partition, batch};
use slotwise_server::ports::{Clock, CountStore, EventLog, LogBatch, Position, StoreError};
use slotwise_server::store::embedded::EmbeddedCounts;
use slotwise_server::store::postgres::PostgresCounts;
use slotwise_server::tokens::{PriceKind, Showing};

/// Events of a batch: a group commit's at the mission's load.
const BATCH: u64 = 100;
const REPEAT_EVERY: u64 = 50;

/// A log that makes what it is asked for: batch n of partition p is always the same.
struct MadeUp {
    begin_us: i64,
    /// Batches of each partition.
    batches: AtomicU64,
    /// Batches in all partitions take so long, in microseconds.
    spacing_us: AtomicI64,
}

impl MadeUp {
    fn batch(&self, partition: Partition, number: u64) -> LogBatch {
        let at_us = self.begin_us + number as i64 * self.spacing_us.load(Ordering::Relaxed);
        let event = |n| event(partition, number * BATCH + n, at_us);
        let events: Vec<_> = (0..BATCH).map(event).collect();
        let position = Position(u128::from(number) + 1);
        LogBatch { position, appended_at_us: at_us, bytes: batch::encode(&events) }
    }
}

fn event(partition: Partition, number: u64, at_us: i64) -> Event {
    // A repeat is of the event before it.
    let number = if number % REPEAT_EVERY == 1 { number - 1 } else { number };
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let share = (mixed % 1_000_000) as f64 / 1e6;
    let ad = (1_000_f64.powf(share) as u32) * u32::from(PARTITIONS) + u32::from(partition.0);
    let showing = Showing {
        decision: mixed ^ u64::from(partition.0) << 60,
        slot: 0,
        issued_at_ms: at_us / 1_000 - 1_000 - (mixed % 5_000) as i64,
        price_nanos: 1_500,
        price_kind: PriceKind::Impression,
        on_impression: false,
        visitor: Some(u128::from(mixed)),
        account: AccountSerial(1 + ad % 20),
        zone: ZoneSerial(ad * 10 + (mixed >> 40) as u32 % 10),
        ad: AdSerial(ad),
    };
    let kind = if number % 10 == 9 { Kind::Click } else { Kind::Impression };
    Event { kind, showing, at_us, tag: String::new(), value_micros: 0, filtered_by: None }
}

#[async_trait]
impl EventLog for MadeUp {
    async fn append(&self, _: Vec<(Partition, Vec<u8>)>) -> Result<(), StoreError> {
        Err(StoreError::Full("it is made up"))
    }

    async fn read(
        &self,
        partition: Partition,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<LogBatch>, StoreError> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        for number in after.0 as u64..self.batches.load(Ordering::Relaxed) {
            let batch = self.batch(partition, number);
            bytes += batch.bytes.len();
            if !found.is_empty() && bytes > bytes_max {
                break;
            }
            found.push(batch);
        }
        Ok(found)
    }

    async fn trim(&self, _: Partition, _: Position, _: i64) -> Result<u64, StoreError> {
        Ok(0)
    }
}

/// Counts to the log's end, and says how long that took.
async fn count(job: &Arc<Job>, log: &MadeUp) -> Duration {
    let end = Position(u128::from(log.batches.load(Ordering::Relaxed)));
    let claims = job.counts.claim("bench", SystemClock.now_us()).await.unwrap();
    let began = Instant::now();
    let counting = claims.into_iter().map(|(claim, place)| {
        let mut worker = Worker::new(Arc::clone(job), claim, place);
        let counts = Arc::clone(&job.counts);
        tokio::spawn(async move {
            loop {
                worker.turn().await.unwrap();
                if counts.place(claim.partition).await.unwrap().position == end {
                    return;
                }
            }
        })
    });
    for counting in counting.collect::<Vec<_>>() {
        counting.await.unwrap();
    }
    began.elapsed()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// Resident memory of this process, in MB.
fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1_000
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let per_batch = u64::from(PARTITIONS) * BATCH;
    let ids = number("SLOTWISE_BENCH_IDS", 1_000_000) / per_batch;
    let events = number("SLOTWISE_BENCH_EVENTS", 1_000_000) / per_batch;
    let dir = tempfile::tempdir().unwrap();
    let url = std::env::args().find(|argument| argument.starts_with("postgres"));
    let counts: Arc<dyn CountStore> = match &url {
        Some(url) => Arc::new(PostgresCounts::new(vec![url.parse().unwrap()]).unwrap()),
        None => Arc::new(EmbeddedCounts::open(dir.path()).unwrap()),
    };
    // What is there at first was counted in the last nine minutes, so that none of it is old.
    let spacing_us = AtomicI64::new(540_000_000 / (ids + events).max(1) as i64);
    let begin_us = SystemClock.now_us() - 540_000_000;
    let log = Arc::new(MadeUp { begin_us, batches: AtomicU64::new(ids), spacing_us });
    let job = Arc::new(Job {
        log: Arc::clone(&log) as _,
        counts,
        clock: Arc::new(SystemClock),
        name: "bench".to_owned(),
        log_kept: Duration::from_secs(86_400),
        counters: Arc::default(),
    });
    let filled = count(&job, &log).await;
    println!("filled: {} events in {:.1} s", ids * per_batch, filled.as_secs_f64());
    log.batches.store(ids + events, Ordering::Relaxed);
    let took = count(&job, &log).await.as_secs_f64();
    let timed = events * per_batch;
    println!("counted: {timed} events in {took:.2} s, {:.0} events/s", timed as f64 / took);
    if url.is_none() {
        let size = |name: &str| std::fs::metadata(dir.path().join(name)).map_or(0, |f| f.len());
        let bytes = size("counts.sqlite") + size("counts.sqlite-wal");
        println!("on disk: {} MB; resident: {} MB", bytes / 1_000_000, resident_mb());
    }
}
