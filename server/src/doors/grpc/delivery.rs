//! Follows an answer until the transport has it, so that a kill can wait for it.
//!
//! HTTP asks a body for its next frame only when it has handed on the one before: what was in an
//! earlier frame is with the transport then.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tonic::Status;
use tower::{Layer, Service};

use super::super::held::{Held, HeldBody, HeldCall};
use super::super::listener::ConnectionInfo;
use crate::inflight::{Answers, Lane, Ticket};

/// Gives every call a [`Delivery`].
#[derive(Clone)]
pub(super) struct DeliveryLayer(pub(super) Arc<Lane>);

/// Most calls have one answer.
type Tickets = SmallVec<[Ticket; 1]>;

/// The answers of one call that are on their way. An extension of the request.
#[derive(Clone)]
pub(super) struct Delivery {
    answers: Arc<Answers>,
    tickets: Arc<Mutex<Tickets>>,
}

impl Delivery {
    /// Begins a decision, to be called before the index is looked at. It ends when its answer
    /// is with the transport.
    pub(super) fn begin(&self) {
        self.tickets().push(self.answers.begin());
    }

    /// To be called when the answers are made, before the transport gets them.
    ///
    /// # Errors
    /// When the catalogue changed so long ago that they must not be sent any more: this call fails,
    /// and others on its connection go on.
    pub(super) fn hand_over(&self) -> Result<(), Status> {
        let mut tickets = self.tickets();
        if tickets.iter_mut().all(Ticket::hand_over) {
            return Ok(());
        }
        tickets.clear();
        let why = "the catalogue changed while the answer was being made: ask again";
        Err(Status::unavailable(why))
    }

    fn tickets(&self) -> std::sync::MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's [`Delivery`], and how many of its answers were in the frames given so far.
pub(super) struct InFrames(Delivery, usize);

impl Held for InFrames {
    fn handed_on(&mut self) {
        self.0.tickets().drain(..self.1);
        self.1 = 0;
    }

    fn given(&mut self) {
        self.1 = self.0.tickets().len();
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
    type Response = http::Response<HeldBody<Out, InFrames>>;
    type Error = S::Error;
    type Future = HeldCall<S::Future, InFrames>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<In>) -> Self::Future {
        let of_connection = request.extensions().get::<ConnectionInfo>();
        let answers = of_connection.map(|info| Arc::clone(&info.answers));
        let delivery = Delivery {
            answers: answers.unwrap_or_else(|| self.lane.connection()),
            tickets: Arc::default(),
        };
        request.extensions_mut().insert(delivery.clone());
        HeldCall::new(self.inner.call(request), Some(InFrames(delivery, 0)))
    }
}
