//! Counts the calls of a door that are not answered to the end, so that a stop can wait for them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use tower::{Layer, Service};

use super::held::{Held, HeldBody, HeldCall};

/// Where the paths of our own services and event URLs begin. A health watch has no end of its own:
/// a stop does not wait for it, nor for reflection.
const COUNTED_PATHS: [&str; 5] = ["/slotwise.", "/c/", "/i/", "/v/", "/events"];

/// The calls of one node that are being answered.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<RwLock<Vec<Arc<Open>>>>);

/// How many calls one server is answering, on a cache line of its own: see [`Counters`].
///
/// [`Counters`]: crate::telemetry::Counters
#[derive(Debug, Default)]
#[repr(align(128))]
struct Open(AtomicUsize);

impl Calls {
    /// How many there are.
    pub fn open(&self) -> usize {
        let servers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        servers.iter().map(|open| open.0.load(Ordering::SeqCst)).sum()
    }
}

/// One call that is being answered.
pub struct Call(Arc<Open>);

impl Call {
    fn begin(open: &Arc<Open>) -> Self {
        open.0.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Held for Call {}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S> Layer<S> for Calls {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        let open = Arc::<Open>::default();
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&open));
        Counted { inner, open }
    }
}

/// A service whose calls are counted.
#[derive(Clone)]
pub struct Counted<S> {
    inner: S,
    open: Arc<Open>,
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
        let call = is_counted.then(|| Call::begin(&self.open));
        HeldCall::new(self.inner.call(request), call)
    }
}
