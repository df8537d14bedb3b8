//! The role that counts, on a thread of its own: it shares no core's runtime with decisions.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::watch;

use crate::config::{Config, CountsChoice, StoreChoice};
use crate::counting::Job;
use crate::ports::{Clock, CountStore, EventLog};
use crate::store::embedded::EmbeddedCounts;
use crate::store::postgres::PostgresCounts;
use crate::telemetry::Counters;

/// How often a stop looks whether it is over.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The counts, and the thread that counts into them where this process does.
pub struct Counting {
    counts: Arc<dyn CountStore>,
    running: Option<Running>,
}

struct Running {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Counting {
    /// Opens the counts that `config` names, and starts to count `log` if it says so. A server
    /// that is away is waited for by whoever asks it something, not here.
    ///
    /// # Errors
    /// When the embedded counts cannot be opened, or there is no thread to be had.
    pub fn start(
        config: &Config,
        node: &str,
        log: Arc<dyn EventLog>,
        clock: Arc<dyn Clock>,
        counters: Arc<Counters>,
    ) -> anyhow::Result<Self> {
        let counts: Arc<dyn CountStore> = match &config.counts {
            CountsChoice::Embedded => {
                let at = || format!("data_dir = {:?}", config.data_dir.display());
                Arc::new(EmbeddedCounts::open(&config.data_dir).with_context(at)?)
            }
            CountsChoice::Postgres(servers) => {
                let servers = servers.iter().map(|server| server.0.clone()).collect();
                Arc::new(PostgresCounts::new(servers)?)
            }
        };
        if !config.is_counting {
            let is_private = matches!(config.counts, CountsChoice::Embedded);
            if is_private && matches!(config.store, StoreChoice::Redis { .. }) {
                tracing::warn!(
                    "events are not counted here: with store = redis, counts must name a \
                     PostgreSQL that the nodes share"
                );
            }
            return Ok(Self { counts, running: None });
        }
        let job = Arc::new(Job {
            log,
            counts: Arc::clone(&counts),
            clock,
            name: node.to_owned(),
            log_kept: config.log_kept,
            counters,
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("count-worker")
            .enable_all()
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let count = move || runtime.block_on(job.run(stopped));
        let thread = std::thread::Builder::new().name("count".to_owned()).spawn(count)?;
        Ok(Self { counts, running: Some(Running { stop, thread }) })
    }

    /// Where it is counted.
    pub fn counts(&self) -> Arc<dyn CountStore> {
        Arc::clone(&self.counts)
    }

    /// Finishes the transactions in flight and lets others have the partitions; for at most
    /// `deadline`. What is not counted by then is counted at the next start.
    pub async fn stop(&self, deadline: Duration) {
        let Some(running) = &self.running else {
            return;
        };
        // Nobody hears it: the thread is over already.
        let _ = running.stop.send(true);
        let began = Instant::now();
        while !running.thread.is_finished() {
            if began.elapsed() >= deadline {
                tracing::warn!("counting did not stop in time");
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
