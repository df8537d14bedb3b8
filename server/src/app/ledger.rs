//! The ledger plane of this node: what records events, adds up estimates, and counts.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::counter::Counting;
use super::estimates::Estimates;
use super::recording::Recording;
use super::stores::Stores;
use crate::config::Config;
use crate::doors::Ledger;
use crate::events::{HotAds, Recorder};
use crate::limits::HOT_POLL_INTERVAL;
use crate::ports::{Clock, CountStore};
use crate::refresh::Node;
use crate::telemetry::Counters;

/// See the module.
pub struct LedgerPlane {
    /// What the event doors record with.
    pub recording: Recording,
    /// Where it is counted, and what counts.
    pub counting: Counting,
    estimates: Estimates,
    following: JoinHandle<()>,
}

impl LedgerPlane {
    /// Starts all of it.
    ///
    /// # Errors
    /// When the spill file or the embedded counts cannot be had.
    pub(super) fn start(
        config: &Config,
        stores: &Stores,
        node: &Node,
        clock: &Arc<dyn Clock>,
        counters: &Arc<Counters>,
    ) -> anyhow::Result<Self> {
        let log = Arc::clone(&stores.log);
        let recording = Recording::open(config, Arc::clone(&log), counters)?;
        let serials = Arc::clone(&node.serials);
        let estimates = Estimates::start(Arc::clone(&stores.increments), serials, counters)?;
        let (clock, counters) = (Arc::clone(clock), Arc::clone(counters));
        let counting = Counting::start(config, &node.id, log, clock, counters)?;
        let following = tokio::spawn(follow(counting.counts(), Arc::clone(&recording.hot)));
        Ok(Self { recording, counting, estimates, following })
    }

    /// What the event door records with: it is counted in the estimates, too.
    pub(super) fn recorder(&self) -> Arc<dyn Recorder> {
        self.estimates.tallied(Arc::clone(&self.recording.recorder))
    }

    /// What reports and replays work with.
    pub(super) fn ledger(&self, node: &Node) -> Ledger {
        let serials = Arc::clone(&node.serials);
        Ledger::new(self.counting.counts(), serials, Arc::clone(&self.recording.recorder))
    }

    /// Stops counting and adding up. What is not counted by then is counted at the next start;
    /// estimates may be lost, so a store that is away is not waited for.
    pub(super) async fn stop(&mut self, deadline: Duration) {
        self.following.abort();
        let _ = tokio::time::timeout(deadline, self.estimates.stop()).await;
        self.counting.stop(deadline).await;
    }
}

impl Drop for LedgerPlane {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// Keeps `hot` as the counters have it.
async fn follow(counts: Arc<dyn CountStore>, hot: Arc<ArcSwap<HotAds>>) {
    let mut turns = tokio::time::interval(HOT_POLL_INTERVAL);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        match counts.hot_ads().await {
            Ok(found) => hot.store(Arc::new(found)),
            // What is known stays: the list changes a minute ahead.
            Err(error) => tracing::debug!(%error, "the hot ads cannot be read"),
        }
    }
}
