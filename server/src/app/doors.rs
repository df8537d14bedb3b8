//! The three doors: opened together, closed together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::guards::Guards;
use super::threads::DoorThreads;
use crate::config::Config;
use crate::doors::{
    Admin, AdminDoor, Calls, Chooser, DecisionDoor, Doorman, Drain, EventDoor, Events, Health,
    Queue, Tls, Traffic, bind, connections_max, reflect,
};
use crate::inflight::InFlight;
use crate::limits::DRAIN_QUIET;

/// The services of each door.
const DECISION_SERVICES: &[&str] = &["slotwise.v1.AdDecisionService"];
const ADMIN_SERVICES: &[&str] = &[
    "slotwise.v1.CatalogService",
    "slotwise.v1.ReplayService",
    "slotwise.v1.ReportService",
    "slotwise.v1.UserService",
];
const EVENT_SERVICES: &[&str] = &["slotwise.v1.EventService"];

/// How often a stop looks whether it is over.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The open doors.
pub(super) struct Doors {
    pub(super) decision_addr: SocketAddr,
    pub(super) event_addr: SocketAddr,
    pub(super) admin_addr: SocketAddr,
    drain: Drain,
    health: Vec<Health>,
    threads: [DoorThreads; 2],
    servers: Vec<JoinHandle<()>>,
    traffic: Vec<Arc<Traffic>>,
    calls: Calls,
}

impl Doors {
    /// Opens all three; every one answers when this returns.
    pub(super) async fn open(
        config: &Config,
        guards: Guards,
        mut chooser: Chooser,
        events: Events,
        admin: Arc<Admin>,
        in_flight: Arc<InFlight>,
    ) -> anyhow::Result<Self> {
        // All are bound before any is served, so that a taken address stops the start.
        let listen = |key: &str, addr| {
            let flag = key.replace('_', "-");
            bind(addr).with_context(|| {
                format!("{key} = \"{addr}\" cannot be had; --{flag} names another")
            })
        };
        let decisions_at = listen("decision_addr", config.decision_addr)?;
        let events_at = listen("event_addr", config.event_addr)?;
        let admin_at = listen("admin_addr", config.admin_addr)?;
        let (decision_addr, event_addr, admin_addr) =
            (decisions_at.local_addr()?, events_at.local_addr()?, admin_at.local_addr()?);

        if chooser.mint.event_base_url.is_empty() {
            let scheme = if guards.event_tls.is_some() { "https" } else { "http" };
            chooser.mint.event_base_url = format!("{scheme}://{event_addr}");
        }
        let (decision_health, routes) = reflect(DECISION_SERVICES).await?;
        let (drain, calls) = (Drain::default(), Calls::default());
        let (doorman, queues) = Doorman::new(config.decision_threads, connections_max(2));
        let doorman = doorman.with_tls(guards.decision_tls.clone());
        let mut traffic: Vec<_> = doorman.traffic().collect();
        let door = DecisionDoor::new(Arc::new(chooser), in_flight, calls.clone(), drain.clone());
        let noop_bytes = config.noop_bytes;
        let decisions = DoorThreads::start("decide", queues, move |queue| {
            let (door, routes) = (door.clone(), routes.clone());
            async move {
                match noop_bytes {
                    None => door.serve(routes, queue).await,
                    Some(bytes) => door.serve_noop(bytes, routes, queue).await,
                }
            }
        })?;
        let mut servers = vec![tokio::spawn(doorman.accept(decisions_at, drain.clone()))];

        let (event_health, routes) = reflect(EVENT_SERVICES).await?;
        // As many as decide: the click of an ad comes from as many pages as the ad.
        let (doorman, queues) = Doorman::new(config.decision_threads, connections_max(1));
        let doorman = doorman.with_tls(guards.event_tls.clone());
        traffic.extend(doorman.traffic());
        let door = EventDoor::new(Arc::new(events), calls.clone(), drain.clone());
        let events = DoorThreads::start("events", queues, move |queue| {
            door.clone().serve(routes.clone(), queue)
        })?;
        servers.push(tokio::spawn(doorman.accept(events_at, drain.clone())));

        let (admin_health, routes) = reflect(ADMIN_SERVICES).await?;
        let connections = one_desk(admin_at, &guards.admin_tls, &drain, &mut servers, &mut traffic);
        let door = AdminDoor::new(admin, guards.identities.clone(), calls.clone(), drain.clone());
        servers.push(tokio::spawn(door.serve(routes, connections)));

        guards.follow(&drain);
        let health = vec![decision_health, event_health, admin_health];
        for door in &health {
            door.set(true).await;
        }
        Ok(Self {
            decision_addr,
            event_addr,
            admin_addr,
            drain,
            health,
            threads: [decisions, events],
            servers,
            traffic,
            calls,
        })
    }

    /// Says in every door's health whether something is wrong with this node.
    pub(super) fn follow_health(&self, mut degraded: watch::Receiver<String>) -> JoinHandle<()> {
        let health = self.health.clone();
        tokio::spawn(async move {
            loop {
                let is_well = degraded.borrow_and_update().is_empty();
                for door in &health {
                    door.set_whole(is_well).await;
                }
                if degraded.changed().await.is_err() {
                    return;
                }
            }
        })
    }

    /// Takes no more calls and finishes those that are open, for at most `deadline`; returns
    /// whether all were finished.
    ///
    /// A peer that holds a connection and says nothing is not waited for; one that takes its
    /// answers slowly is.
    pub(super) async fn close(&self, deadline: Duration) -> bool {
        let began = Instant::now();
        for door in &self.health {
            door.set(false).await;
        }
        self.drain.begin();
        let (mut quiet_since, mut moved_before) = (Instant::now(), self.moved());
        loop {
            let servers_are_over = self.servers.iter().all(JoinHandle::is_finished);
            if servers_are_over && self.threads.iter().all(DoorThreads::are_over) {
                return true;
            }
            let moved_now = self.moved();
            if self.calls.open() > 0 || moved_now != moved_before {
                (moved_before, quiet_since) = (moved_now, Instant::now());
            }
            if quiet_since.elapsed() >= DRAIN_QUIET {
                return true;
            }
            if began.elapsed() >= deadline {
                return false;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn moved(&self) -> u64 {
        self.traffic.iter().map(|traffic| traffic.moved()).sum()
    }
}

/// Accepts on `listener` for a door that the main runtime serves.
fn one_desk(
    listener: TcpListener,
    tls: &Option<Arc<Tls>>,
    drain: &Drain,
    servers: &mut Vec<JoinHandle<()>>,
    traffic: &mut Vec<Arc<Traffic>>,
) -> Queue {
    let (doorman, queue) = Doorman::for_one(connections_max(1));
    let doorman = doorman.with_tls(tls.clone());
    traffic.extend(doorman.traffic());
    servers.push(tokio::spawn(doorman.accept(listener, drain.clone())));
    queue
}
