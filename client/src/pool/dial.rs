//! One connection, dialled once, which tells when the server has spoken and when it ends.
//!
//! An HTTP/2 client may send before it has heard anything, so a connection "stands" for hyper also
//! where a listener is that nobody serves. Every server speaks first or answers the greeting: only
//! then the connection takes calls. With TLS that is also the first sign that the server has taken
//! our certificate, which it looks at when the client's half of the handshake is long over.
//!
//! A tonic channel left to itself reconnects when a call comes, and lets that call and all behind
//! it wait for that. Here the second dial of a channel fails at once: the call goes elsewhere, and
//! the keeper reconnects where nobody waits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::transport::Uri;

use crate::limits::CONNECT_TIMEOUT;
use crate::tls::ALPN;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The connector of one channel.
pub(super) struct Dial {
    tcp: HttpConnector,
    /// With TLS: how, and with whom.
    handshake: Option<(TlsConnector, ServerName<'static>)>,
    /// Goes into the connection; none once it was dialled.
    signals: Option<Signals>,
}

/// What a connection tells of itself.
struct Signals {
    /// Used with the first bytes that the server sends, or with what came instead.
    heard: Option<oneshot::Sender<io::Result<()>>>,
    /// Dropped with the connection.
    _end: oneshot::Sender<()>,
}

/// What becomes of the connection that a [`Dial`] makes.
pub(super) struct Course {
    /// Resolves well when the server has spoken.
    pub(super) heard: oneshot::Receiver<io::Result<()>>,
    /// Resolves when the connection has ended.
    pub(super) ended: oneshot::Receiver<()>,
}

impl Dial {
    /// A connector, and what becomes of its connection.
    pub(super) fn new(handshake: Option<(TlsConnector, ServerName<'static>)>) -> (Self, Course) {
        let (end, ended) = oneshot::channel();
        let (hear, heard) = oneshot::channel();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let signals = Signals { heard: Some(hear), _end: end };
        (Dial { tcp, handshake, signals: Some(signals) }, Course { heard, ended })
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Line>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(BoxError::from)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Some(signals) = self.signals.take() else {
            return Box::pin(std::future::ready(Err("the connection has ended".into())));
        };
        let connecting = self.tcp.call(uri);
        let handshake = self.handshake.take();
        Box::pin(async move {
            let tcp = connecting.await?.into_inner();
            let io: Box<dyn Io> = match handshake {
                Some((connector, name)) => Box::new(secured(connector, name, tcp).await?),
                None => Box::new(tcp),
            };
            Ok(TokioIo::new(Line { io, signals }))
        })
    }
}

async fn secured(
    connector: TlsConnector,
    name: ServerName<'static>,
    tcp: TcpStream,
) -> Result<TlsStream<TcpStream>, BoxError> {
    let stream = connector.connect(name, tcp).await?;
    match stream.get_ref().1.alpn_protocol() {
        Some(ALPN) => Ok(stream),
        _ => Err("the server does not agree to HTTP/2: is it a door of slotwise?".into()),
    }
}

/// TCP, or TLS over it.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection that tells of itself.
pub(super) struct Line {
    io: Box<dyn Io>,
    signals: Signals,
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        let first = match &read {
            // The error itself goes to hyper, which does not pass it on before the first request.
            Poll::Ready(Err(e)) => Some(Err(io::Error::new(e.kind(), e.to_string()))),
            _ if buffer.filled().len() > before => Some(Ok(())),
            _ => None,
        };
        if let Some(first) = first
            && let Some(heard) = self.signals.heard.take()
        {
            let _ = heard.send(first);
        }
        read
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }
}
