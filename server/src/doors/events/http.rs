//! The URLs of the event door.

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::LengthLimitError;
use slotwise_proto::json;
use slotwise_proto::v1::RecordEventsRequest;
use tonic::{Code, Status};

use super::Events;
use super::reply::{Reply, unavailable, with_body};
use super::single::{not_by_this_method, nothing_here};
use super::visit::{Visit, filtered_by};
use crate::limits::{EVENT_BODY_MAX, EVENT_MESSAGE_BYTES_MAX};
use crate::telemetry::{Metric, Outcome};

const JSON: &str = "application/json";

/// `router`, with the URLs of `events`.
pub(super) fn with_urls(router: Router, events: Arc<Events>) -> Router {
    let refusing = Arc::clone(&events);
    let urls = Router::new()
        // GET stands for HEAD, too.
        .route("/c/{token}", get(click))
        .route("/i/{token}", get(impression))
        .route("/v/{token}", get(conversion))
        .route("/events", post(record).options(preflight))
        // For the routes above; it stands behind them, as later ones would not have it.
        .method_not_allowed_fallback(move || other_method(Arc::clone(&refusing)))
        .with_state(Arc::clone(&events));
    router.merge(urls).fallback(move |request| elsewhere(Arc::clone(&events), request))
}

async fn click(State(events): State<Arc<Events>>, request: Request) -> Response {
    let (token, _, visit) = asked(&events, request);
    counted(&events, events.click(&token, visit)).await
}

async fn impression(State(events): State<Arc<Events>>, request: Request) -> Response {
    let (token, _, visit) = asked(&events, request);
    counted(&events, events.impression(&token, visit)).await
}

async fn conversion(State(events): State<Arc<Events>>, request: Request) -> Response {
    let (token, query, visit) = asked(&events, request);
    counted(&events, events.conversion(&token, query.as_deref(), visit)).await
}

/// The token of a URL as it stands there, its query, and who asks.
fn asked(events: &Events, request: Request) -> (String, Option<String>, Visit) {
    let visit = Visit::of(request.method(), request.headers(), &events.bots);
    let path = request.uri().path();
    // Behind `/c/` and its like.
    let token = path.get(3..).unwrap_or_default().to_owned();
    (token, request.uri().query().map(str::to_owned), visit)
}

/// Counts the call as what it comes to.
async fn counted(events: &Events, call: impl Future<Output = Reply>) -> Response {
    let outcome = Outcome::of_event_call(&events.counters);
    let (response, metric) = call.await;
    outcome.is(metric);
    response
}

/// No URL of ours. A gRPC call is told so in its own words.
async fn elsewhere(events: Arc<Events>, request: Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        return Status::unimplemented("no such call on this door").into_http();
    }
    counted(&events, async { nothing_here() }).await
}

/// A URL of ours, and a method that it has not: axum says which would do.
async fn other_method(events: Arc<Events>) -> Response {
    counted(&events, async { not_by_this_method() }).await
}

/// RecordEvents as protobuf JSON. `text/plain` is what `sendBeacon` says of a string.
async fn record(State(events): State<Arc<Events>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = match read(&events, &parts.headers, body).await {
        Ok(told) => {
            // A page says where it is from. A server does not, and its agent is some library's.
            let is_page = parts.headers.contains_key(header::ORIGIN);
            let filter = if is_page { filtered_by(&parts.headers, &events.bots) } else { None };
            match events.record_events(told, filter).await {
                Ok(results) => with_body(StatusCode::OK, JSON, json::to_string(&results)),
                Err(refusal) => refused(&refusal.into()),
            }
        }
        Err(response) => response,
    };
    allow(&parts.headers, response.headers_mut());
    response
}

/// The call in `body`; else the answer that says why there is none, counted.
async fn read(
    events: &Events,
    headers: &HeaderMap,
    body: axum::body::Body,
) -> Result<RecordEventsRequest, Response> {
    let outcome = Outcome::of_event_call(&events.counters);
    let told = read_uncounted(headers, body).await;
    // What is read goes on, and is counted there.
    match &told {
        Ok(_) => outcome.goes_on(),
        Err(_) => outcome.is(Metric::EventCallsRefused),
    }
    told
}

async fn read_uncounted(
    headers: &HeaderMap,
    body: axum::body::Body,
) -> Result<RecordEventsRequest, Response> {
    let invalid = |status, code, message: String| error(status, code, &message);
    if !is_json(headers) {
        let message = "the content type must be application/json or text/plain".to_owned();
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(invalid(status, Code::InvalidArgument, message));
    }
    let reading = tokio::time::timeout(EVENT_BODY_MAX, to_bytes(body, EVENT_MESSAGE_BYTES_MAX));
    let bytes = match reading.await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) if is_too_long(&error) => {
            let message = format!("the limit is {EVENT_MESSAGE_BYTES_MAX} bytes");
            return Err(invalid(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted, message));
        }
        Ok(Err(error)) => {
            return Err(invalid(StatusCode::BAD_REQUEST, Code::Aborted, error.to_string()));
        }
        Err(_) => {
            let message = "the body took too long".to_owned();
            return Err(invalid(StatusCode::REQUEST_TIMEOUT, Code::DeadlineExceeded, message));
        }
    };
    let bad = |message| invalid(StatusCode::BAD_REQUEST, Code::InvalidArgument, message);
    let text = std::str::from_utf8(&bytes).map_err(|error| bad(error.to_string()))?;
    json::from_str(text).map_err(|error| bad(error.to_string()))
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return true };
    let kind = kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    let kind = kind.trim_ascii();
    kind.eq_ignore_ascii_case(JSON.as_bytes()) || kind.eq_ignore_ascii_case(b"text/plain")
}

fn is_too_long(error: &axum::Error) -> bool {
    error.source().is_some_and(|source| source.is::<LengthLimitError>())
}

/// A refused call, with the status that HTTP has for it.
fn refused(status: &Status) -> Response {
    match status.code() {
        Code::Unavailable => unavailable(),
        code => error(StatusCode::BAD_REQUEST, code, status.message()),
    }
}

fn error(status: StatusCode, code: Code, message: &str) -> Response {
    let body = serde_json::json!({ "code": i32::from(code), "message": message });
    with_body(status, JSON, body.to_string())
}

/// A browser asks whether a page from elsewhere may send events here.
async fn preflight(State(events): State<Arc<Events>>, request: Request) -> Response {
    let outcome = Outcome::of_event_call(&events.counters);
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    allow(request.headers(), headers);
    let mut say = |name, value| headers.insert(name, HeaderValue::from_static(value));
    say(header::ACCESS_CONTROL_ALLOW_METHODS, "POST");
    say(header::ACCESS_CONTROL_ALLOW_HEADERS, "content-type");
    say(header::ACCESS_CONTROL_MAX_AGE, "86400");
    outcome.is(Metric::EventCallsUncounted);
    response
}

/// Lets every page read the answer: it says nothing that the page's own tokens do not. A beacon
/// always comes with credentials, for which a browser takes no `*`; we read none.
fn allow(asked: &HeaderMap, answer: &mut HeaderMap) {
    const VARY: HeaderName = header::VARY;
    answer.insert(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = asked.get(header::ORIGIN) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
}
