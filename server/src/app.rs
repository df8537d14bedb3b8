//! Wiring: which store, which threads, which doors; started in order, stopped in order.

mod clock;
mod decisions;
mod doors;
mod lock;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use slotwise_core::index::Index;

pub use clock::SystemClock;

use crate::catalog::Catalog;
use crate::config::Config;
use crate::doors::{Admin, Chooser, Users};
use crate::inflight::InFlight;
use crate::ports::{CatalogStore, Clock, ProfileStore};
use crate::refresh::{Freshness, Refresh};
use crate::store::embedded::{EmbeddedCatalog, EmbeddedProfiles};
use crate::telemetry::{Counters, Metric};
use crate::visitors::VisitorHash;
use doors::Doors;
use lock::DataDirLock;

/// How long the first load of the catalogue may take before the start says so and gives up.
const FIRST_LOAD_MAX: Duration = Duration::from_secs(300);

/// A running Slotwise.
pub struct App {
    /// What the admin door answers from.
    pub admin: Arc<Admin>,
    doors: Doors,
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

        let counters = Arc::<Counters>::default();
        let visitors = VisitorHash::new(&catalog_store.secret("visitor-hash").await?);
        let chooser = Chooser {
            index: Arc::clone(&index),
            profiles: Arc::clone(&profiles),
            clock: Arc::clone(&clock),
            visitors,
            freshness: Freshness::new(refresh.served(), config.catalog_stale_after),
            counters: Arc::clone(&counters),
        };
        let catalog = Catalog::new(catalog_store, Arc::clone(&index), Arc::clone(&clock));
        let users = Users { profiles: Arc::clone(&profiles), hash: visitors, clock };
        let served = refresh.served();
        let admin = Arc::new(Admin::new(catalog, index, served, Arc::clone(&in_flight), users));
        let doors = Doors::open(config, chooser, Arc::clone(&admin), in_flight).await?;
        let shutdown_deadline = config.shutdown_deadline;
        Ok(Self {
            admin,
            doors,
            profiles,
            counters,
            shutdown_deadline,
            _refresh: refresh,
            _lock: lock,
        })
    }

    /// Where decisions are asked for.
    pub fn decision_addr(&self) -> SocketAddr {
        self.doors.decision_addr
    }

    /// Where events are reported.
    pub fn event_addr(&self) -> SocketAddr {
        self.doors.event_addr
    }

    /// Where the catalogue is managed.
    pub fn admin_addr(&self) -> SocketAddr {
        self.doors.admin_addr
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
    pub async fn stop(self) -> anyhow::Result<bool> {
        let began = Instant::now();
        let is_finished = self.doors.close(self.shutdown_deadline).await;
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
