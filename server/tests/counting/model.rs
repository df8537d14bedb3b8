//! Random logs, counted by the job, against a plain restatement of what counting means:
//!
//! - a partition promises, with each event, two minutes before it, or before the log's own time
//!   where the event is stamped later; at the log's end, two minutes before the clock; and what is
//!   older than the promise is late;
//! - an event is one by its kind, showing and (for conversions and lines of files) tag: the first
//!   in the log counts, in the minute that it is stamped with;
//! - what bots did is not counted; money is the token's price for the kind that is paid.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::counting::{Job, Turn, Worker};
use slotwise_server::events::{Event, HotAd, HotAds, Kind, Partition};
use slotwise_server::ports::{Counts, MinuteQuery, MinuteRow, PairRow};
use slotwise_server::store::embedded::EmbeddedCounts;
use slotwise_server::testing::ManualClock;
use slotwise_server::tokens::{PriceKind, Showing};

use crate::memory_log::MemoryLog;

const BEGIN_S: i64 = 1_796_000_000;
const S: i64 = 1_000_000;
const ACCOUNT: AccountSerial = AccountSerial(1);

/// What happens, in order.
#[derive(Clone, Debug)]
enum Op {
    /// The clock goes on by so many seconds.
    Pass(u8),
    /// An event comes: of one of few showings, so that there are repeats.
    Comes { kind: u8, decision: u8, tag: u8, behind_s: i16, is_bot: bool },
    /// What came since is appended: in batches of so many events.
    Append(u8),
    /// Ten seconds later, the counters read to the log's end.
    CatchUp,
    /// They read a little: so many batches at once.
    CountSome(u8),
    /// They are started anew.
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    // Mostly a little behind; some late, some of the future.
    let behind = prop_oneof![6 => 0_i16..30, 3 => 60_i16..400, 1 => -300_i16..0, 1 => Just(7_000)];
    let comes = (0_u8..3, 0_u8..40, 0_u8..3, behind, prop::bool::weighted(0.1)).prop_map(
        |(kind, decision, tag, behind_s, is_bot)| Op::Comes {
            kind,
            decision,
            tag,
            behind_s,
            is_bot,
        },
    );
    prop_oneof![
        12 => comes,
        2 => (0_u8..20).prop_map(Op::Pass),
        2 => (1_u8..6).prop_map(Op::Append),
        1 => Just(Op::CatchUp),
        1 => (1_u8..4).prop_map(Op::CountSome),
        1 => Just(Op::Restart),
    ]
}

fn event(kind: u8, decision: u8, tag: u8, at_us: i64, is_bot: bool) -> Event {
    let price_kind =
        [PriceKind::Free, PriceKind::Impression, PriceKind::Click, PriceKind::Conversion];
    let showing = Showing {
        // Two ads of one decision.
        decision: u64::from(decision / 2),
        slot: u16::from(decision % 2),
        issued_at_ms: (BEGIN_S - 40 + i64::from(decision)) * 1_000,
        price_nanos: 1_000 + i64::from(decision),
        price_kind: price_kind[usize::from(decision % 4)],
        on_impression: false,
        visitor: None,
        account: ACCOUNT,
        zone: ZoneSerial(u32::from(decision % 3)),
        ad: AdSerial(u32::from(decision % 5)),
    };
    let kind = [Kind::Impression, Kind::Click, Kind::Conversion][usize::from(kind)];
    // Lines of files are rarer than plain events.
    let tag = match (kind, tag) {
        (Kind::Conversion, tag) => format!("order {tag}"),
        (_, 2) => "file:2".to_owned(),
        _ => String::new(),
    };
    let filtered_by = is_bot.then(|| "bots".to_owned());
    Event { kind, showing, at_us, tag, value_micros: 0, filtered_by }
}

/// The restatement.
#[derive(Default)]
struct Model {
    promises: HashMap<Partition, i64>,
    known: HashSet<(Kind, u64, u16, String)>,
    minutes: BTreeMap<i64, MinuteRow>,
    quarters: BTreeMap<(i64, ZoneSerial, AdSerial), Counts>,
}

impl Model {
    fn promises(&mut self, partition: Partition, us: i64) {
        let promise = self.promises.entry(partition).or_insert(i64::MIN);
        *promise = (*promise).max(us - 120 * S);
    }

    fn takes(&mut self, partition: Partition, event: &Event, log_us: i64) {
        let promised = self.promises.get(&partition).copied();
        let is_late = promised.is_some_and(|promised| event.at_us < promised);
        self.promises(partition, event.at_us.min(log_us));
        let Showing { decision, slot, zone, ad, .. } = event.showing;
        let is_bot = event.filtered_by.is_some();
        if is_bot || !self.known.insert((event.kind, decision, slot, event.tag.clone())) {
            return;
        }
        let paid = match event.showing.price_kind {
            PriceKind::Free => None,
            PriceKind::Impression => Some(Kind::Impression),
            PriceKind::Click => Some(Kind::Click),
            PriceKind::Conversion => Some(Kind::Conversion),
        };
        let minute = event.at_us.div_euclid(60 * S);
        let (counts, late) = Default::default();
        let row = self.minutes.entry(minute).or_insert(MinuteRow { minute, counts, late });
        let quarter = self.quarters.entry((minute.div_euclid(15), zone, ad)).or_default();
        for sum in [if is_late { &mut row.late } else { &mut row.counts }, quarter] {
            match event.kind {
                Kind::Impression => sum.impressions += 1,
                Kind::Click => sum.clicks += 1,
                Kind::Conversion => sum.conversions += 1,
            }
            sum.spend_nanos += if paid == Some(event.kind) { event.showing.price_nanos } else { 0 };
        }
    }
}

