//! What docs/events.md says must come of a request, read a second time and in the plainest way.

use http::{Method, StatusCode, header};
use slotwise_proto::json;
use slotwise_proto::v1::{self as wire, EventKind, EventResult, RecordEventsRequest};
use slotwise_server::bots::Bots;
use slotwise_server::events::{Event, Kind};
use slotwise_server::telemetry::Metric;
use slotwise_server::tokens::Showing;

use super::request::{Asked, KNOWN, LANDING, NOON_US, Tokens};

const DAY_MS: i64 = 86_400_000;
const MINUTE_US: i64 = 60_000_000;

/// What is in the body of an answer.
pub enum Answer {
    /// Whatever the transport's own words are.
    Anything,
    Nothing,
    Pixel,
    /// A line for a person.
    Words,
    /// A code and a message in JSON.
    Error,
    Results(Vec<EventResult>),
}

/// What must come of a request.
pub struct Expected {
    pub status: StatusCode,
    pub location: Option<String>,
    pub recorded: Vec<Event>,
    pub settled: Vec<(bool, Showing, i64)>,
    /// As which it is counted; nothing: it is a gRPC call that is not there.
    pub end: Option<Metric>,
    /// Events accepted, filtered and refused.
    pub fates: [u64; 3],
    pub is_never_kept: bool,
    /// Whether pages from elsewhere may read it.
    pub is_for_pages: bool,
    pub answer: Answer,
}

impl Expected {
    fn new(status: StatusCode, end: Metric, answer: Answer) -> Self {
        Self {
            status,
            location: None,
            recorded: Vec::new(),
            settled: Vec::new(),
            end: Some(end),
            fates: [0; 3],
            is_never_kept: true,
            is_for_pages: false,
            answer,
        }
    }

    fn refused(status: StatusCode) -> Self {
        Self::new(status, Metric::EventCallsRefused, Answer::Words)
    }
}

/// What the rules ask about.
pub struct Rules<'t> {
    pub tokens: &'t Tokens,
    pub bots: &'t Bots,
    pub trusts_occurred_at: bool,
}

