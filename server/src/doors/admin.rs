//! The admin door: `CatalogService`.

mod changes;
mod import;
mod service;
mod status;
mod zone_ads;

use std::sync::Arc;

use slotwise_core::index::Index;
use slotwise_proto::v1::catalog_service_server::CatalogServiceServer;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tonic::service::Routes;

use super::calls::Calls;
use super::listener::{Connection, Drain, Queue, server};
use crate::catalog::Catalog;
use crate::limits::ADMIN_MESSAGE_BYTES_MAX;
use crate::refresh::Served;

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
        let service =
            CatalogServiceServer::new(self).max_decoding_message_size(ADMIN_MESSAGE_BYTES_MAX);
        server()
            .layer(calls)
            .add_routes(routes.add_service(service))
            .serve_with_incoming_shutdown(connections.map(Connection::take_over), async move {
                drain.begun().await;
            })
            .await
    }
}
