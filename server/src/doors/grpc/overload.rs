//! Calls that cannot be answered in time are refused before anything is done for them.
//!
//! First the callers are held back: a connection has [`DECISIONS_PER_CONNECTION_MAX`] streams, and
//! what finds none waits at the caller, who can give it up for nothing. What is read all the same
//! is begun in the order in which it came. One whose turn comes when half of its time is over
//! ([`TIMEOUT_ASSUMED`] where it names none) is refused then, as long as its caller can still ask
//! another node; and where [`CALLS_PER_THREAD_MAX`] wait already, a call is refused as it comes. So
//! neither the wait nor the memory grows with what is asked.
//!
//! [`DECISIONS_PER_CONNECTION_MAX`]: crate::limits::DECISIONS_PER_CONNECTION_MAX

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::Either;
use pin_project_lite::pin_project;
use rand_core::Rng as _;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::super::deadline::timeout;
use super::choose::generator;
use crate::limits::{CALLS_PER_THREAD_MAX, RETRY_PUSHBACK_MS, TIMEOUT_ASSUMED};
use crate::telemetry::{Counters, Metric};

type Answer = Result<http::Response<Body>, Infallible>;

/// Refuses calls of `S` that cannot be answered in time. Each thread has one of its own, and each
/// connection of the thread a clone.
#[derive(Clone)]
pub(super) struct Overload<S> {
    inner: S,
    thread: Arc<Thread>,
}

/// What the calls of one thread share, on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Thread {
    /// Calls that are waiting for their turn, or being answered.
    open: AtomicUsize,
    counters: Arc<Counters>,
}

/// One of the calls that are open.
struct Place(Arc<Thread>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S> Overload<S> {
    pub(super) fn new(inner: S, counters: Arc<Counters>) -> Self {
        Self { inner, thread: Arc::new(Thread { open: AtomicUsize::new(0), counters }) }
    }
}

pin_project! {
    /// A call that waits for its turn, or has it.
    pub(super) struct InTurn<F> {
        #[pin]
        call: F,
        place: Place,
        // Nothing: its turn has come.
        waiting: Option<Waiting>,
    }
}

/// A call that nothing was done for yet.
struct Waiting {
    since: Instant,
    /// How long the caller waits for the answer.
    timeout: Option<Duration>,
}

impl Waiting {
    /// Why the call is not begun, if it is not.
    fn refusal(&self) -> Option<Status> {
        let waited = self.since.elapsed();
        if self.timeout.is_some_and(|timeout| timeout <= waited) {
            return Some(Status::deadline_exceeded(
                "the deadline of the call was over at its turn",
            ));
        }
        let is_late = waited > self.timeout.unwrap_or(TIMEOUT_ASSUMED) / 2;
        is_late.then(|| overloaded("half of the call's time was over at its turn"))
    }
}

impl<F: Future<Output = Answer>> Future for InTurn<F> {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let this = self.project();
        if let Some(waiting) = this.waiting.take()
            && let Some(refusal) = waiting.refusal()
        {
            this.place.0.counters.add(Metric::DecisionsShed, 1);
            return Poll::Ready(Ok(refusal.into_http()));
        }
        this.call.poll(cx)
    }
}

impl<S> Service<http::Request<Body>> for Overload<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Either<InTurn<S::Future>, Ready<Answer>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let before = self.thread.open.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.thread));
        if before >= CALLS_PER_THREAD_MAX {
            self.thread.counters.add(Metric::DecisionsShed, 1);
            let refusal = overloaded("too many calls wait for their turn");
            return Either::Right(ready(Ok(refusal.into_http())));
        }
        let waiting = Waiting { since: Instant::now(), timeout: timeout(request.headers()) };
        let call = self.inner.call(request);
        Either::Left(InTurn { call, place, waiting: Some(waiting) })
    }
}

