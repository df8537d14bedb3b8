//! Accepting connections: bounded, without Nagle's delay, spread over the threads that serve.

mod connection;
mod doorman;
mod outbox;
mod serving;
mod transport;

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use connection::Connection;
pub use connection::ConnectionInfo;
pub use doorman::{Doorman, Queue, Traffic};
pub use serving::{Http, Protocol, serve};

use crate::limits::{ACCEPT_QUEUE_MAX, CONNECTIONS_MAX, FILES_RESERVED};

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
