//! Counters that are killed, stopped or cut off at any step of the counting transaction: what is
//! counted in the end is what was sent.
//!
//! Rounds by SLOTWISE_TEST_ROUNDS (default: 10 of each kind).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::app::SystemClock;
use slotwise_server::counting::{Job, Worker};
use slotwise_server::events::{Event, HotAds, Kind, Partition};
use slotwise_server::ports::{Clock, CountStore, Counts, MinuteQuery};
use slotwise_server::store::embedded::EmbeddedCounts;
use slotwise_server::store::postgres::PostgresCounts;
use slotwise_server::tokens::{PriceKind, Showing};
use tokio::sync::watch;

#[path = "support/memory_log.rs"]
mod memory_log;
#[path = "support/postgres.rs"]
mod postgres_server;

use memory_log::MemoryLog;
use postgres_server::PostgresServer;

const ACCOUNT: AccountSerial = AccountSerial(1);
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const BATCHES: u64 = 120;
const EVENTS: u64 = 20;
const ADS: u64 = 40;

/// Every step of the transaction.
const STEPS: [&str; 5] = [
    "count.before-ids",
    "count.after-ids",
    "count.after-sums",
    "count.before-commit",
    "count.after-commit",
];

/// What the child is to do.
const DIR: &str = "SLOTWISE_KILLS_DIR";
const URL: &str = "SLOTWISE_KILLS_URL";
const STEP: &str = "SLOTWISE_KILLS_STEP";
const HIT: &str = "SLOTWISE_KILLS_HIT";
const SIGNAL: &str = "SLOTWISE_KILLS_SIGNAL";

fn rounds() -> i64 {
    std::env::var("SLOTWISE_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10)
}

/// A log of clicks and impressions with repeats, in `dir`, and the sender's own sum.
fn prepare(dir: &Path) -> Counts {
    let (log, now_us) = (MemoryLog::default(), SystemClock.now_us());
    log.now_us.store(now_us, Ordering::SeqCst);
    let (mut sent, mut sum) = (HashSet::new(), Counts::default());
    for batch in 0..BATCHES {
        let ad = AdSerial(u32::try_from(batch % ADS).unwrap());
        let event = |n: u64| {
            // Every tenth is one of an earlier batch of the same ad, again.
            let is_repeat = n % 10 == 9 && batch >= ADS;
            let (batch, n) = if is_repeat { (batch - ADS, n - 1) } else { (batch, n) };
            let kind = if n % 3 == 0 { Kind::Click } else { Kind::Impression };
            let decision = batch * EVENTS + n;
            let showing = Showing {
                decision,
                slot: 0,
                issued_at_ms: now_us / 1_000 - i64::try_from(decision).unwrap(),
                price_nanos: 7,
                price_kind: PriceKind::Click,
                on_impression: false,
                visitor: None,
                account: ACCOUNT,
                zone: ZoneSerial(2),
                ad,
            };
            let (tag, at_us) = (String::new(), now_us - 1_000_000);
            Event { kind, showing, at_us, tag, value_micros: 0, filtered_by: None }
        };
        let events: Vec<_> = (0..EVENTS).map(event).collect();
        for event in &events {
            if sent.insert((event.showing.decision, event.kind)) {
                match event.kind {
                    Kind::Click => {
                        (sum.clicks, sum.spend_nanos) = (sum.clicks + 1, sum.spend_nanos + 7)
                    }
                    _ => sum.impressions += 1,
                }
            }
        }
        log.put(HotAds::default().partition(&events[0].showing), &events);
    }
    log.save(&dir.join("log"));
    sum
}

fn store(dir: &Path, url: Option<&str>) -> Arc<dyn CountStore> {
    match url {
        Some(url) => Arc::new(PostgresCounts::new(vec![url.parse().unwrap()]).unwrap()),
        None => Arc::new(EmbeddedCounts::open(dir).unwrap()),
    }
}

fn job(dir: &Path, url: Option<&str>, name: &str) -> (Arc<Job>, Arc<MemoryLog>) {
    let log = Arc::new(MemoryLog::load(&dir.join("log")));
    // One batch a step, so that there are many.
    log.at_once.store(1, Ordering::SeqCst);
    let job = Job {
        log: Arc::clone(&log) as _,
        counts: store(dir, url),
        clock: Arc::new(SystemClock),
        name: name.to_owned(),
        log_kept: Duration::from_secs(86_400),
        counters: Arc::default(),
    };
    (Arc::new(job), log)
}

async fn counted(store: &dyn CountStore) -> Counts {
    let query = MinuteQuery { account: ACCOUNT, ads: None, from_min: 0, until_min: i64::MAX };
    let rows = store.minutes(&query).await.unwrap();
    let minutes = rows.into_iter().fold(Counts::default(), |sum, row| {
        assert_eq!(row.late, Counts::default());
        sum.plus(row.counts)
    });
    let pairs = store.pairs(ACCOUNT, 0, 1 << 30).await.unwrap();
    let quarters = pairs.into_iter().fold(Counts::default(), |sum, pair| sum.plus(pair.counts));
    assert_eq!(minutes, quarters, "both views are of the same events");
    minutes
}

async fn is_at_the_end(job: &Job, log: &MemoryLog) -> bool {
    for partition in Partition::all() {
        match job.counts.place(partition).await {
            Ok(place) if place.position == log.end(partition) => {}
            _ => return false,
        }
    }
    true
}

/// Not a test: what the others start. Counts to the log's end, past whatever goes wrong.
#[test]
#[ignore = "a process that the others start"]
fn child() {
    let dir = std::env::var(DIR).expect("started by a test");
    let url = std::env::var(URL).ok();
    let hits = AtomicI64::new(std::env::var(HIT).unwrap().parse().unwrap());
    let signal = if std::env::var(SIGNAL).unwrap() == "STOP" { Signal::STOP } else { Signal::KILL };
    let step = std::env::var(STEP).unwrap();
    if step == "lost" {
        fail::cfg("count.after-commit", "40%return").unwrap();
    } else {
        fail::cfg_callback(step, move || {
            if hits.fetch_sub(1, Ordering::SeqCst) == 1 {
                kill_process(getpid(), signal).unwrap();
            }
        })
        .unwrap();
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (job, log) = job(Path::new(&dir), url.as_deref(), "child");
        job.counts.release("child").await.unwrap();
        let claims = job.counts.claim("child", SystemClock.now_us()).await.unwrap();
        let workers =
            claims.into_iter().map(|(claim, place)| Worker::new(job.clone(), claim, place));
        let mut workers: Vec<_> = workers.collect();
        while !is_at_the_end(&job, &log).await {
            for worker in &mut workers {
                // A worker that is fenced says so for ever.
                let _ = worker.turn().await;
            }
        }
    });
}

