//! Several events, told in one call.

use futures_util::StreamExt;
use futures_util::stream;
use prost_types::Timestamp;
use slotwise_proto::v1::{self as wire, EventKind, EventResult};
use slotwise_proto::v1::{RecordEventsRequest, RecordEventsResponse};

use super::super::refusal::Refusal;
use super::single::{check_id, event};
use super::{Events, Untaken};
use crate::events::{Event, Kind};
use crate::limits::{EVENTS_IN_CALL_MAX, OCCURRED_AHEAD_MAX, SETTLED_AT_ONCE_MAX};
use crate::telemetry::{Metric, Outcome};
use crate::tokens::Showing;

/// What an event says that its kind is.
#[derive(Clone, Copy)]
enum Told {
    Happened(Kind),
    Lost,
}

/// What a call comes to before anything is done.
#[derive(Default)]
struct Sorted {
    results: Vec<EventResult>,
    durable: Vec<Event>,
    /// Whose holds are settled, when, and whether they were seen; else they were lost.
    settled: Vec<(Showing, i64, bool)>,
}

impl Events {
    /// Records what is sound of `request`, and says of each event what became of it. Everything
    /// that is accepted is durable when this returns.
    ///
    /// # Errors
    /// When an event is ill-formed, or nothing could be made durable; nothing may be taken as
    /// recorded then, and the whole may be sent again.
    pub(super) async fn record_events(
        &self,
        request: RecordEventsRequest,
        filtered_by: Option<String>,
    ) -> Result<RecordEventsResponse, Refusal> {
        let outcome = Outcome::of_event_call(&self.counters);
        let sorted = match self.sort(&request.events, filtered_by) {
            Ok(sorted) => sorted,
            Err(refusal) => {
                outcome.is(Metric::EventCallsRefused);
                return Err(refusal);
            }
        };
        let Sorted { results, durable, settled } = sorted;
        if !durable.is_empty() && self.recorder.record(durable).await.is_err() {
            outcome.is(Metric::EventCallsFailed);
            return Err(Refusal::unavailable(
                "the events could not be made durable; send them again",
            ));
        }
        let settle = async |(showing, at_us, is_seen): (Showing, i64, bool)| match is_seen {
            true => self.settling.seen(&showing, at_us).await,
            false => self.settling.lost(&showing, at_us).await,
        };
        stream::iter(settled).for_each_concurrent(SETTLED_AT_ONCE_MAX, settle).await;
        for result in &results {
            let metric = match result {
                EventResult::Accepted => Metric::EventsAccepted,
                EventResult::Filtered => Metric::EventsFiltered,
                _ => Metric::EventsRefused,
            };
            self.counters.add(metric, 1);
        }
        outcome.is(Metric::EventCallsTaken);
        Ok(RecordEventsResponse { results: results.into_iter().map(Into::into).collect() })
    }

    fn sort(&self, told: &[wire::Event], filtered_by: Option<String>) -> Result<Sorted, Refusal> {
        if told.len() > EVENTS_IN_CALL_MAX {
            let problem = format!("has {} entries; the limit is {EVENTS_IN_CALL_MAX}", told.len());
            return Err(Refusal::invalid("events", problem));
        }
        let now_us = self.clock.now_us();
        let mut sorted = Sorted::default();
        for (at, told) in told.iter().enumerate() {
            let kind = check(at, told)?;
            let result = self.take(told, kind, now_us, &filtered_by, &mut sorted);
            sorted.results.push(result.unwrap_or_else(|refused| refused));
        }
        Ok(sorted)
    }

    /// Sorts one event, or says why it is not taken.
    fn take(
        &self,
        told: &wire::Event,
        kind: Told,
        now_us: i64,
        filtered_by: &Option<String>,
        sorted: &mut Sorted,
    ) -> Result<EventResult, EventResult> {
        let said_us = match &told.occurred_at {
            Some(said) if self.trusts_occurred_at => {
                Some(micros(said).ok_or(EventResult::BadTime)?)
            }
            _ => None,
        };
        let lived = match kind {
            Told::Happened(kind) => kind,
            Told::Lost => Kind::Impression,
        };
        // A trusted caller may tell late what happened in time.
        let at_us = said_us.map_or(now_us, |said_us| said_us.min(now_us + ahead_max_us()));
        let showing = self.open(told.token.as_bytes(), lived, at_us).map_err(|why| match why {
            Untaken::BadToken => EventResult::BadToken,
            Untaken::Expired => EventResult::Expired,
        })?;
        // Nothing happened to it before it was shown.
        let at_us = match said_us {
            Some(_) => at_us.max(showing.issued_at_ms.saturating_mul(1_000)),
            None => at_us,
        };
        let Told::Happened(kind) = kind else {
            sorted.settled.push((showing, at_us, false));
            return Ok(EventResult::Accepted);
        };
        let filtered_by = filtered_by.clone();
        let is_filtered = filtered_by.is_some();
        if kind == Kind::Impression && showing.on_impression && !is_filtered {
            sorted.settled.push((showing, at_us, true));
        }
        sorted.durable.push(Event {
            tag: told.conversion_id.clone(),
            value_micros: told.value_micros,
            ..event(kind, showing, at_us, filtered_by)
        });
        Ok(if is_filtered { EventResult::Filtered } else { EventResult::Accepted })
    }
}

fn ahead_max_us() -> i64 {
    i64::try_from(OCCURRED_AHEAD_MAX.as_micros()).unwrap_or(i64::MAX)
}

/// What no token could mend: the caller's program is wrong.
fn check(at: usize, told: &wire::Event) -> Result<Told, Refusal> {
    let invalid = |field: &str, problem: &str| {
        Err(Refusal::invalid(&format!("events[{at}].{field}"), problem.trim_end()))
    };
    let kind = match EventKind::try_from(told.kind) {
        Ok(EventKind::Impression) => Told::Happened(Kind::Impression),
        Ok(EventKind::Click) => Told::Happened(Kind::Click),
        Ok(EventKind::Conversion) => Told::Happened(Kind::Conversion),
        Ok(EventKind::Loss) => Told::Lost,
        Ok(EventKind::Unspecified) | Err(_) => {
            return invalid("kind", "must be IMPRESSION, CLICK, CONVERSION or LOSS");
        }
    };
    if !matches!(kind, Told::Happened(Kind::Conversion)) {
        if !told.conversion_id.is_empty() {
            return invalid("conversion_id", "only a conversion has one");
        }
        if told.value_micros != 0 {
            return invalid("value_micros", "only a conversion has one");
        }
    }
    match check_id(&told.conversion_id) {
        Ok(()) => Ok(kind),
        Err(problem) => invalid("conversion_id", problem),
    }
}

/// The instant in microseconds; nothing where it is no timestamp of the years 1 to 9999.
fn micros(at: &Timestamp) -> Option<i64> {
    const FIRST: i64 = -62_135_596_800;
    const LAST: i64 = 253_402_300_799;
    let is_one = (FIRST..=LAST).contains(&at.seconds) && (0..1_000_000_000).contains(&at.nanos);
    is_one.then(|| at.seconds * 1_000_000 + i64::from(at.nanos) / 1_000)
}
