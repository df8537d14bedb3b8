//! The event door: what happened to ads after they were chosen. Browsers come over HTTP to the
//! URLs that hold a token, pages and servers to `POST /events` and `EventService`; all on one port.

mod batch;
mod http;
mod landing;
mod reply;
mod single;
mod visit;

use std::sync::Arc;

use slotwise_proto::v1::event_service_server::{EventService, EventServiceServer};
use slotwise_proto::v1::{RecordEventsRequest, RecordEventsResponse};
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tower::Layer as _;

pub use landing::Landings;

use super::calls::Calls;
use super::deadline::Deadlines;
use super::listener::{Drain, Http, Protocol, Queue, serve};
use crate::bots::Bots;
use crate::events::{Kind, Lives, Recorder, Settling};
use crate::limits::{EVENT_MESSAGE_BYTES_MAX, STREAMS_PER_CONNECTION_MAX};
use crate::ports::Clock;
use crate::telemetry::Counters;
use crate::tokens::{CurrentKeys, Showing};

/// What the event door speaks: browsers speak HTTP/1.1 to what is not under TLS.
const PROTOCOL: Protocol =
    Protocol { http: Http::OneOrTwo, streams_max: STREAMS_PER_CONNECTION_MAX };

/// What the event door works with.
pub struct Events {
    /// What tokens are opened with, now.
    pub keys: Arc<CurrentKeys>,
    /// How long tokens may be used.
    pub lives: Lives,
    /// Whether callers are believed when they say when something happened.
    pub trusts_occurred_at: bool,
    /// Where clicks lead.
    pub landings: Landings,
    /// Makes events durable.
    pub recorder: Arc<dyn Recorder>,
    /// Settles what decisions hold.
    pub settling: Arc<dyn Settling>,
    /// Stamps events.
    pub clock: Arc<dyn Clock>,
    /// Who is no person.
    pub bots: Bots,
    /// What came of the calls.
    pub counters: Arc<Counters>,
}

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Untaken {
    /// None of ours.
    BadToken,
    /// Its life is over.
    Expired,
}

impl Events {
    /// The door's URLs without its socket, for whoever has requests and no connection. The door
    /// itself serves them beside its calls.
    pub fn urls(self: Arc<Self>) -> axum::Router {
        http::with_urls(axum::Router::new(), self)
    }

    /// The showing that `token` names, if something of `kind` may have happened to it at `at_us`.
    fn open(&self, token: &[u8], kind: Kind, at_us: i64) -> Result<Showing, Untaken> {
        let showing = self.keys.current().open(token).map_err(|_| Untaken::BadToken)?;
        if self.lives.are_over(kind, &showing, at_us) {
            return Err(Untaken::Expired);
        }
        Ok(showing)
    }
}

/// Serves the event door.
#[derive(Clone)]
pub struct EventDoor {
    events: Arc<Events>,
    calls: Calls,
    drain: Drain,
}

impl EventDoor {
    /// A door that takes `events`.
    pub fn new(events: Arc<Events>, calls: Calls, drain: Drain) -> Self {
        Self { events, calls, drain }
    }

    /// Serves `connections` until the drain is over; `routes` has what every door has.
    pub async fn serve(self, routes: Routes, connections: Queue) {
        let (drain, calls) = (self.drain.clone(), self.calls.clone());
        let events = Arc::clone(&self.events);
        let service = EventServiceServer::new(self);
        let service = service.max_decoding_message_size(EVENT_MESSAGE_BYTES_MAX);
        let mut routes = routes.add_service(service);
        let router = routes.axum_router_mut();
        *router = http::with_urls(std::mem::take(router), events);
        // A peer that takes longer than 30 s for the head of a request, also of the next one on
        // its connection, is let go: hyper's default.
        let service = calls.layer(Deadlines(routes.prepare()));
        serve(PROTOCOL, service, connections, Arc::default(), drain).await;
    }
}

#[tonic::async_trait]
impl EventService for EventDoor {
    /// The user agent of a gRPC call is its library's and says nothing of the visitor: nothing is
    /// filtered by it.
    async fn record_events(
        &self,
        request: Request<RecordEventsRequest>,
    ) -> Result<Response<RecordEventsResponse>, Status> {
        Ok(Response::new(self.events.record_events(request.into_inner(), None).await?))
    }
}
