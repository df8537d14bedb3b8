//! A stream of answers on one connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio_stream::{Stream, StreamExt};
use tonic::Streaming;

use crate::Error;
use crate::pool::Lease;

/// What a server streams, as it comes. After an error it has ended.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), slotwise_client::Error> {
/// # let server = slotwise_server::testing::Server::start().await;
/// # let admin = server.admin_addr().to_string();
/// use slotwise_client::stubs::CatalogServiceClient;
/// use slotwise_client::v1::ExportRequest;
/// use slotwise_client::{Catalog, Options};
///
/// let catalog = Catalog::connect(&Options::parse([admin])?).await?;
/// let mut records = catalog.open(ExportRequest {}, CatalogServiceClient::export).await?;
/// let mut count = 0;
/// while let Some(_record) = records.message().await? {
///     count += 1;
/// }
/// assert_eq!(count, 0, "the server was empty");
/// # server.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Answers<A> {
    stream: Streaming<A>,
    deadline: Duration,
    ended: bool,
    /// The connection counts as busy while the stream runs.
    lease: Lease,
}

impl<A> Answers<A> {
    pub(crate) fn new(stream: Streaming<A>, lease: Lease, deadline: Duration) -> Self {
        Answers { stream, deadline, ended: false, lease }
    }

    /// The next answer; none when the server has ended the stream.
    ///
    /// # Errors
    /// That the stream broke off.
    pub async fn message(&mut self) -> Result<Option<A>, Error> {
        self.next().await.transpose()
    }
}

impl<A> Stream for Answers<A> {
    type Item = Result<A, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(Pin::new(&mut self.stream).poll_next(cx));
        self.ended = !matches!(next, Some(Ok(_)));
        Poll::Ready(next.map(|answer| {
            answer.map_err(|status| {
                self.lease.judge(&status);
                Error::of(status, self.deadline)
            })
        }))
    }
}