/// The real thing, with its log and clock.
struct Real {
    job: Arc<Job>,
    log: Arc<MemoryLog>,
    clock: Arc<ManualClock>,
    workers: Vec<Worker>,
    _dir: tempfile::TempDir,
}

impl Real {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = Arc::new(MemoryLog::default());
        let clock = ManualClock::new(BEGIN_S * S);
        let job = Arc::new(Job {
            log: Arc::clone(&log) as _,
            counts: Arc::new(EmbeddedCounts::open(dir.path()).unwrap()),
            clock: Arc::clone(&clock) as _,
            name: "one".to_owned(),
            log_kept: Duration::from_secs(3_600),
            counters: Arc::default(),
        });
        let mut real = Self { job, log, clock, workers: Vec::new(), _dir: dir };
        real.restart().await;
        real
    }

    async fn restart(&mut self) {
        let claims = self.job.counts.claim("one", BEGIN_S * S).await.unwrap();
        let worker = |(claim, place)| Worker::new(Arc::clone(&self.job), claim, place);
        self.workers = claims.into_iter().map(worker).collect();
    }

    /// Every partition reads once.
    async fn turns(&mut self) {
        for worker in &mut self.workers {
            let turn = worker.turn().await.unwrap();
            assert_eq!(turn, Turn::Little, "the log is small");
        }
    }
}

/// Routes and appends what came; `batch` events at once.
fn append(
    waiting: &mut Vec<Event>,
    batch: usize,
    hot: &HotAds,
    now_us: i64,
    model: &mut Model,
    log: &MemoryLog,
) {
    log.now_us.store(now_us, Ordering::SeqCst);
    let mut parts = BTreeMap::<Partition, Vec<Event>>::new();
    for event in waiting.drain(..) {
        let partition = hot.partition(&event.showing);
        model.takes(partition, &event, now_us);
        parts.entry(partition).or_default().push(event);
    }
    for (partition, events) in parts {
        events.chunks(batch).for_each(|events| log.put(partition, events));
    }
}

async fn run(ops: &[Op], hot: &HotAds) {
    let (mut real, mut model) = (Real::start().await, Model::default());
    let (mut now_us, mut waiting) = (BEGIN_S * S, Vec::new());
    for op in ops.iter().chain(&[Op::Append(3), Op::CatchUp]) {
        match *op {
            Op::Pass(seconds) => now_us += i64::from(seconds) * S,
            Op::Comes { kind, decision, tag, behind_s, is_bot } => {
                let at_us = now_us - i64::from(behind_s) * S;
                waiting.push(event(kind, decision, tag, at_us, is_bot));
            }
            Op::Append(batch) => {
                append(&mut waiting, batch.into(), hot, now_us, &mut model, &real.log);
            }
            Op::CatchUp => {
                now_us += 10 * S;
                real.clock.set(now_us);
                real.log.at_once.store(2, Ordering::SeqCst);
                catch_up(&mut real).await;
                Partition::all().for_each(|partition| model.promises(partition, now_us));
            }
            Op::CountSome(batches) => {
                real.clock.set(now_us);
                real.log.at_once.store(batches.into(), Ordering::SeqCst);
                some(&mut real).await;
            }
            Op::Restart => real.restart().await,
        }
    }
    let counts = &real.job.counts;
    let query = MinuteQuery { account: ACCOUNT, ads: None, from_min: 0, until_min: i64::MAX };
    let rows = counts.minutes(&query).await.unwrap();
    assert_eq!(rows, model.minutes.into_values().collect::<Vec<_>>());
    let mut quarters: Vec<i64> = model.quarters.keys().map(|(quarter, _, _)| *quarter).collect();
    quarters.dedup();
    for quarter in quarters {
        let pairs = counts.pairs(ACCOUNT, quarter * 15, quarter * 15 + 15).await.unwrap();
        let of = model.quarters.iter().filter(|((of, _, _), _)| *of == quarter);
        let expected =
            of.map(|((_, zone, ad), counts)| PairRow { zone: *zone, ad: *ad, counts: *counts });
        assert_eq!(pairs, expected.collect::<Vec<_>>());
    }
    let promised = model.promises.values().min().copied();
    assert_eq!(counts.promised_us().await.unwrap(), promised.unwrap());
}

async fn catch_up(real: &mut Real) {
    let most = real.log.batches() / 2 + 2;
    for _ in 0..most {
        real.turns().await;
    }
}

/// One read of each partition that has something left: where the log ends a promise is due, and
/// this is not about those.
async fn some(real: &mut Real) {
    for (partition, worker) in Partition::all().zip(&mut real.workers) {
        let place = real.job.counts.place(partition).await.unwrap();
        if place.position < real.log.end(partition) {
            worker.turn().await.unwrap();
        }
    }
}

/// Ads 0 and 1 are hot for a part of the time in which tokens are issued.
fn hot_ads() -> HotAds {
    let entry = |ad, from: i64, until: i64| HotAd {
        ad: AdSerial(ad),
        from_ms: (BEGIN_S - 40 + from) * 1_000,
        until_ms: (BEGIN_S - 40 + until) * 1_000,
    };
    HotAds::new(vec![entry(0, 10, 25), entry(1, 20, 1_000), entry(0, 30, 35)])
}

/// Cases of this test.
fn cases() -> u32 {
    std::env::var("SLOTWISE_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_job_counts_what_the_rules_say(ops in prop::collection::vec(op(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run(&ops, &hot_ads()));
    }
}