impl Rules<'_> {
    /// What must come of `asked`.
    pub fn expected(&self, asked: &Asked) -> Expected {
        let is_read = asked.method == Method::GET || asked.method == Method::HEAD;
        match asked.uri.path().as_bytes() {
            [b'/', kind @ (b'c' | b'i' | b'v'), b'/', token @ ..]
                if !token.is_empty() && !token.contains(&b'/') =>
            {
                if is_read {
                    self.one(*kind, token, asked)
                } else {
                    Expected::refused(StatusCode::METHOD_NOT_ALLOWED)
                }
            }
            b"/events" if asked.method == Method::POST => {
                Expected { is_for_pages: true, ..self.several(asked) }
            }
            b"/events" if asked.method == Method::OPTIONS => {
                let end = Metric::EventCallsUncounted;
                let allowed = Expected::new(StatusCode::NO_CONTENT, end, Answer::Nothing);
                // A preflight is kept, for as long as it says itself.
                Expected { is_never_kept: false, is_for_pages: true, ..allowed }
            }
            b"/events" => Expected::refused(StatusCode::METHOD_NOT_ALLOWED),
            _ if is_grpc(asked) => Expected {
                end: None,
                is_never_kept: false,
                answer: Answer::Anything,
                ..Expected::refused(StatusCode::OK)
            },
            _ => Expected::refused(StatusCode::NOT_FOUND),
        }
    }

    fn one(&self, url: u8, token: &[u8], asked: &Asked) -> Expected {
        let kind = match url {
            b'c' => Kind::Click,
            b'i' => Kind::Impression,
            _ => Kind::Conversion,
        };
        let Some(showing) = self.tokens.showing(token) else {
            return Expected::refused(StatusCode::NOT_FOUND);
        };
        if is_over(kind, &showing, NOON_US) {
            return Expected::refused(StatusCode::GONE);
        }
        if kind == Kind::Click && showing.ad.0 != KNOWN {
            return Expected::refused(StatusCode::NOT_FOUND);
        }
        let (tag, value_micros) = match (kind, conversion(asked.uri.query().unwrap_or_default())) {
            (Kind::Conversion, None) => return Expected::refused(StatusCode::BAD_REQUEST),
            (Kind::Conversion, Some(told)) => told,
            _ => (String::new(), 0),
        };
        let mut expected = match kind {
            Kind::Click => {
                let token = std::str::from_utf8(token).unwrap();
                let location = Some(LANDING.replace("{click_token}", token));
                let found = StatusCode::FOUND;
                let led = Expected::new(found, Metric::EventCallsTaken, Answer::Nothing);
                Expected { location, ..led }
            }
            _ => Expected::new(StatusCode::OK, Metric::EventCallsTaken, Answer::Pixel),
        };
        if is_ahead_or_head(asked) {
            return Expected { end: Some(Metric::EventCallsUncounted), ..expected };
        }
        let is_told_by_a_visitor = kind != Kind::Conversion;
        let filtered_by = if is_told_by_a_visitor { self.bot(asked) } else { None };
        if kind == Kind::Impression && showing.on_impression && filtered_by.is_none() {
            expected.settled.push((true, showing, NOON_US));
        }
        if asked.is_broken {
            expected.end = Some(Metric::EventCallsFailed);
            if kind == Kind::Conversion {
                expected.status = StatusCode::SERVICE_UNAVAILABLE;
                expected.answer = Answer::Words;
            }
            return expected;
        }
        expected.fates[usize::from(filtered_by.is_some())] = 1;
        let event = Event { kind, showing, at_us: NOON_US, tag, value_micros, filtered_by };
        expected.recorded.push(event);
        expected
    }

    fn several(&self, asked: &Asked) -> Expected {
        let refused = |status| Expected { answer: Answer::Error, ..Expected::refused(status) };
        let kind = asked.headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
        let kind = kind.unwrap_or(b"text/plain").split(|byte| *byte == b';').next();
        let kind = kind.unwrap_or_default().trim_ascii().to_ascii_lowercase();
        if kind != b"application/json" && kind != b"text/plain" {
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        if asked.body.len() > 1 << 20 {
            return refused(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let told = std::str::from_utf8(&asked.body).ok();
        let told = told.and_then(|text| json::from_str::<RecordEventsRequest>(text).ok());
        let told = told.filter(|told| told.events.len() <= 1_000).map(|told| told.events);
        let Some(told) = told.filter(|told| told.iter().all(is_well_formed)) else {
            return refused(StatusCode::BAD_REQUEST);
        };
        let is_page = asked.headers.contains_key(header::ORIGIN);
        let bot = if is_page { self.bot(asked) } else { None };
        let mut expected = Expected::new(StatusCode::OK, Metric::EventCallsTaken, Answer::Nothing);
        let results: Vec<_> =
            told.iter().map(|event| self.fate(event, bot.as_deref(), &mut expected)).collect();
        if asked.is_broken && !expected.recorded.is_empty() {
            let failed = refused(StatusCode::SERVICE_UNAVAILABLE);
            let end = Some(Metric::EventCallsFailed);
            return Expected { end, answer: Answer::Words, ..failed };
        }
        for result in &results {
            expected.fates[match result {
                EventResult::Accepted => 0,
                EventResult::Filtered => 1,
                _ => 2,
            }] += 1;
        }
        Expected { answer: Answer::Results(results), ..expected }
    }

    /// What becomes of a well-formed event, and of what it settles and records.
    fn fate(&self, told: &wire::Event, bot: Option<&str>, expected: &mut Expected) -> EventResult {
        let mut at_us = NOON_US;
        let said = told.occurred_at.as_ref().filter(|_| self.trusts_occurred_at);
        if let Some(said) = said {
            // The years 1 to 9999.
            let years = -62_135_596_800..=253_402_300_799;
            if !years.contains(&said.seconds) || !(0..1_000_000_000).contains(&said.nanos) {
                return EventResult::BadTime;
            }
            let said_us = said.seconds * 1_000_000 + i64::from(said.nanos / 1_000);
            at_us = said_us.min(NOON_US + MINUTE_US);
        }
        let kind = match told.kind() {
            EventKind::Click => Kind::Click,
            EventKind::Conversion => Kind::Conversion,
            // A loss is told while an impression could still come.
            _ => Kind::Impression,
        };
        let Some(showing) = self.tokens.showing(told.token.as_bytes()) else {
            return EventResult::BadToken;
        };
        if is_over(kind, &showing, at_us) {
            return EventResult::Expired;
        }
        if said.is_some() {
            at_us = at_us.max(showing.issued_at_ms * 1_000);
        }
        if told.kind() == EventKind::Loss {
            expected.settled.push((false, showing, at_us));
            return EventResult::Accepted;
        }
        if kind == Kind::Impression && showing.on_impression && bot.is_none() {
            expected.settled.push((true, showing, at_us));
        }
        expected.recorded.push(Event {
            kind,
            showing,
            at_us,
            tag: told.conversion_id.clone(),
            value_micros: told.value_micros,
            filtered_by: bot.map(str::to_owned),
        });
        if bot.is_some() { EventResult::Filtered } else { EventResult::Accepted }
    }

    fn bot(&self, asked: &Asked) -> Option<String> {
        let agent = asked.headers.get(header::USER_AGENT)?;
        self.bots.named(agent.as_bytes()).map(str::to_owned)
    }
}

/// Whether its life for `kind` has ended, whose last moment is inclusive.
fn is_over(kind: Kind, showing: &Showing, at_us: i64) -> bool {
    let life_ms = match kind {
        Kind::Impression => DAY_MS / 24,
        Kind::Click => DAY_MS,
        Kind::Conversion => 30 * DAY_MS,
    };
    at_us.div_euclid(1_000) - showing.issued_at_ms > life_ms
}

fn is_grpc(asked: &Asked) -> bool {
    let kind = asked.headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Whether nobody has done anything yet.
fn is_ahead_or_head(asked: &Asked) -> bool {
    let purposes = ["sec-purpose", "purpose", "x-moz"];
    let mut values = purposes.iter().flat_map(|name| asked.headers.get_all(*name));
    asked.method == Method::HEAD
        || values.any(|value| {
            value.as_bytes().trim_ascii_start().to_ascii_lowercase().starts_with(b"prefetch")
        })
}

/// The id and the value of a conversion's URL; nothing where they will not do.
fn conversion(query: &str) -> Option<(String, i64)> {
    let (mut ids, mut values) = (Vec::new(), Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, said) = pair.split_once('=').unwrap_or((pair, ""));
        match decoded(name).as_str() {
            "id" => ids.push(decoded(said)),
            "value" => values.push(decoded(said)),
            _ => {}
        }
    }
    if ids.len() > 1 || values.len() > 1 {
        return None;
    }
    let (id, value) = (ids.pop().unwrap_or_default(), values.pop().unwrap_or_default());
    let value = if value.is_empty() { 0 } else { value.parse().ok()? };
    is_id(&id).then_some((id, value))
}

/// A part of a query as a form writes it.
fn decoded(part: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), part.as_bytes());
    while let [first, behind @ ..] = rest {
        rest = behind;
        let hex = |digit: u8| char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok());
        bytes.push(match (first, behind) {
            (b'+', _) => b' ',
            (b'%', [high, low, behind @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    rest = behind;
                    high << 4 | low
                }
                _ => b'%',
            },
            _ => *first,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_id(id: &str) -> bool {
    id.len() <= 128 && !id.chars().any(char::is_control)
}

fn is_well_formed(told: &wire::Event) -> bool {
    match EventKind::try_from(told.kind) {
        Ok(EventKind::Conversion) => is_id(&told.conversion_id),
        Ok(EventKind::Impression | EventKind::Click | EventKind::Loss) => {
            told.conversion_id.is_empty() && told.value_micros == 0
        }
        Ok(EventKind::Unspecified) | Err(_) => false,
    }
}
