//! What HTTP writes is gathered, and goes out when a connection's turn is over: HTTP/2 writes each
//! answer that is longer than a packet or so in a call of its own, which costs the kernel more
//! than the decision costs us.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use crate::limits::OUTBOX_BYTES_MAX;

thread_local! {
    /// A piece of memory for the connection whose turn it is: most leave nothing in it.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Bytes on their way to one transport.
#[derive(Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    /// The transport may hold some that were written to it: TLS does.
    is_unflushed: bool,
}

impl Outbox {
    /// Whether all that was put into it has gone out.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.is_unflushed
    }

    /// Takes of `bytes` what there is room for; none: it has to go out first.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(OUTBOX_BYTES_MAX.saturating_sub(self.bytes.len()));
        if taken > 0 && self.bytes.capacity() == 0 {
            self.bytes = SPARE.take();
        }
        self.bytes.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Writes all of it to `transport`.
    ///
    /// # Errors
    /// The transport's.
    pub(super) fn poll_out(
        &mut self,
        mut transport: Pin<&mut impl AsyncWrite>,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        while self.sent < self.bytes.len() {
            let attempt = transport.as_mut().poll_write(cx, &self.bytes[self.sent..]);
            match ready!(attempt)? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
            self.is_unflushed = true;
        }
        if self.sent > 0 {
            self.sent = 0;
            self.bytes.clear();
            SPARE.set(std::mem::take(&mut self.bytes));
        }
        ready!(transport.poll_flush(cx))?;
        self.is_unflushed = false;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Whatever the transport takes at once, all bytes come, each once and in order.
    #[tokio::test]
    async fn bytes_come_in_order_through_a_transport_that_takes_few_at_once() {
        let (mut near, mut far) = tokio::io::duplex(1_000);
        let all: Vec<u8> = (0..=250).cycle().take(3 * OUTBOX_BYTES_MAX).collect();
        let said = all.clone();
        let writing = tokio::spawn(async move {
            let (mut outbox, mut at) = (Outbox::default(), 0);
            while at < said.len() {
                // Pieces of all lengths, until none is taken any more.
                let end = said.len().min(at + 1 + at % 40_000);
                let taken = outbox.take(&said[at..end]);
                at += taken;
                if taken == 0 {
                    std::future::poll_fn(|cx| outbox.poll_out(Pin::new(&mut near), cx))
                        .await
                        .unwrap();
                    assert!(outbox.is_empty());
                }
            }
            std::future::poll_fn(|cx| outbox.poll_out(Pin::new(&mut near), cx)).await.unwrap();
        });
        let mut heard = vec![0; all.len()];
        far.read_exact(&mut heard).await.unwrap();
        writing.await.unwrap();
        assert!(heard == all, "as they were said");
    }

    #[test]
    fn no_more_is_taken_than_there_is_room_for() {
        let mut outbox = Outbox::default();
        let much = vec![0; OUTBOX_BYTES_MAX];
        assert_eq!(outbox.take(&much[1..]), OUTBOX_BYTES_MAX - 1);
        assert_eq!((outbox.take(&much), outbox.take(&much)), (1, 0));
    }
}
