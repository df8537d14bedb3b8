//! Follows an answer until the transport has it, so that a kill can wait for it.
//!
//! The bytes of an answer own its ticket: HTTP drops them once it has put them into the
//! connection's buffer, or when they are never to be sent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tonic::Status;
use tonic::codegen::Bytes;
use tower::{Layer, Service};

use super::super::held::{Held, HeldBody, HeldCall};
use super::super::listener::ConnectionInfo;
use crate::inflight::{Answers, Lane, Ticket};

/// Gives every call a [`Delivery`].
#[derive(Clone)]
pub(super) struct DeliveryLayer(pub(super) Arc<Lane>);

/// What is on its way of one call. An extension of the request.
#[derive(Clone)]
pub(super) struct Delivery {
    answers: Arc<Answers>,
    under_way: Arc<Mutex<UnderWay>>,
}

/// The answers of a call that no bytes hold yet. One ticket does for all of them: the one that
/// the first has begun, as a change that comes later has to wait for it, too.
#[derive(Default)]
struct UnderWay {
    ticket: Option<Ticket>,
    /// Another one is being made.
    is_making: bool,
}

impl Delivery {
    /// Begins a decision, to be called before the index is looked at. It ends when its answer
    /// is with the transport.
    pub(super) fn begin(&self) {
        let mut under_way = self.under_way();
        under_way.ticket.get_or_insert_with(|| self.answers.begin());
        under_way.is_making = true;
    }

    /// To be called when the answers are made, before the transport gets them.
    ///
    /// # Errors
    /// When the catalogue changed so long ago that they must not be sent any more: this call fails,
    /// and others on its connection go on.
    pub(super) fn hand_over(&self) -> Result<(), Status> {
        let mut under_way = self.under_way();
        under_way.is_making = false;
        if under_way.ticket.as_mut().is_none_or(Ticket::hand_over) {
            return Ok(());
        }
        under_way.ticket = None;
        let why = "the catalogue changed while the answer was being made: ask again";
        Err(Status::unavailable(why))
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a call with answers.
pub(super) struct InBody(Delivery);

impl Held for InBody {
    fn carry(&mut self, bytes: Bytes) -> Bytes {
        let mut under_way = self.0.under_way();
        let Some(ticket) = under_way.ticket.take() else { return bytes };
        if under_way.is_making {
            // A stream whose next answer is not in these bytes.
            under_way.ticket = Some(ticket.twin());
        }
        Bytes::from_owner(Carried { bytes, _ticket: ticket })
    }
}

/// Bytes that hold the ticket of the answers in them.
struct Carried {
    bytes: Bytes,
    _ticket: Ticket,
}

impl AsRef<[u8]> for Carried {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<S> Layer<S> for DeliveryLayer {
    type Service = Deliver<S>;

    fn layer(&self, inner: S) -> Deliver<S> {
        Deliver { inner, lane: Arc::clone(&self.0) }
    }
}

/// See [`DeliveryLayer`].
#[derive(Clone)]
pub(super) struct Deliver<S> {
    inner: S,
    lane: Arc<Lane>,
}

impl<S, In, Out> Service<http::Request<In>> for Deliver<S>
where
    S: Service<http::Request<In>, Response = http::Response<Out>>,
{
    type Response = http::Response<HeldBody<Out, InBody>>;
    type Error = S::Error;
    type Future = HeldCall<S::Future, InBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<In>) -> Self::Future {
        let of_connection = request.extensions().get::<ConnectionInfo>();
        let answers = of_connection.map(|info| Arc::clone(&info.answers));
        let delivery = Delivery {
            answers: answers.unwrap_or_else(|| self.lane.connection()),
            under_way: Arc::default(),
        };
        request.extensions_mut().insert(delivery.clone());
        HeldCall::new(self.inner.call(request), Some(InBody(delivery)))
    }
}
