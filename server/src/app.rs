//! Wiring: which store, which threads, which doors; started in order, stopped in order.

mod clock;
mod decisions;
mod lock;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use slotwise_core::index::Index;
use tokio::task::JoinHandle;

pub use clock::SystemClock;

use crate::catalog::Catalog;
use crate::config::Config;
use crate::doors::{Admin, AdminDoor, Chooser, Connection, Doorman, Drain, Health, bind, server};
use crate::doors::{DecisionDoor, reflect};
use crate::inflight::InFlight;
use crate::limits::DRAIN_QUIET;
use crate::ports::{CatalogStore, Clock, ProfileStore};
use crate::refresh::Refresh;
use crate::store::embedded::{EmbeddedCatalog, EmbeddedProfiles};
use crate::telemetry::{Counters, Metric};
use decisions::DecisionThreads;
use lock::DataDirLock;

/// How long the first load of the catalogue may take before the start says so and gives up.
const FIRST_LOAD_MAX: Duration = Duration::from_secs(300);

/// The services of each door.
const DECISION_SERVICES: &[&str] = &["slotwise.v1.AdDecisionService"];
const ADMIN_SERVICES: &[&str] = &["slotwise.v1.CatalogService"];

/// A running Slotwise.
pub struct App {
    /// Where decisions are asked for.
    pub decision_addr: SocketAddr,
    /// Where events are reported.
    pub event_addr: SocketAddr,
    /// Where the catalogue is managed.
    pub admin_addr: SocketAddr,
    /// What the admin door answers from.
    pub admin: Arc<Admin>,
    drain: Drain,
    health: Vec<Health>,
    decisions: DecisionThreads,
    servers: Vec<JoinHandle<()>>,
    in_flight: Arc<InFlight>,
    profiles: Arc<dyn ProfileStore>,
    counters: Arc<Counters>,
    shutdown_deadline: Duration,
    // Dropped last, in this order.
    _refresh: Refresh,
    _lock: DataDirLock,
}

impl App {
    /// Starts everything on the embedded store; every door answers when this returns.
    ///
    /// # Errors
    /// When the data directory or an address cannot be had, or the catalogue cannot be loaded.
    pub async fn start(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let dir = &config.data_dir;
        let at = || format!("data_dir = {:?}", dir.display());
        std::fs::create_dir_all(dir).with_context(at)?;
        let lock = DataDirLock::take(dir).with_context(at)?;
        let catalog_store: Arc<dyn CatalogStore> =
            Arc::new(EmbeddedCatalog::open(dir).with_context(at)?);
        let profiles = open_profiles(dir.clone(), Arc::clone(&clock)).await.with_context(at)?;

        let (index, in_flight) = (Arc::new(Index::default()), Arc::new(InFlight::default()));
        let refresh = Refresh::start(
            Arc::clone(&catalog_store),
            Arc::clone(&index),
            Arc::clone(&in_flight),
            Arc::clone(&clock),
        )?;
        first_load(&refresh).await?;

        let (drain, counters) = (Drain::default(), Arc::<Counters>::default());
        let secret = catalog_store.secret("visitor-hash").await?;
        let visitor_key = *secret.first_chunk().ok_or_else(|| anyhow!("a secret is too short"))?;
        let stale_after_us =
            config.catalog_stale_after.and_then(|age| i64::try_from(age.as_micros()).ok());
        let chooser = Arc::new(Chooser {
            index: Arc::clone(&index),
            profiles: Arc::clone(&profiles),
            clock: Arc::clone(&clock),
            visitor_key,
            served: refresh.served(),
            stale_after_us,
            counters: Arc::clone(&counters),
        });
        let door = DecisionDoor::new(chooser, Arc::clone(&in_flight), drain.clone());
        let admin = Arc::new(Admin {
            catalog: Catalog::new(catalog_store, Arc::clone(&index), clock),
            index,
            served: refresh.served(),
        });

        let listen = |key, addr| bind(addr).with_context(|| format!("{key} = \"{addr}\""));
        let decision_listener = listen("decision_addr", config.decision_addr)?;
        let event_listener = listen("event_addr", config.event_addr)?;
        let admin_listener = listen("admin_addr", config.admin_addr)?;
        let [decision_addr, event_addr, admin_addr] =
            [&decision_listener, &event_listener, &admin_listener].map(|l| l.local_addr());

        let (decision_health, routes) = reflect(DECISION_SERVICES).await?;
        let (doorman, queues) = Doorman::new(config.decision_threads);
        let decisions = DecisionThreads::start(queues, &door, &routes)?;
        let mut servers = vec![tokio::spawn(doorman.accept(decision_listener, drain.clone()))];

        // No service stands on the event door yet: health and reflection say so, and every call
        // is answered UNIMPLEMENTED.
        let (event_health, routes) = reflect(&[]).await?;
        let (doorman, connections) = one_thread();
        let begun = drain.clone();
        servers.push(tokio::spawn(doorman.accept(event_listener, drain.clone())));
        servers.push(tokio::spawn(ended(async move {
            let connections = tokio_stream::StreamExt::map(connections, Connection::take_over);
            let until = async move { begun.begun().await };
            server().add_routes(routes).serve_with_incoming_shutdown(connections, until).await
        })));

        let (admin_health, routes) = reflect(ADMIN_SERVICES).await?;
        let (doorman, connections) = one_thread();
        let admin_door = AdminDoor::new(Arc::clone(&admin), drain.clone());
        servers.push(tokio::spawn(doorman.accept(admin_listener, drain.clone())));
        servers.push(tokio::spawn(ended(admin_door.serve(routes, connections))));

        let health = vec![decision_health, event_health, admin_health];
        for door in &health {
            door.set(true).await;
        }
        Ok(Self {
            decision_addr: decision_addr?,
            event_addr: event_addr?,
            admin_addr: admin_addr?,
            admin,
            drain,
            health,
            decisions,
            servers,
            in_flight,
            profiles,
            counters,
            shutdown_deadline: config.shutdown_deadline,
            _refresh: refresh,
            _lock: lock,
        })
    }

