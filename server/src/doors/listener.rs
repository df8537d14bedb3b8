//! Accepting connections: bounded, without Nagle's delay, spread over the threads that serve.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tower::{BoxError, Layer, Service};

use crate::inflight::{Answers, InFlight};
use crate::limits::{
    ACCEPT_QUEUE_MAX, CONNECTIONS_MAX, FILES_RESERVED, FIRST_WORD_BYTES, FIRST_WORD_MAX,
    HEADER_BYTES_MAX, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, STREAMS_PER_CONNECTION_MAX,
};

/// Pause after an accept that failed, as when file descriptors ran out.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

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

/// Hands accepted connections to the threads that serve a door, each to the one that has fewest.
pub struct Doorman {
    desks: Vec<Desk>,
    connections_max: usize,
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
    queue: mpsc::Sender<(std::net::TcpStream, Slot)>,
}

/// Accepted connections on their way to the thread that will serve them.
pub type Queue = ReceiverStream<(std::net::TcpStream, Slot)>;

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
        (Self { desks, connections_max }, queues)
    }

    /// A doorman for a door that one runtime serves.
    pub fn for_one(connections_max: usize) -> (Self, Queue) {
        let (desk, queue) = Desk::new();
        (Self { desks: vec![desk], connections_max }, queue)
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
            // A thread that is gone or far behind is passed over; the next one has room.
            match desk.queue.try_send((stream, Slot::take(&desk.traffic))) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full((back, _)) | TrySendError::Closed((back, _))) => {
                    stream = back;
                }
            }
        }
        tracing::warn!("no thread takes connections: one is turned away");
        Ok(())
    }
}

/// One of a thread's open connections.
pub struct Slot(Arc<Traffic>);

impl Slot {
    fn take(traffic: &Arc<Traffic>) -> Self {
        traffic.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(traffic))
    }

    /// Notes that bytes have moved, where an attempt to move some is over.
    fn note<T>(&self, attempt: Poll<T>) -> Poll<T> {
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

/// An accepted connection, on the thread that serves it.
pub struct Connection {
    stream: TcpStream,
    slot: Slot,
    answers: Arc<Answers>,
    /// Runs out for a peer that has not said its first word by then, of which so many bytes are
    /// missing: one byte of it is no sign of life.
    first_word: Option<(usize, Pin<Box<Sleep>>)>,
}

/// What the calls of a connection know of it.
#[derive(Clone)]
pub struct ConnectionInfo {
    /// Its answers on their way.
    pub answers: Arc<Answers>,
}

impl Connection {
    /// Takes over what the doorman handed to this thread; its answers count with `in_flight`.
    ///
    /// # Errors
    /// When this thread's runtime cannot watch the socket.
    pub fn take_over(
        (stream, slot): (std::net::TcpStream, Slot),
        in_flight: &Arc<InFlight>,
    ) -> std::io::Result<Self> {
        Ok(Self {
            stream: TcpStream::from_std(stream)?,
            slot,
            answers: in_flight.connection(),
            first_word: Some((FIRST_WORD_BYTES, Box::pin(tokio::time::sleep(FIRST_WORD_MAX)))),
        })
    }

    /// Refuses to move another byte once an answer was called off: it may be among them.
    fn check(&self) -> std::io::Result<()> {
        if self.answers.is_called_off() {
            let why = "the catalogue changed before an answer was taken";
            return Err(std::io::Error::new(ErrorKind::ConnectionAborted, why));
        }
        Ok(())
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        ConnectionInfo { answers: Arc::clone(&self.answers) }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.check()?;
        let filled = buf.filled().len();
        let attempt = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some((missing, patience)) = &mut self.first_word {
            *missing = missing.saturating_sub(buf.filled().len() - filled);
            if *missing == 0 {
                self.first_word = None;
            } else if attempt.is_pending() && patience.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
        }
        self.slot.note(attempt)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.check()?;
        let attempt = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.slot.note(attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.check()?;
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.slot.note(attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before its preface no ping can find out whether a peer lives.
    #[tokio::test]
    async fn a_peer_that_does_not_finish_its_first_word_is_cut_off() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let whole = FIRST_WORD_BYTES;
        for (said, is_cut_off) in [(0, true), (whole - 1, true), (whole, false)] {
            let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let addr = listener.local_addr().unwrap();
            let mut caller = TcpStream::connect(addr).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            caller.write_all(&vec![b'x'; said]).await.unwrap();
            let accepted = (stream.into_std().unwrap(), Slot::take(&Arc::default()));
            let mut connection = Connection::take_over(accepted, &Arc::default()).unwrap();
            let soon = Box::pin(tokio::time::sleep(Duration::from_millis(20)));
            connection.first_word = Some((whole, soon));
            let mut heard = vec![0; said];
            connection.read_exact(&mut heard).await.unwrap();
            let more = connection.read_u8();
            let ended = tokio::time::timeout(Duration::from_millis(200), more).await;
            assert_eq!(ended.is_ok(), is_cut_off, "after {said} bytes");
        }
    }

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
        let in_flight = Arc::new(InFlight::default());
        let mut callers = Vec::new();
        for _ in 0..64 {
            callers.push(TcpStream::connect(addr).await.unwrap());
        }
        for mut queue in queues {
            let mut taken = Vec::new();
            for _ in 0..32 {
                let connection =
                    Connection::take_over(queue.next().await.unwrap(), &in_flight).unwrap();
                assert!(connection.stream.nodelay().unwrap());
                taken.push(connection);
            }
        }
        drain.begin();
        accepting.await.unwrap();
    }
}