fn start(dir: &Path, url: Option<&str>, step: &str, hit: i64, signal: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--ignored", "--nocapture"]);
    child.env(DIR, dir).env(STEP, step).env(HIT, hit.to_string()).env(SIGNAL, signal);
    if let Some(url) = url {
        child.env(URL, url);
    }
    child.stdout(Stdio::null()).spawn().unwrap()
}

/// A number below `n`.
fn random(n: i64) -> i64 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).unwrap();
    i64::from(u32::from_le_bytes(bytes)) % n
}

/// Kills it again and again, each time a little further on, until it comes to the end.
async fn killed_at_each_step(url: impl Fn() -> Option<String>) {
    for round in 0..rounds() {
        let (dir, url) = (tempfile::tempdir().unwrap(), url());
        let sent = prepare(dir.path());
        let mut kills = 0;
        loop {
            let step = STEPS[usize::try_from((round + kills) % 5).unwrap()];
            let hit = 1 + random(40);
            let status = start(dir.path(), url.as_deref(), step, hit, "KILL").wait().unwrap();
            if status.success() {
                break;
            }
            assert!(status.code().is_none(), "it ended by itself: {status}");
            kills += 1;
        }
        assert!(kills > 0, "nothing was killed");
        assert_eq!(counted(&*store(dir.path(), url.as_deref())).await, sent, "{kills} kills");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_each_step_on_sqlite() {
    killed_at_each_step(|| None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_each_step_on_postgres() {
    let server = PostgresServer::shared();
    killed_at_each_step(|| Some(server.database())).await;
}

/// The transaction is committed, and nobody hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn replies_to_commit_that_are_lost() {
    let server = PostgresServer::shared();
    for url in [None, Some(server.database())] {
        let dir = tempfile::tempdir().unwrap();
        let sent = prepare(dir.path());
        let status = start(dir.path(), url.as_deref(), "lost", 0, "KILL").wait().unwrap();
        assert!(status.success(), "{status}");
        assert_eq!(counted(&*store(dir.path(), url.as_deref())).await, sent);
    }
}

/// Counts to the end as a running counter does.
async fn count_to_the_end(dir: &Path, url: &str, meanwhile: impl AsyncFnOnce()) {
    let (job, log) = job(dir, Some(url), "other");
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(Arc::clone(&job).run(stopped));
    meanwhile().await;
    let began = Instant::now();
    while !is_at_the_end(&job, &log).await {
        assert!(began.elapsed() < PATIENCE, "it does not come to the end");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    stop.send(true).unwrap();
    running.await.unwrap();
}

/// It stands still in the middle of a transaction, others take over, and it wakes up.
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_wakes_up_changes_nothing() {
    let server = PostgresServer::shared();
    for step in ["count.before-ids", "count.before-commit"] {
        let (dir, url) = (tempfile::tempdir().unwrap(), server.database());
        let sent = prepare(dir.path());
        let mut zombie = start(dir.path(), Some(&url), step, 5, "STOP");
        let state = format!("/proc/{}/stat", zombie.id());
        let began = Instant::now();
        let is_stopped = || std::fs::read_to_string(&state).unwrap().contains(") T ");
        while !is_stopped() {
            assert!(began.elapsed() < PATIENCE, "it does not stop");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        count_to_the_end(dir.path(), &url, async || {}).await;
        let store = store(dir.path(), Some(&url));
        assert_eq!(counted(&*store).await, sent);
        let resume = format!("kill -CONT {}", zombie.id());
        assert!(Command::new("sh").args(["-c", &resume]).status().unwrap().success());
        let status = zombie.wait().unwrap();
        assert!(status.success(), "{status}");
        assert_eq!(counted(&*store).await, sent, "after it woke up");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_restarted_in_the_middle() {
    let mut server = PostgresServer::start();
    let (dir, url) = (tempfile::tempdir().unwrap(), server.database());
    let sent = prepare(dir.path());
    count_to_the_end(dir.path(), &url, async || {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            server.kill();
            server.restart();
        }
    })
    .await;
    assert_eq!(counted(&*store(dir.path(), Some(&url))).await, sent);
}
