//! Group commit: everybody's events, one append at a time.
//!
//! Callers add their events to the group that gathers and wait for its one outcome. A thread of
//! its own takes the group when the append before it is over, so a group is as large as the load
//! makes it, and nobody waits for more than two appends. What the log does not take goes to the
//! spill file (`keeping`).

mod keeping;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use tokio::sync::{Notify, watch};

use super::spill::Spill;
use super::{Event, HotAds, Lost, Recorder};
use crate::limits::EVENTS_WAITING_MAX;
use crate::ports::EventLog;
use crate::telemetry::{Counters, spawn_vital};
use keeping::Keeping;

/// How long the end waits for a disk that hangs.
const END_WAIT: Duration = Duration::from_millis(500);

/// Records events in a log, by way of the disk where the log is away.
pub struct LogRecorder {
    desk: Arc<Desk>,
    keeping: Arc<Keeping>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// Where callers and the writer meet.
#[derive(Default)]
struct Desk {
    gathering: Mutex<Group>,
    /// There is a group to write, or an end.
    work: Notify,
    /// A group was taken: there is room.
    room: Notify,
    is_ending: AtomicBool,
}

/// Events that share their fate.
#[derive(Default)]
struct Group {
    events: Vec<Event>,
    /// One for all: no caller costs an allocation or a channel.
    outcome: watch::Sender<Option<Result<(), Lost>>>,
}

impl LogRecorder {
    /// Records in `log`, each event in its partition by `hot`; with a spill file in `dir` of up
    /// to `spill_bytes_max`. What an earlier process left in it goes to the log.
    ///
    /// # Errors
    /// When the spill file cannot be opened, or no thread can be had.
    pub fn open(
        dir: &Path,
        spill_bytes_max: u64,
        log: Arc<dyn EventLog>,
        hot: Arc<ArcSwap<HotAds>>,
        counters: Arc<Counters>,
    ) -> std::io::Result<Self> {
        let spill = Spill::open(dir, spill_bytes_max)?;
        let keeping = Arc::new(Keeping::new(log, hot, spill, counters));
        let desk = Arc::<Desk>::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (of_desk, of_keeping) = (Arc::clone(&desk), Arc::clone(&keeping));
        let writer = spawn_vital("event-log", move || {
            runtime.block_on(async {
                let replaying = Arc::clone(&of_keeping).replay();
                tokio::select! {
                    () = of_desk.write(&of_keeping) => {}
                    () = replaying => {}
                }
            });
            runtime.shutdown_timeout(END_WAIT);
        })?;
        Ok(Self { desk, keeping, writer: Mutex::new(Some(writer)) })
    }

    /// What is wrong between the events and the log, in words; empty: nothing.
    pub fn degraded(&self) -> watch::Receiver<String> {
        self.keeping.degraded()
    }

    /// Returns when everything that was handed over before has its outcome.
    pub async fn flush(&self) {
        // What an empty call waits for.
        let _ = self.record(Vec::new()).await;
    }
}

impl Drop for LogRecorder {
    fn drop(&mut self) {
        self.desk.is_ending.store(true, Ordering::Release);
        self.desk.work.notify_one();
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl Recorder for LogRecorder {
    async fn record(&self, events: Vec<Event>) -> Result<(), Lost> {
        let mut outcome = self.desk.hand_over(events).await;
        let outcome = outcome.wait_for(Option::is_some).await;
        // Without an outcome the writer has ended.
        outcome.ok().and_then(|outcome| *outcome).unwrap_or(Err(Lost))
    }
}

impl Desk {
    /// Adds `events` to the group that gathers, when there is room; returns where its outcome will
    /// be told.
    async fn hand_over(&self, mut events: Vec<Event>) -> watch::Receiver<Option<Result<(), Lost>>> {
        loop {
            // It hears of every room that is made from here on.
            let room = self.room.notified();
            if let Some(outcome) = self.add(&mut events) {
                return outcome;
            }
            room.await;
        }
    }

    fn add(&self, events: &mut Vec<Event>) -> Option<watch::Receiver<Option<Result<(), Lost>>>> {
        let mut group = self.gathering();
        if group.events.len() >= EVENTS_WAITING_MAX {
            return None;
        }
        let is_first = group.outcome.receiver_count() == 0;
        group.events.append(events);
        let outcome = group.outcome.subscribe();
        drop(group);
        if is_first {
            self.work.notify_one();
        }
        Some(outcome)
    }

    /// Writes group after group.
    async fn write(&self, keeping: &Keeping) {
        loop {
            self.work.notified().await;
            // Read before the group is taken: what came before the end is in it.
            let is_ending = self.is_ending.load(Ordering::Acquire);
            let group = std::mem::take(&mut *self.gathering());
            self.room.notify_waiters();
            let outcome = keeping.keep(&group.events).await;
            group.outcome.send_replace(Some(outcome));
            if is_ending {
                return;
            }
        }
    }

    fn gathering(&self) -> MutexGuard<'_, Group> {
        // Nothing that holds it can panic halfway.
        self.gathering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
