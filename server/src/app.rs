//! Wiring: which store, which threads, which doors; started in order, stopped in order.

mod clock;
mod counter;
mod doors;
mod estimates;
mod guards;
mod identity;
mod ledger;
mod lock;
mod recording;
mod showings;
mod standing;
mod stores;
mod threads;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use slotwise_core::index::Index;
use tokio::task::JoinHandle;

pub use clock::SystemClock;
pub use counter::Counting;
pub use ledger::LedgerPlane;
pub use recording::Recording;
pub use showings::Showings;

use crate::catalog::Catalog;
use crate::config::Config;
use crate::doors::{Admin, Chooser, Users};
use crate::fleet::{Fleet, Senses};
use crate::inflight::InFlight;
use crate::kills::Kills;
use crate::ports::{Clock, ProfileStore};
use crate::refresh::{Freshness, Node, Refresh, wait_for_check};
use crate::telemetry::{Counters, Metric};
use crate::visitors::VisitorHash;
use doors::Doors;
use guards::Guards;
use lock::DataDirLock;
use stores::{FIRST_LOAD_MAX, Stores};

/// A running Slotwise.
pub struct App {
    /// What the admin door answers from.
    pub admin: Arc<Admin>,
    /// What records and counts events.
    pub ledger: LedgerPlane,
    /// What decisions and events share.
    pub showings: Showings,
    doors: Doors,
    profiles: Arc<dyn ProfileStore>,
    counters: Arc<Counters>,
    shutdown_deadline: Duration,
    tasks: Vec<JoinHandle<()>>,
    // Dropped last, in this order.
    _refresh: Refresh,
    _lock: DataDirLock,
}

impl Drop for App {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl App {
    /// Starts everything; every door answers when this returns.
    ///
    /// # Errors
    /// When a certificate, a key or the identities will not do, the data directory or an address
    /// cannot be had, or there is no catalogue: neither in the store nor on this node's disk.
    pub async fn start(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let mut guards = Guards::read(config)?;
        let dir = &config.data_dir;
        let at = || format!("data_dir = {:?}", dir.display());
        std::fs::create_dir_all(dir).with_context(at)?;
        let lock = DataDirLock::take(dir).with_context(at)?;
        let mut stores = Stores::open(config, Arc::clone(&clock)).await?;

        let node = own_node(config)?;
        let refresh = Refresh::start(
            Arc::clone(&stores.catalog),
            node.clone(),
            stores.disk.take(),
            Arc::clone(&clock),
        )?;
        let counters = Arc::<Counters>::default();
        let ledger = LedgerPlane::start(config, &stores, &node, &clock, &counters)?;
        let senses = Senses {
            served: refresh.served(),
            profiles: stores.profiles.degraded(),
            events: ledger.recording.degraded.clone(),
            forgets: stores.profiles.forgets(),
            clock: Arc::clone(&clock),
        };
        let fleet = Arc::new(Fleet::new(Arc::clone(&stores.nodes), node.id.clone(), senses));
        first_load(&refresh).await?;
        fleet.report().await;
        if stores.is_shared {
            // What was changed by somebody who did not know of this node yet is seen before
            // anybody can ask here.
            wait_for_check(&mut refresh.served()).await;
        }

        let showings = Showings::new(config, &mut guards, &stores, &node, &counters)?;
        let visitors = VisitorHash::new(&stores.visitor_secret);
        let chooser = Chooser {
            mint: showings.mint(config),
            index: Arc::clone(&node.index),
            profiles: Arc::clone(&stores.profiles),
            clock: Arc::clone(&clock),
            visitors,
            freshness: Freshness::new(refresh.served(), config.catalog_stale_after),
            counters: Arc::clone(&counters),
        };
        let events = showings.events(config, &stores, ledger.recorder(), &clock, &counters)?;
        let catalog = Catalog::new(stores.catalog, Arc::clone(&node.index), Arc::clone(&clock));
        let users = Users { profiles: Arc::clone(&stores.profiles), hash: visitors, clock };
        let in_flight = Arc::clone(&node.in_flight);
        let served = refresh.served();
        let reports = ledger.ledger(&node);
        let admin = Admin::new(catalog, node, served, Arc::clone(&fleet), users, reports);
        let admin = Arc::new(admin);
        let doors =
            Doors::open(config, guards, chooser, events, Arc::clone(&admin), in_flight).await?;
        let tasks = vec![
            fleet.beat(),
            standing::write_back(Arc::clone(&admin)),
            doors.follow_health(fleet.degraded()),
        ];
        let shutdown_deadline = config.shutdown_deadline;
        Ok(Self {
            admin,
            ledger,
            showings,
            doors,
            profiles: stores.profiles,
            counters,
            shutdown_deadline,
            tasks,
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

    /// Makes all events and exposures so far durable.
    ///
    /// # Errors
    /// When the disk or the store refuses the exposures.
    pub async fn flush(&self) -> anyhow::Result<()> {
        self.ledger.recording.flush().await;
        Ok(self.profiles.flush().await?)
    }

    /// Stops: takes no more calls, finishes those in flight, writes what is to be written. Ends
    /// inside the configured deadline, even where a peer never speaks. Returns whether every
    /// call was finished.
    ///
    /// # Errors
    /// When exposures could not be written.
    pub async fn stop(mut self) -> anyhow::Result<bool> {
        let began = Instant::now();
        let is_finished = self.doors.close(self.shutdown_deadline).await;
        self.tasks.iter().for_each(JoinHandle::abort);
        self.admin.fleet.leave().await;
        let left = self.shutdown_deadline.saturating_sub(began.elapsed());
        // The disk gets its time even where the callers took it all.
        let left = left.max(Duration::from_secs(1));
        let flush = tokio::time::timeout(left, self.flush());
        let flushed = flush.await;
        self.ledger.stop(left / 4).await;
        flushed.context("events or exposures were not written in time")??;
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

/// What this node has of its own, with nothing loaded yet.
fn own_node(config: &Config) -> anyhow::Result<Node> {
    let dir = &config.data_dir;
    let index = Arc::new(Index::default());
    let kills = Kills::open(dir.join("kills"), &index);
    Ok(Node {
        id: identity::node_id(config.node_id.as_deref(), dir)?,
        kills: Arc::new(kills.with_context(|| format!("data_dir = {:?}", dir.display()))?),
        in_flight: Arc::new(InFlight::default()),
        serials: Arc::default(),
        index,
    })
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
