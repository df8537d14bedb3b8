//! The admin door: `CatalogService` and `UserService`.

mod changes;
mod import;
mod service;
mod status;
mod users;
mod zone_ads;

use std::sync::Arc;

use slotwise_core::index::Index;
use slotwise_proto::v1::catalog_service_server::CatalogServiceServer;
use slotwise_proto::v1::user_service_server::UserServiceServer;
use tokio::sync::{Semaphore, watch};
use tonic::service::Routes;

use super::calls::Calls;
use super::listener::{Drain, Queue, serve, server};
use crate::catalog::Catalog;
use crate::inflight::InFlight;
use crate::limits::{ADMIN_MESSAGE_BYTES_MAX, EXPORTS_MAX};
use crate::refresh::Served;
pub use users::Users;

/// Who a change is written down for, as long as the door asks nobody who they are: it listens on
/// loopback only.
const ACTOR: &str = "local";

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
    /// What is known of visitors.
    pub users: Users,
    /// Imports are gathered in memory: one at a time.
    importing: Semaphore,
    /// Exports hold a reader of the store each: a few at a time.
    exporting: Arc<Semaphore>,
}

impl Admin {
    /// What the door needs, with nothing going on.
    pub fn new(
        catalog: Catalog,
        index: Arc<Index>,
        served: watch::Receiver<Served>,
        in_flight: Arc<InFlight>,
        users: Users,
    ) -> Self {
        let (importing, exporting) = (Semaphore::new(1), Arc::new(Semaphore::new(EXPORTS_MAX)));
        Self { catalog, index, served, in_flight, users, importing, exporting }
    }
}

/// Serves the admin door.
#[derive(Clone)]
pub struct AdminDoor {
    admin: Arc<Admin>,
    calls: Calls,
    drain: Drain,
}

impl AdminDoor {
    /// A door that answers from `admin`.
    pub fn new(admin: Arc<Admin>, calls: Calls, drain: Drain) -> Self {
        Self { admin, calls, drain }
    }

    /// Serves `connections` until the drain is over; `routes` has what every door has.
    ///
    /// # Errors
    /// When the transport fails as a whole.
    pub async fn serve(
        self,
        routes: Routes,
        connections: Queue,
    ) -> Result<(), tonic::transport::Error> {
        let (drain, calls) = (self.drain.clone(), self.calls.clone());
        let users = UserServiceServer::new(self.clone());
        let catalog = CatalogServiceServer::new(self);
        let routes = routes
            .add_service(catalog.max_decoding_message_size(ADMIN_MESSAGE_BYTES_MAX))
            .add_service(users.max_decoding_message_size(ADMIN_MESSAGE_BYTES_MAX));
        serve(server().layer(calls), routes, connections, Arc::default(), drain).await
    }
}
