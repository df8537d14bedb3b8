//! The job as it runs: from the log to the counts, round what is damaged, and past errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::app::SystemClock;
use slotwise_server::counting::{Job, Worker};
use slotwise_server::events::{Event, Kind, Partition};
use slotwise_server::ports::{
    Clock, Counts, EventLog, LogBatch, MinuteQuery, Position, StoreError,
};
use slotwise_server::store::embedded::EmbeddedCounts;
use slotwise_server::telemetry::Metric;
use slotwise_server::testing::ManualClock;
use slotwise_server::tokens::{PriceKind, Showing};
use tokio::sync::watch;

use crate::memory_log::MemoryLog;

const ACCOUNT: AccountSerial = AccountSerial(1);
const PATIENCE: Duration = Duration::from_secs(60);

fn click(decision: u64, at_us: i64, price_nanos: i64) -> Event {
    let showing = Showing {
        decision,
        slot: 0,
        issued_at_ms: at_us / 1_000,
        price_nanos,
        price_kind: PriceKind::Click,
        on_impression: false,
        visitor: None,
        account: ACCOUNT,
        zone: ZoneSerial(2),
        ad: AdSerial(3),
    };
    let tag = String::new();
    Event { kind: Kind::Click, showing, at_us, tag, value_micros: 0, filtered_by: None }
}

struct Bench {
    dir: tempfile::TempDir,
    log: Arc<MemoryLog>,
    job: Arc<Job>,
}

impl Bench {
    fn new(clock: Arc<dyn Clock>, log: impl Fn(Arc<MemoryLog>) -> Arc<dyn EventLog>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let memory = Arc::new(MemoryLog::default());
        memory.now_us.store(clock.now_us(), Ordering::SeqCst);
        let job = Arc::new(Job {
            log: log(Arc::clone(&memory)),
            counts: Arc::new(EmbeddedCounts::open(dir.path()).unwrap()),
            clock,
            name: "one".to_owned(),
            log_kept: Duration::from_secs(3_600),
            counters: Arc::default(),
        });
        Self { dir, log: memory, job }
    }

    async fn worker(&self) -> Worker {
        let claims = self.job.counts.claim("one", self.job.clock.now_us()).await.unwrap();
        let (claim, place) = claims[0];
        assert_eq!(claim.partition, Partition(0));
        Worker::new(Arc::clone(&self.job), claim, place)
    }

    async fn counts(&self) -> Counts {
        let query = MinuteQuery { account: ACCOUNT, ads: None, from_min: 0, until_min: i64::MAX };
        let rows = self.job.counts.minutes(&query).await.unwrap();
        rows.into_iter().fold(Counts::default(), |sum, row| sum.plus(row.counts).plus(row.late))
    }

    fn metric(&self, metric: Metric) -> u64 {
        self.job.counters.get(metric)
    }
}

fn clicks(count: u64, spend_nanos: i64) -> Counts {
    Counts { clicks: count, spend_nanos, ..Counts::default() }
}

const NOW_US: i64 = 1_796_040_000_000_000;

