//! Counts the calls of a door that are not answered to the end, so that a stop can wait for them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

/// Where the paths of our own services begin. A health watch has no end of its own: a stop does
/// not wait for it, nor for reflection.
const COUNTED_PATHS: &str = "/slotwise.";

/// The calls of one node that are being answered.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<AtomicUsize>);

impl Calls {
    /// How many there are.
    pub fn open(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn begin(&self) -> Call {
        self.0.fetch_add(1, Ordering::SeqCst);
        Call(Arc::clone(&self.0))
    }
}

struct Call(Arc<AtomicUsize>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S> Layer<S> for Calls {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, calls: self.clone() }
    }
}

/// A service whose calls are counted.
#[derive(Clone)]
pub struct Counted<S> {
    inner: S,
    calls: Calls,
}

impl<S, In, Out> Service<http::Request<In>> for Counted<S>
where
    S: Service<http::Request<In>, Response = http::Response<Out>>,
{
    type Response = http::Response<CountedBody<Out>>;
    type Error = S::Error;
    type Future = CountedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<In>) -> Self::Future {
        let is_counted = request.uri().path().starts_with(COUNTED_PATHS);
        let call = is_counted.then(|| self.calls.begin());
        CountedFuture { call, answer: self.inner.call(request) }
    }
}

pin_project! {
    /// A call before its answer has a body.
    pub struct CountedFuture<F> {
        #[pin]
        answer: F,
        call: Option<Call>,
    }
}

impl<F, Out, E> Future for CountedFuture<F>
where
    F: Future<Output = Result<http::Response<Out>, E>>,
{
    type Output = Result<http::Response<CountedBody<Out>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.answer.poll(cx));
        let call = this.call.take();
        Poll::Ready(response.map(|r| r.map(|body| CountedBody { body, _call: call })))
    }
}

pin_project! {
    /// The body of a counted call: the call is over when this is dropped.
    pub struct CountedBody<B> {
        #[pin]
        body: B,
        _call: Option<Call>,
    }
}

impl<B: Body> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
