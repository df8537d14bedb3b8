//! A stream of decisions: what was sent on it stays known until it is answered.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use slotwise_proto::v1::{ChooseAdsRequest, ChooseAdsResponse};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};

use crate::Error;
use crate::answers::Answers;
use crate::limits::STREAM_UNANSWERED_MAX;

/// What was sent and not answered yet.
#[derive(Debug)]
struct Waiting {
    /// Oldest first.
    requests: Mutex<VecDeque<ChooseAdsRequest>>,
    /// How many more there may be; closed when the stream has ended.
    room: Semaphore,
}

impl Waiting {
    fn requests(&self) -> MutexGuard<'_, VecDeque<ChooseAdsRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that takes requests from the caller; it ends with the stream.
#[derive(Debug)]
pub(super) struct Feed {
    waiting: Arc<Waiting>,
    task: JoinHandle<()>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the transport takes of `requests`, and the keeper of what it took.
pub(super) fn feed(
    requests: impl Stream<Item = ChooseAdsRequest> + Send + 'static,
) -> (ReceiverStream<ChooseAdsRequest>, Feed) {
    let waiting = Arc::new(Waiting {
        requests: Mutex::default(),
        room: Semaphore::new(STREAM_UNANSWERED_MAX),
    });
    // Only what waits is bounded by `room`; the channel hands over one by one.
    let (sender, receiver) = mpsc::channel(1);
    let task = tokio::spawn(hand_over(requests, waiting.clone(), sender));
    (ReceiverStream::new(receiver), Feed { waiting, task })
}

async fn hand_over(
    requests: impl Stream<Item = ChooseAdsRequest>,
    waiting: Arc<Waiting>,
    sender: mpsc::Sender<ChooseAdsRequest>,
) {
    tokio::pin!(requests);
    loop {
        let Ok(room) = waiting.room.acquire().await else { return };
        let Some(request) = requests.next().await else { return };
        room.forget();
        waiting.requests().push_back(request.clone());
        if sender.send(request).await.is_err() {
            return;
        }
    }
}

/// The answers of one [`Decisions::choose_ads_stream`](crate::Decisions::choose_ads_stream), in
/// the order of the requests. After an error it has ended.
#[derive(Debug)]
pub struct Chosen {
    answers: Answers<ChooseAdsResponse>,
    feed: Feed,
}

impl Chosen {
    pub(super) fn new(answers: Answers<ChooseAdsResponse>, feed: Feed) -> Self {
        Chosen { answers, feed }
    }

    /// The next answer; none when the stream has ended: all requests were answered, or the server
    /// drains and has answered what it had read.
    ///
    /// # Errors
    /// That the stream broke off.
    pub async fn message(&mut self) -> Result<Option<ChooseAdsResponse>, Error> {
        self.next().await.transpose()
    }

    /// What was taken from the caller's stream and has no answer yet, oldest first. After the end
    /// these are the ones to ask again, if at all: they may have been decided and recorded.
    pub fn unanswered(&self) -> Vec<ChooseAdsRequest> {
        self.feed.waiting.requests().iter().cloned().collect()
    }
}

impl Stream for Chosen {
    type Item = Result<ChooseAdsResponse, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(Pin::new(&mut self.answers).poll_next(cx));
        let waiting = &self.feed.waiting;
        match &next {
            Some(Ok(_)) => {
                waiting.requests().pop_front();
                waiting.room.add_permits(1);
            }
            // Nothing more is taken from the caller: it could not be answered.
            Some(Err(_)) | None => waiting.room.close(),
        }
        Poll::Ready(next)
    }
}
