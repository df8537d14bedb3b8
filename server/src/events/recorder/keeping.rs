//! Where a group of events goes: to the log; or, while that is away, to the disk, and from there
//! to the log later.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::events::spill::{Portion, Spill};
use crate::events::{Event, HotAds, Lost, PARTITIONS, Partition, batch};
use crate::limits::{LOG_APPEND_MAX, LOG_BATCH_EVENTS_MAX, SPILL_RETRY};
use crate::ports::{EventLog, StoreError};
use crate::telemetry::{Counters, Metric};

/// What waits in the file is on its way.
const REPLAYING: &str = "events that waited on this node's disk are on their way to the log";

/// The log, and what stands in for it.
pub(super) struct Keeping {
    log: Arc<dyn EventLog>,
    hot: Arc<ArcSwap<HotAds>>,
    spill: Spill,
    counters: Arc<Counters>,
    /// The log did not take the last that it was given.
    is_away: AtomicBool,
    /// There is something in the file.
    to_replay: Notify,
    wrong: Mutex<Wrong>,
    degraded: watch::Sender<String>,
}

/// What is wrong, in words; empty: nothing.
#[derive(Clone, Default, PartialEq, Eq)]
struct Wrong {
    log: String,
    disk: String,
}

impl Keeping {
    pub(super) fn new(
        log: Arc<dyn EventLog>,
        hot: Arc<ArcSwap<HotAds>>,
        spill: Spill,
        counters: Arc<Counters>,
    ) -> Self {
        let keeping = Self {
            log,
            hot,
            spill,
            counters,
            is_away: AtomicBool::new(false),
            to_replay: Notify::new(),
            wrong: Mutex::default(),
            degraded: watch::Sender::default(),
        };
        keeping.tell(|wrong| keeping.is_there(wrong));
        keeping
    }

    pub(super) fn degraded(&self) -> watch::Receiver<String> {
        self.degraded.subscribe()
    }

    /// Makes `events` durable, and counts what became of them.
    pub(super) async fn keep(&self, events: &[Event]) -> Result<(), Lost> {
        if events.is_empty() {
            return Ok(());
        }
        fail::fail_point!("events-before-append");
        // While the file is not empty, its replay asks the log, and nobody has to wait for that.
        let is_worth_asking = !self.is_away.load(Ordering::Acquire) || self.spill.is_empty();
        if is_worth_asking {
            match self.append(events).await {
                Ok(()) => return self.recorded(events),
                Err(error) => self.is_not_there(&error),
            }
        }
        let batches = events.chunks(LOG_BATCH_EVENTS_MAX).map(batch::encode).collect();
        let error = match self.spill.write(batches).await {
            Ok(()) => return self.spilled(events),
            Err(error) => error,
        };
        if !is_worth_asking && self.append(events).await.is_ok() {
            return self.recorded(events);
        }
        self.counters.add(Metric::EventsLost, events.len() as u64);
        let lost = format!("events are lost: their spill file cannot be written: {error}");
        if self.tell(|wrong| wrong.disk = lost) {
            tracing::error!(%error, "events are lost: neither the log nor the disk takes them");
        }
        Err(Lost)
    }

    fn recorded(&self, events: &[Event]) -> Result<(), Lost> {
        fail::fail_point!("events-after-append");
        self.is_away.store(false, Ordering::Release);
        self.counters.add(Metric::EventsRecorded, events.len() as u64);
        self.tell(|wrong| {
            self.is_there(wrong);
            wrong.disk.clear();
        });
        Ok(())
    }

    fn spilled(&self, events: &[Event]) -> Result<(), Lost> {
        fail::fail_point!("events-after-spill");
        self.counters.add(Metric::EventsSpilled, events.len() as u64);
        self.tell(|wrong| wrong.disk.clear());
        self.to_replay.notify_one();
        Ok(())
    }

    async fn append(&self, events: &[Event]) -> Result<(), StoreError> {
        let batches = batches_of(events, &self.hot.load());
        let late = |_| {
            let why = format!("no answer within {LOG_APPEND_MAX:?}");
            Err(StoreError::Unavailable(why))
        };
        timeout(LOG_APPEND_MAX, self.log.append(batches)).await.unwrap_or_else(late)
    }

    fn is_there(&self, wrong: &mut Wrong) {
        let words = if self.spill.is_empty() { "" } else { REPLAYING };
        if wrong.log != words {
            words.clone_into(&mut wrong.log);
        }
    }

    fn is_not_there(&self, error: &StoreError) {
        if !self.is_away.swap(true, Ordering::AcqRel) {
            tracing::error!(%error, "the log of events is away; events go to this node's disk");
        }
        let words =
            format!("the log of events is away, and events wait on this node's disk: {error}");
        self.tell(|wrong| wrong.log = words);
    }

    /// Tells what is wrong now; returns whether that is news.
    fn tell(&self, change: impl FnOnce(&mut Wrong)) -> bool {
        // Nothing that holds it can panic halfway.
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let before = wrong.clone();
        change(&mut wrong);
        let is_news = before != *wrong;
        if is_news {
            let parts = [wrong.log.as_str(), wrong.disk.as_str()];
            let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            self.degraded.send_replace(parts.join("; "));
        }
        is_news
    }

    /// Brings what is in the file to the log, whenever there is something; never returns.
    pub(super) async fn replay(self: Arc<Self>) {
        loop {
            match self.replay_portion().await {
                Ok(true) => {}
                Ok(false) => self.to_replay.notified().await,
                Err(failed) => {
                    match failed {
                        Failed::Log(error) => self.is_not_there(&error),
                        Failed::Disk(error) => {
                            let words = format!("a spill file of events cannot be read: {error}");
                            self.tell(|wrong| wrong.disk = words);
                        }
                    }
                    tokio::time::sleep(SPILL_RETRY).await;
                }
            }
        }
    }

    /// Returns whether there was any.
    async fn replay_portion(&self) -> Result<bool, Failed> {
        let Some(portion) = self.spill.next().await.map_err(Failed::Disk)? else {
            return Ok(false);
        };
        let Portion { events, damaged, .. } = &portion;
        for part in events.chunks(LOG_BATCH_EVENTS_MAX) {
            self.append(part).await.map_err(Failed::Log)?;
        }
        if !events.is_empty() && self.is_away.swap(false, Ordering::AcqRel) {
            tracing::info!("the log of events is there; what waited on this node's disk follows");
        }
        self.spill.done(&portion).await.map_err(Failed::Disk)?;
        self.counters.add(Metric::SpillFramesDamaged, *damaged);
        if !self.is_away.load(Ordering::Acquire) {
            self.tell(|wrong| self.is_there(wrong));
        }
        Ok(true)
    }
}

/// What a replay failed at.
enum Failed {
    Log(StoreError),
    Disk(io::Error),
}

/// Events by partition, in their order.
fn batches_of(events: &[Event], hot: &HotAds) -> Vec<(Partition, Vec<u8>)> {
    let mut by_partition = [const { Vec::<&Event>::new() }; PARTITIONS as usize];
    for event in events {
        let Partition(partition) = hot.partition(&event.showing);
        by_partition[usize::from(partition)].push(event);
    }
    let parts = Partition::all().zip(&by_partition).flat_map(|(partition, events)| {
        let chunks = events.chunks(LOG_BATCH_EVENTS_MAX);
        chunks.map(move |chunk| (partition, batch::encode(chunk.iter().copied())))
    });
    parts.collect()
}
