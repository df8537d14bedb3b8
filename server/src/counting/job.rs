//! The job that counts: it claims partitions of the log, and counts each in a task of its own, so
//! that one whose log or store stands still holds up no other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::worker::Worker;
use crate::events::Partition;
use crate::limits::CLAIM_RENEW_INTERVAL;
use crate::ports::{Claim, Clock, CountStore, EventLog, Place};
use crate::telemetry::Counters;

/// What counting needs.
pub struct Job {
    /// What is counted.
    pub log: Arc<dyn EventLog>,
    /// Where it is added up.
    pub counts: Arc<dyn CountStore>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// What this counter is called among those that share the partitions.
    pub name: String,
    /// How old a counted batch is when it is dropped from the log.
    pub log_kept: Duration,
    /// Where it says what it did.
    pub counters: Arc<Counters>,
}

/// A partition that is being counted.
struct Running {
    epoch: i64,
    task: JoinHandle<()>,
}

impl Job {
    /// Counts until `stop` says so (or nobody holds its other end any more), finishes what is in
    /// flight, and lets others have the partitions.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        // What an earlier process of this name had begins under new epochs, so that nothing of
        // that one's counts which is still under way.
        if let Err(error) = self.counts.release(&self.name).await {
            tracing::debug!(%error, "a counter that starts cannot reach the counts yet");
        }
        let mut running = HashMap::new();
        let mut is_away = false;
        loop {
            match self.counts.claim(&self.name, self.clock.now_us()).await {
                Ok(claims) => {
                    is_away = false;
                    self.follow(&mut running, claims, &stop);
                }
                // What runs goes on: the store itself says who may count.
                Err(error) => {
                    if !is_away {
                        tracing::warn!(%error, "a counter cannot renew its claims");
                    }
                    is_away = true;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(CLAIM_RENEW_INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        for Running { task, .. } in running.into_values() {
            let _ = task.await;
        }
        if let Err(error) = self.counts.release(&self.name).await {
            tracing::warn!(%error, "a counter that stops could not let go of its partitions");
        }
    }

    /// Begins what is new, and ends what is another's.
    fn follow(
        self: &Arc<Self>,
        running: &mut HashMap<Partition, Running>,
        claims: Vec<(Claim, Place)>,
        stop: &watch::Receiver<bool>,
    ) {
        let still: HashMap<_, _> =
            claims.iter().map(|(claim, _)| (claim.partition, claim.epoch)).collect();
        running.retain(|partition, running| {
            let is_ours = still.get(partition) == Some(&running.epoch);
            if !is_ours {
                // A transaction in flight ends by itself, one way or the other.
                running.task.abort();
            }
            is_ours && !running.task.is_finished()
        });
        for (claim, place) in claims {
            running.entry(claim.partition).or_insert_with(|| {
                let worker = Worker::new(Arc::clone(self), claim, place);
                Running { epoch: claim.epoch, task: tokio::spawn(worker.run(stop.clone())) }
            });
        }
    }
}
