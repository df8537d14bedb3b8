use std::collections::BTreeMap;

use tokio::task::JoinSet;

use super::*;
use crate::events::tests::event;
use crate::events::{HotAd, Kind, Partition, batch};
use crate::limits::LOG_BATCH_EVENTS_MAX;
use crate::ports::{LogBatch, Position, StoreError};
use crate::telemetry::Metric;

/// Nothing here takes so long, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Takes,
    Refuses,
    Hangs,
}

/// What one append had for each partition.
type Append = Vec<(Partition, Vec<Event>)>;

/// A log that remembers each append.
struct FakeLog {
    mood: watch::Sender<Mood>,
    /// How many appends have begun.
    begun: watch::Sender<usize>,
    appends: Mutex<Vec<Append>>,
}

#[async_trait]
impl EventLog for FakeLog {
    async fn append(&self, batches: Vec<(Partition, Vec<u8>)>) -> Result<(), StoreError> {
        self.begun.send_modify(|begun| *begun += 1);
        let mut mood = self.mood.subscribe();
        let mood = *mood.wait_for(|mood| *mood != Mood::Hangs).await.unwrap();
        if mood == Mood::Refuses {
            return Err(StoreError::Unavailable("out of order".to_owned()));
        }
        let decode = |(partition, bytes): (_, Vec<u8>)| (partition, batch::decode(&bytes).unwrap());
        self.appends.lock().unwrap().push(batches.into_iter().map(decode).collect());
        Ok(())
    }

    async fn read(&self, _: Partition, _: Position, _: usize) -> Result<Vec<LogBatch>, StoreError> {
        Ok(Vec::new())
    }

    async fn trim(&self, _: Partition, _: Position, _: i64) -> Result<u64, StoreError> {
        Ok(0)
    }
}

struct Bench {
    dir: tempfile::TempDir,
    log: Arc<FakeLog>,
    hot: Arc<ArcSwap<HotAds>>,
    counters: Arc<Counters>,
    recorder: Arc<LogRecorder>,
}

impl Bench {
    fn new(mood: Mood) -> Self {
        Self::with(mood, 1 << 20)
    }

    fn with(mood: Mood, spill_bytes_max: u64) -> Self {
        let (dir, hot) = (tempfile::tempdir().unwrap(), Arc::<ArcSwap<HotAds>>::default());
        let log = Arc::new(FakeLog {
            mood: watch::Sender::new(mood),
            begun: watch::Sender::default(),
            appends: Mutex::default(),
        });
        let counters = Arc::<Counters>::default();
        let (its_log, its_hot) = (Arc::clone(&log) as _, Arc::clone(&hot));
        let its_counters = Arc::clone(&counters);
        let recorder =
            LogRecorder::open(dir.path(), spill_bytes_max, its_log, its_hot, its_counters);
        Self { dir, log, hot, counters, recorder: Arc::new(recorder.unwrap()) }
    }

    async fn record(&self, event: Event) -> Result<(), Lost> {
        tokio::time::timeout(PATIENCE, self.recorder.record(vec![event])).await.unwrap()
    }

    /// Hands events over, each in a call of its own, in this order; returns when they wait.
    fn hand_over(&self, events: impl IntoIterator<Item = Event>) -> JoinSet<Result<(), Lost>> {
        let mut calls = JoinSet::new();
        for event in events {
            let outcome = self.recorder.desk.add(&mut vec![event]).unwrap();
            calls.spawn(async move {
                outcome.clone().wait_for(Option::is_some).await.unwrap().unwrap()
            });
        }
        calls
    }

    async fn begun(&self, appends: usize) {
        let mut begun = self.log.begun.subscribe();
        let begun = begun.wait_for(|begun| *begun >= appends);
        tokio::time::timeout(PATIENCE, begun).await.unwrap().unwrap();
    }

    async fn degraded(&self, is_right: impl FnMut(&String) -> bool) -> String {
        let mut degraded = self.recorder.degraded();
        let degraded = tokio::time::timeout(PATIENCE, degraded.wait_for(is_right));
        degraded.await.unwrap().unwrap().clone()
    }