/// The refusal of a call that another node may answer at once, and this one a little later. Not
/// all of those that were refused in one moment come back in one.
fn overloaded(why: &str) -> Status {
    let (least, most) = RETRY_PUSHBACK_MS;
    let pushback_ms = least + generator(None).next_u32() % (most - least + 1);
    let mut status = Status::unavailable(format!("the node is overloaded: {why}"));
    status.metadata_mut().insert("grpc-retry-pushback-ms", pushback_ms.into());
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    use tonic::Code;

    /// Answers at once, and counts its calls.
    #[derive(Clone, Default)]
    struct Counting(Arc<AtomicUsize>);

    impl Service<http::Request<Body>> for Counting {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Answer>>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: http::Request<Body>) -> Self::Future {
            let calls = Arc::clone(&self.0);
            Box::pin(async move {
                calls.fetch_add(1, Ordering::Relaxed);
                Ok(http::Response::new(Body::empty()))
            })
        }
    }

    fn request(timeout: Option<&str>) -> http::Request<Body> {
        let mut request = http::Request::new(Body::empty());
        if let Some(timeout) = timeout {
            request.headers_mut().insert("grpc-timeout", timeout.parse().unwrap());
        }
        request
    }

    async fn status(call: impl Future<Output = Answer>) -> Option<Status> {
        let Ok(response) = call.await;
        Status::from_header_map(response.headers())
    }

    fn pushback_ms(status: &Status) -> u32 {
        let pushback = status.metadata().get("grpc-retry-pushback-ms");
        pushback.unwrap().to_str().unwrap().parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_turn_comes_too_late_is_refused_and_nothing_is_done_for_it() {
        let calls = Counting::default();
        let mut service = Overload::new(calls.clone(), Arc::default());
        // How long it waits for the answer, how long it has waited at its turn, what it is told.
        for (timeout, waited_ms, expected) in [
            (Some("50m"), 25, None),
            (Some("50m"), 26, Some(Code::Unavailable)),
            (Some("50m"), 49, Some(Code::Unavailable)),
            (Some("50m"), 50, Some(Code::DeadlineExceeded)),
            (Some("10S"), 5_000, None),
            (None, 500, None),
            (None, 501, Some(Code::Unavailable)),
        ] {
            let call = service.call(request(timeout));
            tokio::time::advance(Duration::from_millis(waited_ms)).await;
            let refused = status(call).await;
            assert_eq!(refused.as_ref().map(Status::code), expected, "{timeout:?} {waited_ms}");
            if expected == Some(Code::Unavailable) {
                let (least, most) = RETRY_PUSHBACK_MS;
                assert!((least..=most).contains(&pushback_ms(&refused.unwrap())));
            }
        }
        assert_eq!(calls.0.load(Ordering::Relaxed), 3);
        assert_eq!(service.thread.counters.get(Metric::DecisionsShed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_bound_a_call_is_refused_as_it_comes_until_another_is_over() {
        let calls = Counting::default();
        let mut service = Overload::new(calls.clone(), Arc::default());
        let mut open: Vec<_> =
            (0..CALLS_PER_THREAD_MAX).map(|_| service.call(request(None))).collect();
        // Of each connection's clone alike.
        let refused = status(service.clone().call(request(None))).await.unwrap();
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(pushback_ms(&refused) > 0);
        // One is answered, and one is given up.
        assert!(status(open.pop().unwrap()).await.is_none());
        open.pop();
        assert!(status(service.call(request(None))).await.is_none());
        assert!(status(service.call(request(None))).await.is_none());
        assert_eq!(calls.0.load(Ordering::Relaxed), 3);
        assert_eq!(service.thread.counters.get(Metric::DecisionsShed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_has_begun_may_take_its_time() {
        let slow = tower::service_fn(|_| async {
            tokio::time::sleep(10 * TIMEOUT_ASSUMED).await;
            Ok(http::Response::new(Body::empty()))
        });
        let mut service = Overload::new(slow, Arc::default());
        assert!(status(service.call(request(None))).await.is_none());
    }
}
