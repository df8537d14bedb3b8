//! Where calls of the decision door go: decisions straight to their service, the rest to the
//! router, which for each call copies and boxes the service that it has found.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use slotwise_proto::v1::ad_decision_service_server::SERVICE_NAME;
use tonic::body::Body;
use tonic::service::Routes;
use tower::Service;

/// The decision service, and what every door has beside its own.
#[derive(Clone, Debug)]
pub(super) struct Front<S> {
    decisions: S,
    rest: Arc<Routes>,
}

impl<S> Front<S> {
    pub(super) fn new(decisions: S, rest: Routes) -> Self {
        Self { decisions, rest: Arc::new(rest.prepare()) }
    }
}

impl<S> Service<http::Request<Body>> for Front<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, <Routes as Service<http::Request<Body>>>::Future>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if is_decision(request.uri().path()) {
            Either::Left(self.decisions.call(request))
        } else {
            Either::Right(Routes::clone(&self.rest).call(request))
        }
    }
}

/// Whether `path` is `/slotwise.v1.AdDecisionService/` and the name of a call.
fn is_decision(path: &str) -> bool {
    let behind_name = path.strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME));
    behind_name.is_some_and(|call| call.starts_with('/'))
}