    /// What is in the log, in order.
    fn logged(&self) -> Vec<Event> {
        let appends = self.log.appends.lock().unwrap();
        appends.iter().flatten().flat_map(|(_, events)| events.clone()).collect()
    }

    fn counts(&self) -> [u64; 3] {
        [Metric::EventsRecorded, Metric::EventsSpilled, Metric::EventsLost]
            .map(|metric| self.counters.get(metric))
    }
}

fn click(number: u64) -> Event {
    event(Kind::Click, number, 0)
}

#[tokio::test]
async fn callers_share_an_append() {
    let bench = Bench::new(Mood::Hangs);
    let mut calls = bench.hand_over([click(0)]);
    bench.begun(1).await;
    let more = bench.hand_over((1..=100).map(click));
    bench.log.mood.send_replace(Mood::Takes);
    assert_eq!(calls.join_next().await.unwrap().unwrap(), Ok(()));
    assert_eq!(more.join_all().await, vec![Ok(()); 100]);
    let appends = bench.log.appends.lock().unwrap().clone();
    let sizes: Vec<usize> = appends
        .iter()
        .map(|batches| batches.iter().map(|(_, events)| events.len()).sum())
        .collect();
    assert_eq!(sizes, [1, 100]);
    assert_eq!(appends[1][0].1, (1..=100).map(click).collect::<Vec<_>>(), "in their order");
    assert_eq!(bench.counts(), [101, 0, 0]);
}

#[tokio::test]
async fn each_event_goes_to_its_partition() {
    let bench = Bench::new(Mood::Takes);
    let hot_ad = slotwise_core::model::AdSerial(7);
    let hot = HotAds::new(vec![HotAd { ad: hot_ad, from_ms: 0, until_ms: i64::MAX }]);
    bench.hot.store(Arc::new(hot.clone()));
    let events: Vec<Event> = (0..20_000)
        .map(|n| {
            let mut event = click(n);
            event.showing.ad.0 = u32::try_from(n % 10).unwrap();
            event
        })
        .collect();
    bench.recorder.record(events.clone()).await.unwrap();
    let mut expected: BTreeMap<Partition, Vec<Event>> = BTreeMap::new();
    for event in events {
        expected.entry(hot.partition(&event.showing)).or_default().push(event);
    }
    let mut found: BTreeMap<Partition, Vec<Event>> = BTreeMap::new();
    for (partition, events) in bench.log.appends.lock().unwrap().concat() {
        assert!(events.len() <= LOG_BATCH_EVENTS_MAX);
        found.entry(partition).or_default().extend(events);
    }
    assert!(found == expected, "every event, in its place and order");
}

#[tokio::test]
async fn while_the_log_is_away_events_wait_on_the_disk() {
    let bench = Bench::new(Mood::Refuses);
    for number in 0..5 {
        assert_eq!(bench.record(click(number)).await, Ok(()));
    }
    assert_eq!(bench.counts(), [0, 5, 0]);
    assert!(std::fs::metadata(bench.dir.path().join("events.spill")).unwrap().len() > 0);
    let wrong = bench.degraded(|wrong| !wrong.is_empty()).await;
    assert!(wrong.contains("out of order"), "{wrong}");
    bench.log.mood.send_replace(Mood::Takes);
    bench.degraded(String::is_empty).await;
    assert_eq!(bench.logged(), (0..5).map(click).collect::<Vec<_>>(), "oldest first");
    assert_eq!(std::fs::metadata(bench.dir.path().join("events.spill")).unwrap().len(), 0);
    assert_eq!(bench.record(click(9)).await, Ok(()));
    assert_eq!(bench.counts(), [1, 5, 0], "what came by the disk is not counted again");
}

#[tokio::test]
async fn what_an_earlier_process_left_goes_to_the_log() {
    let bench = Bench::new(Mood::Refuses);
    assert_eq!(bench.record(click(1)).await, Ok(()));
    let Bench { dir, log, hot, counters, recorder } = bench;
    drop(recorder);
    log.mood.send_replace(Mood::Takes);
    let again =
        LogRecorder::open(dir.path(), 1 << 20, Arc::clone(&log) as _, Arc::clone(&hot), counters);
    let again = again.unwrap();
    let mut degraded = again.degraded();
    tokio::time::timeout(PATIENCE, degraded.wait_for(String::is_empty)).await.unwrap().unwrap();
    let appends = log.appends.lock().unwrap().concat();
    assert_eq!(appends.into_iter().flat_map(|(_, events)| events).collect::<Vec<_>>(), [click(1)]);
}

