//! A connection's bytes, in clear or under TLS. The handshake is part of the first read or write:
//! it runs on the thread that serves the connection, and holds up no other one.

use std::io::{Error, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::doors::tls::names_in;
use crate::limits::TLS_HANDSHAKE_MAX;

/// Who is at the other end of a connection, known from the end of the handshake on.
#[derive(Clone, Debug, Default)]
pub struct Peer(Arc<OnceLock<Vec<String>>>);

impl Peer {
    /// The names in the certificate that it has shown; none where it has shown none.
    pub fn names(&self) -> &[String] {
        self.0.get().map_or(&[], Vec::as_slice)
    }
}

/// The bytes of one connection.
pub(super) enum Transport {
    Clear(TcpStream),
    Handshake(Box<Handshake>),
    Encrypted(Box<TlsStream<TcpStream>>),
    /// The handshake has failed, or nobody waited for its end.
    Closed,
}

/// A handshake that is under way.
pub(super) struct Handshake {
    accept: Accept<TcpStream>,
    /// Runs out for a peer that does not go on with it.
    patience: Pin<Box<Sleep>>,
    /// Told who it is, at the end.
    peer: Peer,
}

impl Transport {
    /// What comes over `stream`, encrypted where there is a `tls`; it tells `peer` who is there.
    pub(super) fn new(stream: TcpStream, tls: Option<Arc<ServerConfig>>, peer: Peer) -> Self {
        let Some(tls) = tls else { return Self::Clear(stream) };
        let accept = TlsAcceptor::from(tls).accept(stream);
        let patience = Box::pin(tokio::time::sleep(TLS_HANDSHAKE_MAX));
        Self::Handshake(Box::new(Handshake { accept, patience, peer }))
    }

    /// What to read from and write to, once there is something.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<Pin<&mut dyn Duplex>>> {
        if let Self::Handshake(handshake) = self {
            let shaken = ready!(handshake.poll(cx));
            *self = Self::Closed;
            match shaken {
                Ok(stream) => *self = Self::Encrypted(Box::new(stream)),
                Err(error) => {
                    // Any stranger can cause it: not for everybody's log.
                    tracing::debug!(%error, "a TLS handshake has failed");
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(match self {
            Self::Clear(stream) => Ok(Pin::new(stream)),
            Self::Encrypted(stream) => Ok(Pin::new(&mut **stream)),
            Self::Handshake(_) | Self::Closed => Err(ErrorKind::NotConnected.into()),
        })
    }
}

impl Handshake {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<TlsStream<TcpStream>>> {
        if let Poll::Ready(done) = Pin::new(&mut self.accept).poll(cx) {
            let stream = done?;
            let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
            if let Some(own) = certificates.first() {
                // Set once, here.
                let _ = self.peer.0.set(names_in(own));
            }
            return Poll::Ready(Ok(stream));
        }
        ready!(self.patience.as_mut().poll(cx));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the peer does not go on with it")))
    }
}

/// Both directions of a stream.
trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        ready!(self.poll_open(cx))?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        ready!(self.poll_open(cx))?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        ready!(self.poll_open(cx))?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        // Asked for once, before the handshake: TLS takes many pieces as one record, too.
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        ready!(self.poll_open(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if matches!(*self, Self::Handshake(_) | Self::Closed) {
            // Nothing was said that would have to arrive.
            *self = Self::Closed;
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_open(cx))?.poll_shutdown(cx)
    }
}
