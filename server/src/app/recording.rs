//! The way of events from the doors into the log.

use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::events::{HotAds, LogRecorder, Recorder};
use crate::ports::EventLog;
use crate::telemetry::Counters;

/// What records events, and where.
pub struct Recording {
    /// What doors hand events to.
    pub recorder: Arc<dyn Recorder>,
    /// The log itself, for who counts it.
    pub log: Arc<dyn EventLog>,
    /// The hot ads: who finds them stores them here, and later events follow.
    pub hot: Arc<ArcSwap<HotAds>>,
    /// What is wrong between the events and the log, in words; empty: nothing.
    pub degraded: watch::Receiver<String>,
    own: Arc<LogRecorder>,
    looking: JoinHandle<()>,
}

impl Recording {
    /// Records in `log`; what an earlier process could not record is on its way there when this
    /// returns.
    pub(super) fn open(
        config: &Config,
        log: Arc<dyn EventLog>,
        counters: &Arc<Counters>,
    ) -> anyhow::Result<Self> {
        let (dir, hot) = (&config.data_dir, Arc::<ArcSwap<HotAds>>::default());
        let own = LogRecorder::open(
            dir,
            config.spill_bytes_max,
            Arc::clone(&log),
            Arc::clone(&hot),
            Arc::clone(counters),
        );
        let at = || format!("the spill file in data_dir = {:?}", dir.display());
        let own = Arc::new(own.with_context(at)?);
        let looking = tokio::spawn(warn_of_weakness(Arc::clone(&log)));
        let (recorder, degraded) = (Arc::clone(&own) as Arc<dyn Recorder>, own.degraded());
        Ok(Self { recorder, log, hot, degraded, own, looking })
    }

    /// Returns when all that was handed over is durable, or lost.
    pub async fn flush(&self) {
        self.own.flush().await;
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

/// Once, as nobody changes how a store is set up from one minute to the next. Nobody waits for it:
/// the store may be away.
async fn warn_of_weakness(log: Arc<dyn EventLog>) {
    if let Some(weakness) = log.weakness().await {
        tracing::warn!(weakness, "an acknowledged click may be lost where its log dies");
    }
}