#[tokio::test]
async fn a_running_job_counts_and_leaves_its_partitions_to_the_next() {
    let bench = Bench::new(Arc::new(SystemClock), |log| log);
    let now_us = SystemClock.now_us();
    bench.log.now_us.store(now_us, Ordering::SeqCst);
    for partition in Partition::all() {
        let events: Vec<_> =
            (0..100).map(|n| click(u64::from(partition.0) << 32 | n, now_us, 2)).collect();
        bench.log.put(partition, &events);
        bench.log.put(partition, &events);
    }
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(Arc::clone(&bench.job).run(stopped));
    let began = Instant::now();
    while bench.counts().await != clicks(1_600, 3_200) {
        assert!(began.elapsed() < PATIENCE, "{:?}", bench.counts().await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.send(true).unwrap();
    running.await.unwrap();
    assert_eq!(bench.metric(Metric::EventsCounted), 1_600);
    assert_eq!(bench.metric(Metric::EventsRepeated), 1_600);
    let claims = bench.job.counts.claim("two", now_us).await.unwrap();
    assert_eq!(claims.len(), 16);
    // The same, for a minute that closes with nobody doing anything.
    assert!(bench.job.counts.promised_us().await.unwrap() >= now_us - 120_000_000);
}

/// None of it is counted, all around it is, and it is said.
#[tokio::test]
async fn a_damaged_batch_is_passed_over_and_counted_as_such() {
    let bench = Bench::new(ManualClock::new(NOW_US), |log| log);
    bench.log.put(Partition(0), &[click(1, NOW_US, 2)]);
    bench.log.put_bytes(Partition(0), b"no batch of ours".to_vec());
    bench.log.put(Partition(0), &[click(2, NOW_US, 2)]);
    let mut worker = bench.worker().await;
    worker.turn().await.unwrap();
    assert_eq!(bench.counts().await, clicks(2, 4));
    assert_eq!(bench.metric(Metric::LogBatchesSetAside), 1);
    assert_eq!(bench.job.counts.place(Partition(0)).await.unwrap().position, Position(3));
}

#[tokio::test]
async fn a_batch_whose_money_does_not_fit_holds_up_no_other() {
    let bench = Bench::new(ManualClock::new(NOW_US), |log| log);
    bench.log.put(Partition(0), &[click(1, NOW_US, 2)]);
    bench.log.put(Partition(0), &[click(2, NOW_US, i64::MAX)]);
    bench.log.put(Partition(0), &[click(3, NOW_US, 2)]);
    let mut worker = bench.worker().await;
    for _ in 0..5 {
        worker.turn().await.unwrap();
    }
    assert_eq!(bench.counts().await, clicks(2, 4));
    assert_eq!(bench.metric(Metric::LogBatchesSetAside), 1);
    assert_eq!(bench.metric(Metric::EventsCounted), 2);
}

/// A lag of three minutes: 600 clicks of 10:04 are in 10:04.
#[tokio::test]
async fn a_log_that_is_read_late_counts_in_its_own_minutes() {
    let minute_us = NOW_US / 60_000_000 * 60_000_000;
    let clock = ManualClock::new(minute_us);
    let bench = Bench::new(Arc::clone(&clock) as _, |log| log);
    for second in 0..60 {
        let at_us = minute_us + second * 1_000_000;
        bench.log.now_us.store(at_us, Ordering::SeqCst);
        let number = |n| u64::try_from(second).unwrap() << 32 | n;
        let events: Vec<_> = (0..10).map(|n| click(number(n), at_us, 1)).collect();
        bench.log.put(Partition(0), &events);
    }
    clock.set(minute_us + 240 * 1_000_000);
    let mut worker = bench.worker().await;
    worker.turn().await.unwrap();
    worker.turn().await.unwrap();
    let minute = minute_us / 60_000_000;
    let query =
        MinuteQuery { account: ACCOUNT, ads: None, from_min: minute, until_min: minute + 1 };
    let rows = bench.job.counts.minutes(&query).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].counts, rows[0].late), (clicks(600, 600), Counts::default()));
    // At the log's end the clock promises: this partition's minute is closed.
    let promised_us = bench.job.counts.place(Partition(0)).await.unwrap().promised_us;
    assert_eq!(promised_us, minute_us + 120 * 1_000_000);
}

#[tokio::test]
async fn what_is_counted_and_old_is_dropped_from_the_log() {
    let clock = ManualClock::new(NOW_US);
    let bench = Bench::new(Arc::clone(&clock) as _, |log| log);
    bench.log.put(Partition(0), &[click(1, NOW_US, 2)]);
    let mut worker = bench.worker().await;
    worker.turn().await.unwrap();
    clock.set(NOW_US + 3_600 * 1_000_000);
    worker.turn().await.unwrap();
    assert_eq!(bench.log.batches(), 1, "it is as old as it is kept");
    clock.set(NOW_US + 3_611 * 1_000_000);
    bench.log.put(Partition(0), &[click(2, NOW_US, 2)]);
    worker.turn().await.unwrap();
    assert_eq!(bench.log.batches(), 0, "both were appended so long ago");
    assert_eq!(bench.counts().await, clicks(2, 4));
}

/// A log that can be away.
struct Shaky(Arc<MemoryLog>, AtomicBool);

#[async_trait]
impl EventLog for Shaky {
    async fn append(&self, batches: Vec<(Partition, Vec<u8>)>) -> Result<(), StoreError> {
        self.0.append(batches).await
    }

    async fn read(
        &self,
        partition: Partition,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<LogBatch>, StoreError> {
        if self.1.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("away".into()));
        }
        self.0.read(partition, after, bytes_max).await
    }

    async fn trim(
        &self,
        partition: Partition,
        counted: Position,
        before_us: i64,
    ) -> Result<u64, StoreError> {
        self.0.trim(partition, counted, before_us).await
    }
}

#[tokio::test]
async fn a_log_or_a_store_that_was_away_loses_nothing() {
    let shaky: std::sync::OnceLock<Arc<Shaky>> = std::sync::OnceLock::new();
    let bench = Bench::new(ManualClock::new(NOW_US), |log| {
        Arc::clone(shaky.get_or_init(|| Arc::new(Shaky(log, AtomicBool::new(true))))) as _
    });
    bench.log.put(Partition(0), &[click(1, NOW_US, 2)]);
    let mut worker = bench.worker().await;
    worker.turn().await.unwrap_err();
    shaky.get().unwrap().1.store(false, Ordering::SeqCst);
    // The file is taken away, and put back.
    let (file, aside) = (bench.dir.path().join("counts.sqlite"), bench.dir.path().join("aside"));
    std::fs::rename(&file, &aside).unwrap();
    worker.turn().await.unwrap_err();
    worker.turn().await.unwrap_err();
    std::fs::rename(&aside, &file).unwrap();
    worker.turn().await.unwrap();
    assert_eq!(bench.counts().await, clicks(1, 2));
}
