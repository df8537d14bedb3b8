//! The admin door: `CatalogService`, `UserService`, `ReportService` and `ReplayService`.

mod access;
mod changes;
mod gate;
mod identities;
mod import;
mod ledger;
mod nodes;
mod replay;
mod reports;
mod service;
mod status;
mod token;
mod users;
mod zone_ads;

use std::sync::Arc;

use slotwise_core::index::Index;
use slotwise_proto::v1::catalog_service_server::CatalogServiceServer;
use slotwise_proto::v1::replay_service_server::ReplayServiceServer;
use slotwise_proto::v1::report_service_server::ReportServiceServer;
use slotwise_proto::v1::user_service_server::UserServiceServer;
use tokio::sync::{Mutex, Semaphore, watch};
use tonic::service::Routes;
use tower::Layer as _;

pub use identities::Identities;
pub use ledger::Ledger;
pub use token::Token;

use super::calls::Calls;
use super::deadline::Deadlines;
use super::listener::{Drain, Http, Protocol, Queue, serve};
use super::reload::Reloaded;
use crate::catalog::Catalog;
use crate::fleet::Fleet;
use crate::inflight::InFlight;
use crate::kills::Kills;
use crate::limits::{ADMIN_MESSAGE_BYTES_MAX, EXPORTS_MAX, STREAMS_PER_CONNECTION_MAX};
use crate::refresh::{Node, Served};
use gate::Gate;
pub use users::Users;

/// What the admin door speaks.
const PROTOCOL: Protocol = Protocol { http: Http::Two, streams_max: STREAMS_PER_CONNECTION_MAX };

/// What the admin door answers from.
pub struct Admin {
    /// The catalogue as it is written.
    pub catalog: Catalog,
    /// The catalogue as it is served.
    pub index: Arc<Index>,
    /// How far serving has come.
    pub served: watch::Receiver<Served>,
    /// Which answers are on their way.
    pub in_flight: Arc<InFlight>,
    /// What is stopped on this node and not stored yet.
    pub kills: Arc<Kills>,
    /// The other nodes.
    pub fleet: Arc<Fleet>,
    /// Held by whoever activates a campaign, or stores a kill that was only this node's.
    pub switching: Mutex<()>,
    /// What is known of visitors.
    pub users: Users,
    /// What was counted, and where events go.
    ledger: Ledger,
    /// Imports are gathered in memory: one at a time.
    importing: Semaphore,
    /// Exports hold a reader of the store each: a few at a time.
    exporting: Arc<Semaphore>,
}

impl Admin {
    /// What the door needs, with nothing going on.
    pub fn new(
        catalog: Catalog,
        node: Node,
        served: watch::Receiver<Served>,
        fleet: Arc<Fleet>,
        users: Users,
        ledger: Ledger,
    ) -> Self {
        let Node { index, in_flight, kills, .. } = node;
        let (importing, exporting) = (Semaphore::new(1), Arc::new(Semaphore::new(EXPORTS_MAX)));
        let switching = Mutex::new(());
        Self {
            catalog,
            index,
            served,
            in_flight,
            kills,
            fleet,
            switching,
            users,
            ledger,
            importing,
            exporting,
        }
    }
}

/// Serves the admin door.
#[derive(Clone)]
pub struct AdminDoor {
    admin: Arc<Admin>,
    gate: Gate,
    calls: Calls,
    drain: Drain,
}

impl AdminDoor {
    /// A door that answers those `identities` from `admin`; where there are none, everybody.
    pub fn new(
        admin: Arc<Admin>,
        identities: Option<Arc<Reloaded<Identities>>>,
        calls: Calls,
        drain: Drain,
    ) -> Self {
        Self { admin, gate: Gate(identities), calls, drain }
    }

    /// Serves `connections` until the drain is over; `routes` has what every door has.
    pub async fn serve(self, routes: Routes, connections: Queue) {
        let (drain, calls, gate) = (self.drain.clone(), self.calls.clone(), self.gate.clone());
        let users = UserServiceServer::new(self.clone());
        let reports = ReportServiceServer::new(self.clone());
        let replays = ReplayServiceServer::new(self.clone());
        let catalog = CatalogServiceServer::new(self);
        let routes = routes
            .add_service(catalog.max_decoding_message_size(ADMIN_MESSAGE_BYTES_MAX))
            .add_service(users.max_decoding_message_size(ADMIN_MESSAGE_BYTES_MAX))
            .add_service(reports)
            .add_service(replays.max_decoding_message_size(ADMIN_MESSAGE_BYTES_MAX));
        let service = calls.layer(gate.layer(Deadlines(routes.prepare())));
        serve(PROTOCOL, service, connections, Arc::default(), drain).await;
    }
}
