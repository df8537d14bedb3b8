//! Serving connections: hyper speaks HTTP on each of them, and one service answers all.
//!
//! tonic's own server does the same; it copies its stack of layers for each call, and boxes what
//! they make of it.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tower::{BoxError, Service};

use super::connection::Turns;
use super::{Connection, ConnectionInfo, Drain, Queue};
use crate::inflight::Lane;
use crate::limits::{HEADER_BYTES_MAX, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};

/// What a door's connections speak, and how much of it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The versions of HTTP.
    pub http: Http,
    /// Calls in flight on one connection; further ones wait at the caller.
    pub streams_max: u32,
}

/// The versions of HTTP that a connection may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// HTTP/2 alone.
    Two,
    /// HTTP/1.1 as well, as browsers do to what is not under TLS.
    OneOrTwo,
}

/// Serves `connections` with `service` until `drain` has begun and all is answered; answers count
/// in `lane`. The service is never asked whether it is ready: what stands on a door always is.
pub async fn serve<S, B>(
    protocol: Protocol,
    service: S,
    mut connections: Queue,
    lane: Arc<Lane>,
    drain: Drain,
) where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let server = server(protocol);
    // Each connection holds one; whoever waits for all of them to be gone waits for it.
    let (open, held) = watch::channel(());
    loop {
        let accepted = tokio::select! {
            biased;
            () = drain.begun() => break,
            accepted = connections.next() => accepted,
        };
        let Some(accepted) = accepted else { break };
        let connection = match Connection::take_over(accepted, &lane) {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be served");
                continue;
            }
        };
        let service = Answering { info: connection.info(), service: service.clone() };
        let (server, drain, held) = (server.clone(), drain.clone(), held.clone());
        tokio::spawn(async move {
            let serving = server.serve_connection(TokioIo::new(connection.clone()), service);
            let serving = Turns::new(connection, serving);
            tokio::pin!(serving);
            let served = tokio::select! {
                served = serving.as_mut() => served,
                () = drain.begun() => {
                    serving.as_mut().serving().graceful_shutdown();
                    serving.await
                }
            };
            if let Err(error) = served {
                tracing::debug!(error, "a connection has failed");
            }
            drop(held);
        });
    }
    drop(held);
    open.closed().await;
}

/// HTTP with every limit set that it has.
fn server(protocol: Protocol) -> Builder<TokioExecutor> {
    let mut server = Builder::new(TokioExecutor::new());
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(protocol.streams_max)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    // Without a timer hyper does not end the wait for the head of a request.
    server.http1().timer(TokioTimer::new());
    match protocol.http {
        Http::Two => server.http2_only(),
        Http::OneOrTwo => server,
    }
}

/// The door's service as one connection calls it.
struct Answering<S> {
    info: ConnectionInfo,
    service: S,
}

impl<S> hyper::service::Service<http::Request<Incoming>> for Answering<S>
where
    S: Service<http::Request<Body>> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, request: http::Request<Incoming>) -> S::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.info.clone());
        self.service.clone().call(request)
    }
}
