//! From the store to the index: follows the catalogue's head, and says what is served.
//!
//! Runs on a thread of its own, as building blocks is work and must not hold up a decision.
//! Hints make it look at once; it looks every [`REFRESH_INTERVAL`] whatever it hears.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use slotwise_core::index::{Builder, Change, Index, Key};
use tokio::sync::{mpsc, watch};

use crate::catalog::change_of;
use crate::inflight::InFlight;
use crate::limits::{ANSWER_PATIENCE, REFRESH_INTERVAL};
use crate::ports::{CatalogStore, Clock, Delta, Head, Row, StoreError};
use crate::telemetry::spawn_vital;

/// What this node serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The version that every new decision is made on, and no older one is on its way.
    pub version: u64,
    /// Whether a catalogue has been loaded at all.
    pub is_loaded: bool,
    /// When the store last said that this is the newest, in microseconds of Unix time.
    pub confirmed_at_us: i64,
    /// What is wrong, in words; empty: nothing.
    pub degraded_reason: String,
    /// Rows that were found bad and are not served.
    pub quarantined_rows: u32,
}

/// Whether what is served is fresh enough to answer from.
pub struct Freshness {
    served: watch::Receiver<Served>,
    stale_after_us: Option<i64>,
}

impl Freshness {
    /// Stale when the store last confirmed the index longer ago than `stale_after`; nothing:
    /// never.
    pub fn new(served: watch::Receiver<Served>, stale_after: Option<Duration>) -> Self {
        let micros = |age: Duration| i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        Self { served, stale_after_us: stale_after.map(micros) }
    }

    /// Whether the catalogue is too old at `now_us`.
    pub fn is_stale(&self, now_us: i64) -> bool {
        self.stale_after_us.is_some_and(|stale_after_us| {
            now_us.saturating_sub(self.served.borrow().confirmed_at_us) > stale_after_us
        })
    }
}

/// The thread that keeps the index fresh; it stops when this is dropped.
pub struct Refresh {
    served: watch::Receiver<Served>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Refresh {
    /// Starts following `store` into `index`.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(
        store: Arc<dyn CatalogStore>,
        index: Arc<Index>,
        in_flight: Arc<InFlight>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let (publish, served) = watch::channel(Served::default());
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let follower = Follower {
            store,
            index,
            in_flight,
            clock,
            builder: Builder::default(),
            head: Head::default(),
            quarantined: BTreeMap::new(),
            publish,
        };
        let thread = spawn_vital("refresh", move || runtime.block_on(follower.run(stopped)))?;
        Ok(Self { served, stop, thread: Some(thread) })
    }

    /// What is served, as it changes.
    pub fn served(&self) -> watch::Receiver<Served> {
        self.served.clone()
    }
}