    /// The counts since the start.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Stops: takes no more calls, finishes those in flight, writes what is to be written. Ends
    /// inside the configured deadline, even where a peer never speaks. Returns whether every
    /// call was finished.
    ///
    /// # Errors
    /// When exposures could not be written.
    pub async fn stop(mut self) -> anyhow::Result<bool> {
        let began = Instant::now();
        for door in &self.health {
            door.set(false).await;
        }
        self.drain.begin();
        let is_finished = self.finish_calls(began).await;
        let left = self.shutdown_deadline.saturating_sub(began.elapsed());
        // The disk gets its time even where the callers took it all.
        let flush = tokio::time::timeout(left.max(Duration::from_secs(1)), self.profiles.flush());
        flush.await.context("exposures were not written in time")??;
        let counts = Metric::ALL.map(|metric| (metric, self.counters.get(metric)));
        tracing::info!(
            ?counts,
            is_finished,
            elapsed_ms = began.elapsed().as_secs_f64() * 1e3,
            "stopped"
        );
        Ok(is_finished)
    }

    /// Waits for the servers to end by themselves, or for the last answer and a moment of quiet
    /// (a peer that holds a connection and says nothing is not worth waiting for).
    async fn finish_calls(&mut self, began: Instant) -> bool {
        let mut quiet_since = Instant::now();
        loop {
            let is_over = self.decisions.are_over() && self.servers.iter().all(|s| s.is_finished());
            if is_over {
                return true;
            }
            if !self.in_flight.is_empty() {
                quiet_since = Instant::now();
            }
            if quiet_since.elapsed() >= DRAIN_QUIET {
                return true;
            }
            if began.elapsed() >= self.shutdown_deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn one_thread()
-> (Doorman, tokio_stream::wrappers::ReceiverStream<(std::net::TcpStream, crate::doors::Slot)>) {
    let (doorman, mut queues) = Doorman::new(1);
    // One was asked for.
    #[allow(clippy::expect_used)]
    (doorman, queues.pop().expect("a doorman for one thread has one queue"))
}

async fn ended(serving: impl Future<Output = Result<(), tonic::transport::Error>>) {
    if let Err(error) = serving.await {
        tracing::error!(%error, "a door has failed");
    }
}

async fn open_profiles(
    dir: PathBuf,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn ProfileStore>> {
    let opened = tokio::task::spawn_blocking(move || EmbeddedProfiles::open(&dir, clock));
    Ok(Arc::new(opened.await??))
}

async fn first_load(refresh: &Refresh) -> anyhow::Result<()> {
    let mut served = refresh.served();
    let loaded = served.wait_for(|served| served.is_loaded);
    if let Ok(loaded) = tokio::time::timeout(FIRST_LOAD_MAX, loaded).await {
        loaded.map_err(|_| anyhow!("the refresher has stopped"))?;
        return Ok(());
    }
    let reason = served.borrow().degraded_reason.clone();
    Err(anyhow!("the catalogue could not be loaded: {reason}"))
}
