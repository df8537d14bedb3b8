//! One connection, dialled once, which tells when it ends.
//!
//! A tonic channel left to itself reconnects when a call comes, and lets that call and all behind
//! it wait for that. Here the second dial of a channel fails at once: the call goes elsewhere, and
//! the keeper reconnects where nobody waits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tonic::codegen::Service;
use tonic::transport::Uri;

use crate::limits::CONNECT_TIMEOUT;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The connector of one channel.
pub(super) struct Dial {
    tcp: HttpConnector,
    /// Goes into the connection; none once it was dialled.
    end: Option<oneshot::Sender<()>>,
}

impl Dial {
    /// A connector, and what resolves when the connection that it makes has ended.
    pub(super) fn new() -> (Self, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        (Dial { tcp, end: Some(end) }, ended)
    }
}

impl Service<Uri> for Dial {
    type Response = Line;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Line, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(BoxError::from)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Some(end) = self.end.take() else {
            return Box::pin(std::future::ready(Err("the connection has ended".into())));
        };
        let connecting = self.tcp.call(uri);
        Box::pin(async move { Ok(Line { tcp: connecting.await?, _end: end }) })
    }
}

/// A TCP connection; whoever holds the other end of `_end` hears when it is dropped.
pub(super) struct Line {
    tcp: TokioIo<TcpStream>,
    _end: oneshot::Sender<()>,
}

impl Read for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl Write for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, slices)
    }
}