impl Drop for Refresh {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until `version` is served, for at most `wait`; returns whether it is.
pub async fn wait_for_version(
    served: &mut watch::Receiver<Served>,
    version: u64,
    wait: Duration,
) -> bool {
    let reached = served.wait_for(|served| served.is_loaded && served.version >= version);
    tokio::time::timeout(wait, reached).await.is_ok_and(|reached| reached.is_ok())
}

struct Follower {
    store: Arc<dyn CatalogStore>,
    index: Arc<Index>,
    in_flight: Arc<InFlight>,
    clock: Arc<dyn Clock>,
    builder: Builder,
    /// What is served.
    head: Head,
    /// Why each row that is not served is not.
    quarantined: BTreeMap<Key, String>,
    publish: watch::Sender<Served>,
}

impl Follower {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut hints = self.store.hints();
        loop {
            hints.borrow_and_update();
            let done = self.step().await;
            self.publish.send_modify(|served| match &done {
                Ok(()) => {
                    served.confirmed_at_us = self.clock.now_us();
                    served.degraded_reason.clear();
                }
                Err(error) => served.degraded_reason = error.to_string(),
            });
            if let Err(error) = done {
                tracing::warn!(%error, "the catalogue could not be refreshed; trying again");
            }
            self.builder.sweep();
            tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => return,
                _ = hints.changed() => {}
                () = tokio::time::sleep(REFRESH_INTERVAL) => {}
            }
        }
    }

    async fn step(&mut self) -> Result<(), StoreError> {
        let (version, is_loaded) = {
            let served = self.publish.borrow();
            (served.version, served.is_loaded)
        };
        let mark = self.head.mark;
        if !is_loaded {
            return self.reload().await;
        }
        if self.store.head().await?.version == version {
            return Ok(());
        }
        match self.store.delta(version, mark).await {
            Ok(delta) => {
                if self.may_mend(&delta) {
                    match self.reload().await {
                        Ok(()) => return Ok(()),
                        // A load that is refused must not hold up what changed.
                        Err(error) => tracing::warn!(%error, "what hung on a bad row stays out"),
                    }
                }
                self.apply(delta);
                Ok(())
            }
            Err(StoreError::Gap { .. }) => self.reload().await,
            Err(error) => Err(error),
        }
    }

    /// Whether the delta has a row that others name and that was not served so far. What was
    /// turned down because of it is not in the delta: only a load finds it.
    fn may_mend(&self, delta: &Delta) -> bool {
        let mends = |key: &Key| !matches!(key, Key::Ad(..)) && self.quarantined.contains_key(key);
        delta.rows.iter().any(|row| mends(&row.key))
    }

    /// Rebuilds what `delta` touches.
    fn apply(&mut self, delta: Delta) {
        let mut changes: Vec<Change> =
            delta.rows.iter().map(|row| judge(row, &mut self.quarantined)).collect();
        for key in delta.removed {
            self.quarantined.remove(&key);
            changes.push(Change::Removed(key));
        }
        let rejected = self.builder.apply(changes, delta.head.version, &self.index);
        for rejected in rejected {
            quarantine(rejected.key, rejected.why, &mut self.quarantined);
        }
        self.published(delta.head);
    }

    /// Builds everything anew beside what is served, and shows it in one go.
    async fn reload(&mut self) -> Result<(), StoreError> {
        let (sender, mut parts) = mpsc::channel::<Vec<Row>>(2);
        let (mut changes, mut quarantined, mut ads) = (Vec::new(), BTreeMap::new(), 0_u64);
        let judging = async {
            while let Some(rows) = parts.recv().await {
                for row in &rows {
                    ads += u64::from(matches!(row.key, Key::Ad(..)));
                    match judge(row, &mut quarantined) {
                        // Nothing of it is shown yet that would have to go.
                        Change::Removed(_) => {}
                        change => changes.push(change),
                    }
                }
            }
        };
        let (head, ()) = tokio::join!(self.store.load(sender), judging);
        let head = head?;
        if ads != head.ads {
            let why = format!("the load found {ads} ads where the head counts {}", head.ads);
            return Err(StoreError::Unavailable(why));
        }
        let fresh = Index::default();
        let mut builder = Builder::default();
        for rejected in builder.apply(changes, head.version, &fresh) {
            quarantine(rejected.key, rejected.why, &mut quarantined);
        }
        let was = self.publish.borrow().version;
        guard(head, builder.ads_len(), self.builder.ads_len(), was)?;
        builder.retire(self.index.adopt(&fresh));
        (self.builder, self.quarantined) = (builder, quarantined);
        tracing::info!(version = head.version, ads, "catalogue loaded");
        self.published(head);
        Ok(())
    }

    /// Says that `head` is served, once no answer from before is on its way.
    fn published(&mut self, head: Head) {
        self.head = head;
        self.in_flight.settle(ANSWER_PATIENCE);
        self.publish.send_modify(|served| {
            served.version = head.version;
            served.is_loaded = true;
            served.quarantined_rows = u32::try_from(self.quarantined.len()).unwrap_or(u32::MAX);
        });
    }
}

/// Refuses to serve less than half of the ads that are served, with no forced change behind it:
/// rows that were lost and rows that are damaged alike.
fn guard(head: Head, ads: usize, served: usize, served_version: u64) -> Result<(), StoreError> {
    if 2 * ads < served && head.forced_version <= served_version {
        return Err(StoreError::Unavailable(format!(
            "the load has {ads} sound ads where {served} are served, and no forced change says so"
        )));
    }
    Ok(())
}

/// What `row` means for the index; a bad one is taken out of sight.
fn judge(row: &Row, quarantined: &mut BTreeMap<Key, String>) -> Change {
    match change_of(row) {
        Ok(change) => {
            quarantined.remove(&row.key);
            change
        }
        Err(why) => {
            quarantine(row.key.clone(), why, quarantined);
            Change::Removed(row.key.clone())
        }
    }
}

fn quarantine(key: Key, why: String, quarantined: &mut BTreeMap<Key, String>) {
    tracing::warn!(kind = key.kind(), id = %key, why, "a bad row is not served");
    quarantined.insert(key, why);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_that_nobody_confirms_goes_stale() {
        let confirmed = Served { confirmed_at_us: 1_000_000, ..Served::default() };
        let (_keep, served) = watch::channel(confirmed);
        let freshness = Freshness::new(served.clone(), Some(Duration::from_secs(60)));
        assert!(!freshness.is_stale(61_000_000));
        assert!(freshness.is_stale(61_000_001));
        assert!(!Freshness::new(served, None).is_stale(i64::MAX), "unless told otherwise");
    }

    #[test]
    fn a_load_that_lost_ads_is_refused() {
        let head = |forced_version| Head { version: 9, forced_version, ..Head::default() };
        assert!(guard(head(0), 50, 100, 8).is_ok(), "half may go");
        assert!(guard(head(0), 49, 100, 8).is_err());
        assert!(guard(head(9), 49, 100, 8).is_ok(), "a forced change is newer");
        assert!(guard(head(8), 49, 100, 8).is_err(), "a forced change is served already");
        assert!(guard(head(0), 0, 0, 0).is_ok(), "an empty start");
    }
}
