//! From the store to the index: follows the catalogue's head, and says what is served.
//!
//! Runs on a thread of its own, as building blocks is work and must not hold up a decision.
//! Hints make it look at once; it looks every [`crate::limits::REFRESH_INTERVAL`] whatever it hears.

mod follower;
mod snapshot;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use slotwise_core::index::Index;
use tokio::sync::watch;

pub use snapshot::{Snapshot, Stored};

use crate::catalog::StatusChange;
use crate::inflight::InFlight;
use crate::kills::Kills;
use crate::ports::{CatalogStore, Clock};
use crate::serials::Serials;
use crate::telemetry::spawn_vital;
use follower::Follower;

/// What this node serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The version that every new decision is made on, and no older one is on its way.
    pub version: u64,
    /// Whether a catalogue has been loaded at all.
    pub is_loaded: bool,
    /// When the store last said that this is the newest, in microseconds of Unix time.
    pub confirmed_at_us: i64,
    /// How many ads there are, sound ones only.
    pub ads: usize,
    /// How often the store has been asked so far, whatever it answered.
    pub checks: u64,
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

/// This node's copy of the catalogue, and what was in it at the start.
pub type Disk = (Snapshot, Option<Stored>);

/// What a node has of its own: its name, what it serves, which answers are on their way, and
/// what it must not show.
#[derive(Clone)]
pub struct Node {
    /// The same after a restart.
    pub id: String,
    /// What may be shown where.
    pub index: Arc<Index>,
    /// Which answers are on their way.
    pub in_flight: Arc<InFlight>,
    /// What must not be shown, whatever the catalogue says.
    pub kills: Arc<Kills>,
    /// Who is meant by a serial.
    pub serials: Arc<Serials>,
}

/// The thread that keeps the index fresh; it stops when this is dropped.
pub struct Refresh {
    served: watch::Receiver<Served>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Refresh {
    /// Starts following `store` into `index`; from `disk`, where this node keeps a copy of what
    /// it serves.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(
        store: Arc<dyn CatalogStore>,
        node: Node,
        disk: Option<Disk>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let (publish, served) = watch::channel(Served::default());
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let follower = Follower::new(store, node, disk, clock, publish);
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

/// Waits until the store has been asked once more, from beginning to end.
pub async fn wait_for_check(served: &mut watch::Receiver<Served>) {
    let checks = served.borrow().checks;
    // The first that ends may have begun before. An error: the refresher has stopped.
    let _ = served.wait_for(|served| served.checks >= checks + 2).await;
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

/// Waits until `change` is served, for at most `wait`; returns whether it is. `before` is the
/// version that was served when it was not asked for yet: where that is too high, the store went
/// back, and what is served says nothing until the store has been asked anew.
pub async fn wait_for_change(
    served: &mut watch::Receiver<Served>,
    before: u64,
    change: StatusChange,
    wait: Duration,
) -> bool {
    let waiting = async {
        if before > change.served_before_max() {
            wait_for_check(served).await;
        }
        wait_for_version(served, change.version, wait).await
    };
    tokio::time::timeout(wait, waiting).await.unwrap_or(false)
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
}
