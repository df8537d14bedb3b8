//! A connection as its thread serves it: cut off where its peer never speaks, and where an answer
//! was called off.

use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tower::BoxError;

use super::doorman::{Accepted, Slot};
use super::outbox::Outbox;
use super::transport::{Peer, Transport};
use crate::inflight::{Answers, Lane};
use crate::limits::{FIRST_WORD_BYTES, FIRST_WORD_MAX};

/// An accepted connection, on the thread that serves it. HTTP has one handle of it, and
/// [`Turns`] the other: only that one lets anything out.
#[derive(Clone)]
pub struct Connection(Arc<Mutex<Wire>>);

struct Wire {
    stream: Transport,
    outbox: Outbox,
    /// HTTP has kept nothing back of what it has encoded.
    is_flushed: bool,
    slot: Slot,
    answers: Arc<Answers>,
    peer: Peer,
    /// Runs out for a peer that has not said its first word by then, of which so many bytes are
    /// missing: one byte of it is no sign of life.
    first_word: Option<(usize, Pin<Box<Sleep>>)>,
}

/// What the calls of a connection know of it.
#[derive(Clone)]
pub struct ConnectionInfo {
    /// Its answers on their way.
    pub answers: Arc<Answers>,
    /// Who is at its other end, as far as TLS knows.
    pub peer: Peer,
}

impl Connection {
    /// Takes over what the doorman handed to this thread; its answers count in `lane`.
    ///
    /// # Errors
    /// When this thread's runtime cannot watch the socket.
    pub fn take_over(
        Accepted { stream, slot, tls }: Accepted,
        lane: &Arc<Lane>,
    ) -> std::io::Result<Self> {
        let peer = Peer::default();
        let stream = Transport::new(TcpStream::from_std(stream)?, tls, peer.clone());
        Ok(Self(Arc::new(Mutex::new(Wire {
            stream,
            outbox: Outbox::default(),
            is_flushed: true,
            peer,
            slot,
            answers: lane.connection(),
            first_word: Some((FIRST_WORD_BYTES, Box::pin(tokio::time::sleep(FIRST_WORD_MAX)))),
        }))))
    }

    /// What its calls know of it.
    pub fn info(&self) -> ConnectionInfo {
        let wire = self.wire();
        ConnectionInfo { answers: Arc::clone(&wire.answers), peer: wire.peer.clone() }
    }

    /// Only its own thread ever asks for it.
    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wire {
    /// Refuses to move another byte once an answer was called off: it may be among them.
    fn check(&self) -> std::io::Result<()> {
        if self.answers.is_called_off() {
            let why = "the catalogue changed before an answer was taken";
            return Err(std::io::Error::new(ErrorKind::ConnectionAborted, why));
        }
        Ok(())
    }

    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.check()?;
        if !self.outbox.is_empty() {
            let attempt = self.outbox.poll_out(Pin::new(&mut self.stream), cx);
            ready!(self.slot.note(attempt))?;
        }
        if self.is_flushed {
            self.answers.written();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.answers.close();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let mut wire = self.wire();
        let wire = &mut *wire;
        wire.check()?;
        let filled = buf.filled().len();
        let attempt = Pin::new(&mut wire.stream).poll_read(cx, buf);
        if let Some((missing, patience)) = &mut wire.first_word {
            *missing = missing.saturating_sub(buf.filled().len() - filled);
            if *missing == 0 {
                wire.first_word = None;
            } else if attempt.is_pending() && patience.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
        }
        wire.slot.note(attempt)
    }
}

impl AsyncWrite for Connection {
    /// Only gathers, as long as there is room.
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let mut wire = self.wire();
        wire.is_flushed = false;
        let mut taken = wire.outbox.take(buf);
        if taken == 0 && !buf.is_empty() {
            ready!(wire.poll_out(cx))?;
            taken = wire.outbox.take(buf);
        }
        Poll::Ready(Ok(taken))
    }