/// Waits for the real bound.
#[tokio::test]
async fn a_log_that_hangs_is_given_up() {
    let bench = Bench::new(Mood::Hangs);
    assert_eq!(bench.record(click(0)).await, Ok(()));
    assert_eq!(bench.counts(), [0, 1, 0]);
}

#[tokio::test]
async fn where_the_disk_fails_too_events_are_lost_and_counted() {
    let bench = Bench::with(Mood::Refuses, 10);
    assert_eq!(bench.record(click(0)).await, Err(Lost));
    assert_eq!(bench.recorder.record(vec![click(1), click(2)]).await, Err(Lost));
    assert_eq!(bench.counts(), [0, 0, 3]);
    let wrong = bench.degraded(|wrong| !wrong.is_empty()).await;
    assert!(wrong.contains("events are lost"), "{wrong}");
    bench.log.mood.send_replace(Mood::Takes);
    assert_eq!(bench.record(click(3)).await, Ok(()));
    assert_eq!(bench.degraded(|_| true).await, "");
    assert_eq!(bench.counts(), [1, 0, 3]);
    assert_eq!(bench.logged(), [click(3)]);
}

/// One frame fits, and is still there: the log is asked all the same before an event is lost.
#[tokio::test]
async fn a_full_disk_does_not_keep_events_from_the_log() {
    let frame = 16 + batch::encode(&[click(0)]).len() as u64;
    let bench = Bench::with(Mood::Refuses, frame);
    assert_eq!(bench.record(click(0)).await, Ok(()));
    assert_eq!(bench.record(click(1)).await, Err(Lost));
    bench.log.mood.send_replace(Mood::Takes);
    assert_eq!(bench.record(click(2)).await, Ok(()));
    bench.degraded(String::is_empty).await;
    let mut logged = bench.logged();
    logged.sort_by_key(|event| event.showing.decision);
    assert_eq!(logged, [click(0), click(2)]);
    assert_eq!(bench.counts(), [1, 1, 1]);
}

#[tokio::test]
async fn callers_wait_for_room() {
    let bench = Bench::new(Mood::Hangs);
    let first = bench.hand_over([click(0)]);
    bench.begun(1).await;
    let mut many: Vec<_> = (0..EVENTS_WAITING_MAX as u64).map(click).collect();
    let many = bench.recorder.desk.add(&mut many).expect("there is room");
    assert!(bench.recorder.desk.add(&mut vec![click(1)]).is_none(), "there is none");
    let recorder = Arc::clone(&bench.recorder);
    let waiting = tokio::spawn(async move { recorder.record(vec![click(1)]).await });
    tokio::task::yield_now().await;
    bench.log.mood.send_replace(Mood::Takes);
    assert_eq!(waiting.await.unwrap(), Ok(()));
    assert_eq!(first.join_all().await, [Ok(())]);
    assert_eq!(*many.clone().wait_for(Option::is_some).await.unwrap(), Some(Ok(())));
    assert_eq!(bench.counts(), [EVENTS_WAITING_MAX as u64 + 2, 0, 0]);
}

#[tokio::test]
async fn an_end_gives_everybody_an_outcome() {
    let bench = Bench::new(Mood::Takes);
    let calls = bench.hand_over((0..100).map(click));
    let recorder = Arc::into_inner(bench.recorder).unwrap();
    recorder.flush().await;
    drop(recorder);
    assert_eq!(calls.join_all().await, vec![Ok(()); 100]);
}

#[tokio::test]
async fn nothing_is_as_durable_as_it_gets() {
    let bench = Bench::new(Mood::Refuses);
    assert_eq!(bench.recorder.record(Vec::new()).await, Ok(()));
    assert_eq!(bench.counts(), [0, 0, 0]);
}
