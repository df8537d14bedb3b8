//! Who lets connections in: only so many, each to the thread that has fewest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_stream::wrappers::ReceiverStream;

use super::Drain;
use crate::doors::tls::Tls;
use crate::limits::ACCEPT_QUEUE_MAX;

/// Pause after an accept that failed, as when file descriptors ran out.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Hands accepted connections to the threads that serve a door, each to the one that has fewest.
pub struct Doorman {
    desks: Vec<Desk>,
    connections_max: usize,
    tls: Option<Arc<Tls>>,
}

/// The connections of one thread.
#[derive(Default)]
pub struct Traffic {
    open: AtomicUsize,
    moved: AtomicU64,
}

impl Traffic {
    /// How often bytes have come or gone; while it grows, somebody takes or says something.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }
}

struct Desk {
    traffic: Arc<Traffic>,
    queue: mpsc::Sender<Accepted>,
}

/// An accepted connection on its way to the thread that will serve it.
pub struct Accepted {
    /// Its socket, without Nagle's delay.
    pub stream: std::net::TcpStream,
    /// What it takes of that thread's room.
    pub slot: Slot,
    /// What it has to be encrypted with; nothing: it speaks in clear.
    pub tls: Option<Arc<ServerConfig>>,
}

/// Accepted connections on their way to the thread that will serve them.
pub type Queue = ReceiverStream<Accepted>;

impl Desk {
    fn new() -> (Self, Queue) {
        let (queue, connections) = mpsc::channel(ACCEPT_QUEUE_MAX);
        (Self { traffic: Arc::default(), queue }, ReceiverStream::new(connections))
    }
}

impl Doorman {
    /// A doorman who lets in so many at once, for `threads` threads; and what each of them serves.
    pub fn new(threads: usize, connections_max: usize) -> (Self, Vec<Queue>) {
        let (desks, queues) = (0..threads).map(|_| Desk::new()).unzip();
        (Self { desks, connections_max, tls: None }, queues)
    }

    /// A doorman for a door that one runtime serves.
    pub fn for_one(connections_max: usize) -> (Self, Queue) {
        let (desk, queue) = Desk::new();
        (Self { desks: vec![desk], connections_max, tls: None }, queue)
    }

    /// Connections are encrypted with what `tls` is when they are accepted.
    pub fn with_tls(self, tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..self }
    }

    /// The traffic of each thread.
    pub fn traffic(&self) -> impl Iterator<Item = Arc<Traffic>> + '_ {
        self.desks.iter().map(|desk| Arc::clone(&desk.traffic))
    }

    /// Accepts until `drain` begins.
    pub async fn accept(self, listener: TcpListener, drain: Drain) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = drain.begun() => return,
            };
            let handed = match accepted {
                Ok((stream, _)) => self.hand_over(stream).await,
                Err(error) => Err(error),
            };
            if let Err(error) = handed {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }

    async fn hand_over(&self, stream: TcpStream) -> std::io::Result<()> {
        let open = |desk: &&Desk| desk.traffic.open.load(Ordering::Relaxed);
        let total: usize = self.desks.iter().map(|desk| open(&desk)).sum();
        if total >= self.connections_max {
            tracing::warn!(
                limit = self.connections_max,
                "too many connections: one is turned away"
            );
            return Ok(());
        }
        // A custom incoming stream ignores the server builder's own flag for this.
        stream.set_nodelay(true)?;
        let mut desks: Vec<&Desk> = self.desks.iter().collect();
        desks.sort_by_key(open);
        let mut stream = stream.into_std()?;
        for desk in desks {
            let (slot, tls) = (Slot::take(&desk.traffic), self.tls.as_ref());
            let accepted = Accepted { stream, slot, tls: tls.map(|tls| tls.current()) };
            // A thread that is gone or far behind is passed over; the next one has room.
            match desk.queue.try_send(accepted) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back) | TrySendError::Closed(back)) => stream = back.stream,
            }
        }
        tracing::warn!("no thread takes connections: one is turned away");
        Ok(())
    }
}

/// One of a thread's open connections.
pub struct Slot(Arc<Traffic>);

impl Slot {
    pub(super) fn take(traffic: &Arc<Traffic>) -> Self {
        traffic.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(traffic))
    }

    /// Notes that bytes have moved, where an attempt to move some is over.
    pub(super) fn note<T>(&self, attempt: Poll<T>) -> Poll<T> {
        if attempt.is_ready() {
            self.0.moved.fetch_add(1, Ordering::Relaxed);
        }
        attempt
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio_stream::StreamExt;

    use super::super::bind;
    use super::*;

    #[tokio::test]
    async fn who_comes_when_the_door_is_full_is_turned_away() {
        use tokio::io::AsyncReadExt;
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let addr = listener.local_addr().unwrap();
        let (doorman, mut queue) = Doorman::for_one(2);
        let drain = Drain::default();
        let accepting = tokio::spawn(doorman.accept(listener, drain.clone()));
        let _two =
            [TcpStream::connect(addr).await.unwrap(), TcpStream::connect(addr).await.unwrap()];
        let taken = [queue.next().await.unwrap(), queue.next().await.unwrap()];
        let mut third = TcpStream::connect(addr).await.unwrap();
        assert_eq!(third.read(&mut [0]).await.unwrap_or(0), 0, "hung up on");
        drop(taken);
        let _fourth = TcpStream::connect(addr).await.unwrap();
        assert!(queue.next().await.is_some(), "there is room again");
        drain.begin();
        accepting.await.unwrap();
    }

    #[tokio::test]
    async fn connections_have_no_delay_and_are_spread_evenly() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let addr = listener.local_addr().unwrap();
        let (doorman, queues) = Doorman::new(2, 100);
        let drain = Drain::default();
        let accepting = tokio::spawn(doorman.accept(listener, drain.clone()));
        let mut callers = Vec::new();
        for _ in 0..64 {
            callers.push(TcpStream::connect(addr).await.unwrap());
        }
        for mut queue in queues {
            let mut taken = Vec::new();
            for _ in 0..32 {
                let accepted = queue.next().await.unwrap();
                assert!(accepted.stream.nodelay().unwrap());
                taken.push(accepted);
            }
        }
        drain.begin();
        accepting.await.unwrap();
    }
}
