//! Counts the calls of a door that are not answered to the end, so that a stop can wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tower::{Layer, Service};

use super::held::{Held, HeldBody, HeldCall};

/// Where the paths of our own services and event URLs begin. A health watch has no end of its own:
/// a stop does not wait for it, nor for reflection.
const COUNTED_PATHS: [&str; 5] = ["/slotwise.", "/c/", "/i/", "/v/", "/events"];

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

/// One call that is being answered.
pub struct Call(Arc<AtomicUsize>);

impl Held for Call {}

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
    type Response = http::Response<HeldBody<Out, Call>>;
    type Error = S::Error;
    type Future = HeldCall<S::Future, Call>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<In>) -> Self::Future {
        let path = request.uri().path();
        let is_counted = COUNTED_PATHS.iter().any(|begin| path.starts_with(begin));
        let call = is_counted.then(|| self.calls.begin());
        HeldCall::new(self.inner.call(request), call)
    }
}
