//! Something that is held for as long as a call is being answered: by the future until the answer
//! has a body, then by the body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// What is held, and told how far the answer has come; its drop says that the call is over.
pub trait Held {
    /// HTTP asks for the next frame: it has handed on the one before.
    fn handed_on(&mut self) {}

    /// HTTP is given a frame.
    fn given(&mut self) {}
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

impl<B: Body, H: Held> Body for HeldBody<B, H> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        if let Some(held) = this.held {
            held.handed_on();
        }
        let frame = ready!(this.body.poll_frame(cx));
        if let Some(held) = this.held {
            held.given();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
