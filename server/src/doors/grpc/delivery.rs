//! Follows an answer until the transport has it, so that a kill can wait for it.
//!
//! HTTP asks a body for its next frame only when it has handed on the one before: what was in an
//! earlier frame is with the transport then.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::super::listener::ConnectionInfo;
use crate::inflight::{Answers, InFlight, Ticket};

/// Gives every call a [`Delivery`].
#[derive(Clone)]
pub(super) struct DeliveryLayer(pub(super) Arc<InFlight>);

/// The answers of one call that are on their way. An extension of the request.
#[derive(Clone)]
pub(super) struct Delivery {
    answers: Arc<Answers>,
    tickets: Arc<Mutex<Vec<Ticket>>>,
}

impl Delivery {
    /// Begins a decision, to be called before the index is looked at. It ends when its answer
    /// is with the transport.
    pub(super) fn begin(&self) {
        self.tickets().push(self.answers.begin());
    }

    fn tickets(&self) -> std::sync::MutexGuard<'_, Vec<Ticket>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Layer<S> for DeliveryLayer {
    type Service = Deliver<S>;

    fn layer(&self, inner: S) -> Deliver<S> {
        Deliver { inner, in_flight: Arc::clone(&self.0) }
    }
}

/// See [`DeliveryLayer`].
#[derive(Clone)]
pub(super) struct Deliver<S> {
    inner: S,
    in_flight: Arc<InFlight>,
}

impl<S, In, Out> Service<http::Request<In>> for Deliver<S>
where
    S: Service<http::Request<In>, Response = http::Response<Out>>,
{
    type Response = http::Response<DeliveredBody<Out>>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<In>) -> Self::Future {
        let of_connection = request.extensions().get::<ConnectionInfo>();
        let answers = of_connection.map(|info| Arc::clone(&info.answers));
        let delivery = Delivery {
            answers: answers.unwrap_or_else(|| self.in_flight.connection()),
            tickets: Arc::default(),
        };
        request.extensions_mut().insert(delivery.clone());
        Answering { answer: self.inner.call(request), delivery: Some(delivery) }
    }
}

pin_project! {
    /// The answer, before it has a body.
    pub(super) struct Answering<F> {
        #[pin]
        answer: F,
        delivery: Option<Delivery>,
    }
}

impl<F, Out, E> Future for Answering<F>
where
    F: Future<Output = Result<http::Response<Out>, E>>,
{
    type Output = Result<http::Response<DeliveredBody<Out>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.answer.poll(cx));
        let delivery = this.delivery.take();
        Poll::Ready(response.map(|r| r.map(|body| DeliveredBody { body, delivery, in_frame: 0 })))
    }
}

pin_project! {
    /// A body that knows which answers the transport has.
    pub(super) struct DeliveredBody<B> {
        #[pin]
        body: B,
        delivery: Option<Delivery>,
        // Answers that were in the frames given so far.
        in_frame: usize,
    }
}

impl<B: Body> Body for DeliveredBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        if let Some(delivery) = this.delivery {
            delivery.tickets().drain(..*this.in_frame);
            *this.in_frame = 0;
        }
        let frame = ready!(this.body.poll_frame(cx));
        if let Some(delivery) = this.delivery {
            *this.in_frame = delivery.tickets().len();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
