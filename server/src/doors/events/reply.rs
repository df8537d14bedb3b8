//! The answers that the URLs give. None may be kept: each request is an event of its own.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};

use super::Untaken;
use crate::telemetry::Metric;

/// A GIF of one transparent pixel.
pub(super) const PIXEL: &[u8; 43] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff\
\x21\xf9\x04\x01\x00\x00\x00\x00\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00\x3b";

/// An answer, and what the call counts as.
pub(super) type Reply = (Response, Metric);

/// `status` with a body.
pub(super) fn with_body(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// `status` and a line for whoever looks.
pub(super) fn line(status: StatusCode, line: &'static str) -> Response {
    with_body(status, "text/plain; charset=utf-8", line)
}

/// The pixel.
pub(super) fn pixel() -> Response {
    with_body(StatusCode::OK, "image/gif", &PIXEL[..])
}

/// To `location`; nothing where that cannot stand in a header.
pub(super) fn redirect(location: &str) -> Option<Response> {
    let location = HeaderValue::from_bytes(location.as_bytes()).ok()?;
    let mut response = Response::new(Body::empty());
    // 302, never 301: that would be kept, and the next click would not come here.
    *response.status_mut() = StatusCode::FOUND;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::LOCATION, location);
    Some(response)
}

/// A token that is not taken.
pub(super) fn untaken(why: Untaken) -> Reply {
    let response = match why {
        Untaken::BadToken => line(StatusCode::NOT_FOUND, "no such link\n"),
        Untaken::Expired => line(StatusCode::GONE, "this link has expired\n"),
    };
    (response, Metric::EventCallsRefused)
}

/// Something that the request says is ill-formed.
pub(super) fn ill_formed(why: &'static str) -> Reply {
    (line(StatusCode::BAD_REQUEST, why), Metric::EventCallsRefused)
}

/// Our fault; the same request may work a moment later.
pub(super) fn unavailable() -> Response {
    let mut response = line(StatusCode::SERVICE_UNAVAILABLE, "try again\n");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
