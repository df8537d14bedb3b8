//! The deadline that a gRPC call brings with it (`grpc-timeout`).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::HeaderMap;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

/// Ends calls of `S` when their deadline is over.
#[derive(Clone)]
pub struct Deadlines<S>(pub S);

pin_project! {
    /// A call with its deadline.
    pub struct InTime<F> {
        #[pin]
        call: F,
        deadline: Option<Instant>,
        // Made when the call has to wait for something, as most have not.
        sleep: Option<Pin<Box<Sleep>>>,
    }
}

impl<S, In> Service<http::Request<In>> for Deadlines<S>
where
    S: Service<http::Request<In>, Response = http::Response<Body>, Error = Infallible>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = InTime<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<In>) -> Self::Future {
        let timeout = timeout(request.headers());
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        InTime { call: self.0.call(request), deadline, sleep: None }
    }
}

impl<F> Future for InTime<F>
where
    F: Future<Output = Result<http::Response<Body>, Infallible>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(answer) = this.call.poll(cx) {
            return Poll::Ready(answer);
        }
        let Some(deadline) = *this.deadline else { return Poll::Pending };
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        ready!(sleep.as_mut().poll(cx));
        let status = Status::deadline_exceeded("the deadline of the call is over");
        Poll::Ready(Ok(status.into_http()))
    }
}

/// How long the caller waits: at most eight digits and a unit. One that cannot be read is none.
pub(super) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let count: u64 = is_number.then(|| digits.parse().ok())??;
    Some(match unit {
        "H" => Duration::from_secs(count * 3_600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forms of gRPC's own description of its protocol over HTTP/2.
    #[test]
    fn a_timeout_is_digits_and_a_unit() {
        for (text, expected) in [
            ("1H", Some(Duration::from_secs(3_600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3S", Some(Duration::from_secs(3))),
            ("50m", Some(Duration::from_millis(50))),
            ("99999999u", Some(Duration::from_micros(99_999_999))),
            ("0n", Some(Duration::ZERO)),
            ("100000000n", None),
            ("", None),
            ("S", None),
            ("5", None),
            ("-5S", None),
            ("+5S", None),
            ("5s", None),
            ("1.5S", None),
            ("5é", None),
        ] {
            let mut headers = HeaderMap::new();
            let value = http::HeaderValue::from_bytes(text.as_bytes()).unwrap();
            headers.insert("grpc-timeout", value);
            assert_eq!(timeout(&headers), expected, "{text:?}");
        }
        assert_eq!(timeout(&HeaderMap::new()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_too_long_is_ended_and_told_so() {
        let mut service = Deadlines(tower::service_fn(|_: http::Request<()>| async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok::<_, Infallible>(http::Response::new(Body::empty()))
        }));
        for (asked, in_time) in [("1S", false), ("3S", true)] {
            let request = http::Request::builder().header("grpc-timeout", asked).body(()).unwrap();
            let answer = service.call(request).await.unwrap();
            let status = answer.headers().get("grpc-status").map(|status| status.as_bytes());
            assert_eq!(status, (!in_time).then_some(&b"4"[..]), "{asked}");
        }
    }
}
