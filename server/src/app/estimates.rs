//! The estimates: sums of this process, on their way to the store.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::events::Recorder;
use crate::increments::{Flusher, Increments, Tallied};
use crate::ports::IncrementStore;
use crate::serials::Serials;
use crate::telemetry::Counters;

/// What adds up impressions and clicks.
pub(super) struct Estimates {
    increments: Arc<Increments>,
    stop: Option<oneshot::Sender<()>>,
    flushing: JoinHandle<()>,
}

impl Estimates {
    /// Begins to flush into `store`.
    pub(super) fn start(
        store: Arc<dyn IncrementStore>,
        serials: Arc<Serials>,
        counters: &Arc<Counters>,
    ) -> anyhow::Result<Self> {
        let mut sender = [0; 8];
        getrandom::fill(&mut sender)?;
        let increments = Arc::new(Increments::new(Arc::clone(counters)));
        let sums = Arc::clone(&increments);
        let flusher = Flusher::new(sums, store, serials, u64::from_le_bytes(sender));
        let (stop, stopped) = oneshot::channel();
        Ok(Self { increments, stop: Some(stop), flushing: tokio::spawn(flusher.run(stopped)) })
    }

    /// What records with `recorder`, and counts what was recorded.
    pub(super) fn tallied(&self, recorder: Arc<dyn Recorder>) -> Arc<dyn Recorder> {
        Arc::new(Tallied { recorder, increments: Arc::clone(&self.increments) })
    }

    /// Flushes once more, and ends.
    pub(super) async fn stop(&mut self) {
        drop(self.stop.take());
        let _ = (&mut self.flushing).await;
    }
}
