//! Something that is held for as long as a call is being answered: by the future until the answer
//! has a body, then by the body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::codegen::Bytes;

/// What is held; its drop says that the call is over.
pub trait Held {
    /// HTTP is given `data` of the answer; what is returned is what it gets in its place.
    fn carry(&mut self, data: Bytes) -> Bytes {
        data
    }
}

pin_project! {
    /// A call before its answer has a body.
    pub struct HeldCall<F, H> {
        #[pin]
        answer: F,
        held: Option<H>,
    }
}

impl<F, H> HeldCall<F, H> {
    /// Holds `held` until `answer` is there, and its body is over.
    pub fn new(answer: F, held: Option<H>) -> Self {
        Self { answer, held }
    }
}

impl<F, H, Out, E> Future for HeldCall<F, H>
where
    F: Future<Output = Result<http::Response<Out>, E>>,
{
    type Output = Result<http::Response<HeldBody<Out, H>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.answer.poll(cx));
        let held = this.held.take();
        Poll::Ready(response.map(|response| response.map(|body| HeldBody { body, held })))
    }
}

pin_project! {
    /// The body of an answer.
    pub struct HeldBody<B, H> {
        #[pin]
        body: B,
        held: Option<H>,
    }
}

impl<B: Body<Data = Bytes>, H: Held> Body for HeldBody<B, H> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        Poll::Ready(match (frame, this.held) {
            (Some(Ok(frame)), Some(held)) => Some(Ok(frame.map_data(|data| held.carry(data)))),
            (frame, _) => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