    /// Goes no further than that: the turn ends with all of it going out.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.wire().is_flushed = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut wire = self.wire();
        ready!(wire.poll_out(cx))?;
        Pin::new(&mut wire.stream).poll_shutdown(cx)
    }
}

pin_project! {
    /// What serves a connection, turn by turn; at the end of each goes out what was written.
    pub struct Turns<F> {
        #[pin]
        serving: F,
        connection: Connection,
    }
}

impl<F> Turns<F> {
    /// `serving` is what HTTP does with its own handle of `connection`.
    pub fn new(connection: Connection, serving: F) -> Self {
        Self { serving, connection }
    }

    /// What serves the connection.
    pub fn serving(self: Pin<&mut Self>) -> Pin<&mut F> {
        self.project().serving
    }
}

impl<F: Future<Output = Result<(), BoxError>>> Future for Turns<F> {
    type Output = Result<(), BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let served = this.serving.poll(cx);
        // Where it cannot all go out now, the transport wakes this task.
        match this.connection.wire().poll_out(cx) {
            Poll::Ready(Err(error)) if served.is_pending() => Poll::Ready(Err(error.into())),
            _ => served,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::super::bind;
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
            let (stream, slot) = (stream.into_std().unwrap(), Slot::take(&Arc::default()));
            let accepted = Accepted { stream, slot, tls: None };
            let mut connection = Connection::take_over(accepted, &Arc::default()).unwrap();
            let soon = Box::pin(tokio::time::sleep(Duration::from_millis(20)));
            connection.wire().first_word = Some((whole, soon));
            let mut heard = vec![0; said];
            connection.read_exact(&mut heard).await.unwrap();
            let more = connection.read_u8();
            let ended = tokio::time::timeout(Duration::from_millis(200), more).await;
            assert_eq!(ended.is_ok(), is_cut_off, "after {said} bytes");
        }
    }

    /// Nor does a handshake say that somebody will speak HTTP/2.
    #[tokio::test]
    async fn a_peer_that_says_nothing_after_its_handshake_is_cut_off() {
        use rustls::pki_types::{PrivateKeyDer, ServerName};
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let own = rcgen::generate_simple_self_signed(["door.example".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let tls = rustls::ServerConfig::builder().with_no_client_auth();
        let tls = Arc::new(tls.with_single_cert(vec![own.cert.der().clone()], key).unwrap());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(own.cert.der().clone()).unwrap();
        let trusting =
            rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let trusting = tokio_rustls::TlsConnector::from(Arc::new(trusting));
        let whole = FIRST_WORD_BYTES;
        for (said, is_cut_off) in [(0, true), (whole - 1, true), (whole, false)] {
            let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let name = ServerName::try_from("door.example").unwrap();
            let shaking = tokio::spawn(trusting.connect(name, caller));
            let (stream, slot) = (stream.into_std().unwrap(), Slot::take(&Arc::default()));
            let accepted = Accepted { stream, slot, tls: Some(Arc::clone(&tls)) };
            let mut connection = Connection::take_over(accepted, &Arc::default()).unwrap();
            // The server speaks first: its settings.
            connection.write_all(b"settings").await.unwrap();
            std::future::poll_fn(|cx| connection.wire().poll_out(cx)).await.unwrap();
            let mut caller = shaking.await.unwrap().unwrap();
            let mut settings = [0; 8];
            caller.read_exact(&mut settings).await.unwrap();
            assert_eq!(&settings, b"settings");
            caller.write_all(&vec![b'x'; said]).await.unwrap();
            caller.flush().await.unwrap();
            let soon = Box::pin(tokio::time::sleep(Duration::from_millis(20)));
            connection.wire().first_word = Some((whole, soon));
            connection.read_exact(&mut vec![0; said]).await.unwrap();
            let ended =
                tokio::time::timeout(Duration::from_millis(200), connection.read_u8()).await;
            assert_eq!(ended.is_ok(), is_cut_off, "after {said} bytes");
        }
    }
}
