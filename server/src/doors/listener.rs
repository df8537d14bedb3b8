//! Accepting connections: bounded, without Nagle's delay, spread over the threads that serve.

mod connection;
mod doorman;
mod transport;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::service::Routes;
use tonic::transport::Server;
use tower::{BoxError, Layer, Service};

use connection::Connection;
pub use connection::ConnectionInfo;
pub use doorman::{Doorman, Queue, Traffic};

use crate::inflight::InFlight;
use crate::limits::{
    ACCEPT_QUEUE_MAX, CONNECTIONS_MAX, FILES_RESERVED, HEADER_BYTES_MAX, KEEPALIVE_INTERVAL,
    KEEPALIVE_TIMEOUT, STREAMS_PER_CONNECTION_MAX,
};

/// How many connections a door may hold that has `share` of four quarters of the files that this
/// process may open. Every door has a share of its own, so that a crowd before one of them never
/// shuts another: the kill switch stays within reach.
pub fn connections_max(share: usize) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    (files.saturating_sub(FILES_RESERVED) / 4).saturating_mul(share).clamp(1, CONNECTIONS_MAX)
}

/// Listens on `addr`.
///
/// # Errors
/// When the address is taken or not ours.
pub fn bind(addr: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart must not wait for the old connections' TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(u32::try_from(ACCEPT_QUEUE_MAX).unwrap_or(u32::MAX))
}

/// A gRPC server with every limit set that its transport has.
pub fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

/// Serves `connections` with `server` and `routes` until `drain` has begun and all is answered.
///
/// # Errors
/// When the transport fails as a whole.
pub async fn serve<L, B>(
    mut server: Server<L>,
    routes: Routes,
    connections: Queue,
    in_flight: Arc<InFlight>,
    drain: Drain,
) -> Result<(), tonic::transport::Error>
where
    L: Layer<Routes> + Clone,
    L::Service: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + 'static,
    <L::Service as Service<http::Request<Body>>>::Future: Send,
    <L::Service as Service<http::Request<Body>>>::Error: Into<BoxError> + Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let connections = connections.map(move |taken| Connection::take_over(taken, &in_flight));
    let until = async move { drain.begun().await };
    server.add_routes(routes).serve_with_incoming_shutdown(connections, until).await
}

/// Tells servers to stop taking calls.
#[derive(Clone)]
pub struct Drain(watch::Sender<bool>);

impl Default for Drain {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Drain {
    /// From now on no new call is taken.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Returns once it has begun.
    pub async fn begun(&self) {
        let mut begun = self.0.subscribe();
        // Only an error when the sender is gone, which is ourselves.
        let _ = begun.wait_for(|begun| *begun).await;
    }
}
