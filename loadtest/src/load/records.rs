//! Impressions as a server tells of them: many in one call of `EventService.RecordEvents`.

use crate::check::{self, TOKEN_CHARS};
use crate::grpc::Messages;
use crate::h2::connection::End;
use crate::h2::head::Head;
use crate::lanes::Lane;
use crate::load::common::{Verdict, cut_off};
use crate::load::follow::Showing;
use crate::meter::Meter;
use crate::workload::encode::{begin_message, end_message, put_bytes};

/// The call.
pub(crate) const RECORD_EVENTS: &str = "/slotwise.v1.EventService/RecordEvents";

/// Tags: `events` of the call, `kind` and `token` of an event.
const EVENTS_TAG: u8 = 1 << 3 | 2;
const KIND_TAG: u8 = 1 << 3;
const TOKEN_TAG: u8 = 2 << 3 | 2;
/// EVENT_KIND_IMPRESSION, EVENT_RESULT_ACCEPTED.
const IMPRESSION: u8 = 1;
const ACCEPTED: u64 = 1;
/// Bytes of one event, and in the call.
const EVENT_BYTES: usize = 2 + 2 + TOKEN_CHARS;
const _: () = assert!(EVENT_BYTES < 128, "its length is one byte");

/// One call.
pub(crate) struct Call {
    due_ns: Vec<u64>,
    verdict: Verdict,
    messages: Messages,
    results: Vec<u64>,
    is_bad: bool,
}

/// Sends impressions and looks at their results.
pub(crate) struct Records {
    pub(crate) meter: Meter,
    /// Accepted: the server has them.
    pub(crate) acknowledged: u64,
    body: Vec<u8>,
    lane: usize,
}

impl Records {
    pub(crate) fn new(meter: Meter) -> Self {
        Self { meter, acknowledged: 0, body: Vec::new(), lane: 0 }
    }

    /// Sends `showings` in one call over `lanes`; nothing, where none of them has room.
    pub(crate) fn send<'a, T: From<Call>>(
        &mut self,
        showings: impl Iterator<Item = &'a Showing>,
        lanes: &mut [Lane<T>],
    ) -> bool {
        self.body.clear();
        let at = begin_message(&mut self.body);
        let mut due_ns = Vec::new();
        for showing in showings {
            self.body.push(EVENTS_TAG);
            self.body.push(u8::try_from(EVENT_BYTES).unwrap_or_default());
            self.body.extend_from_slice(&[KIND_TAG, IMPRESSION]);
            put_bytes(&mut self.body, TOKEN_TAG, &showing.token);
            due_ns.push(showing.due_ns);
        }
        end_message(&mut self.body, at);
        let call = Call {
            due_ns,
            verdict: Verdict::default(),
            messages: Messages::default(),
            results: Vec::new(),
            is_bad: false,
        };
        for _ in 0..lanes.len() {
            self.lane = (self.lane + 1) % lanes.len();
            let connection = &mut lanes[self.lane].connection;
            if connection.has_room(self.body.len()) {
                connection.begin(call.into(), None, &self.body, true);
                return true;
            }
        }
        false
    }

    /// When the first of a call should have been sent.
    pub(crate) fn intended_ns(call: &Call) -> u64 {
        call.due_ns.first().copied().unwrap_or_default()
    }

    pub(crate) fn head(call: &mut Call, head: &Head) {
        call.verdict.take(head);
    }

    pub(crate) fn data(call: &mut Call, bytes: &[u8]) {
        let Call { messages, results, is_bad, .. } = call;
        messages.feed(bytes, |message| match check::event_results(message) {
            Ok(read) => *results = read,
            Err(_) => *is_bad = true,
        });
    }

    pub(crate) fn end(&mut self, call: &Call, end: End, now_ns: u64) {
        let weight = call.due_ns.len() as u64;
        if end != End::Whole {
            return cut_off(&mut self.meter, end, now_ns, weight);
        }
        if let Some(how) = call.verdict.refused() {
            return self.meter.refused(how, now_ns, weight);
        }
        if !call.verdict.is_there() || call.is_bad || call.results.len() != call.due_ns.len() {
            return self.meter.wrong("not as many results as events", now_ns, weight);
        }
        for (due_ns, result) in call.due_ns.iter().zip(&call.results) {
            match *result {
                ACCEPTED => {
                    self.acknowledged += 1;
                    self.meter.answered(*due_ns, now_ns, 1);
                }
                2 => self.meter.wrong("a token that the server itself gave is bad", now_ns, 1),
                3 => self.meter.wrong("a fresh token is over", now_ns, 1),
                5 => self.meter.wrong("an impression was taken for a bot's", now_ns, 1),
                _ => self.meter.wrong("a result that there is not", now_ns, 1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use slotwise_proto::v1::{Event, EventKind, RecordEventsRequest};

    use super::*;
    use crate::meter::Window;

    fn records() -> Records {
        Records::new(Meter::new(Window { from_ns: 0, to_ns: 10 }, 100).unwrap())
    }

    fn call(results: &[u64], trailers: &str) -> Call {
        let mut call = Call {
            due_ns: vec![1, 1],
            verdict: Verdict::default(),
            messages: Messages::default(),
            results: results.to_vec(),
            is_bad: false,
        };
        let grpc_status = trailers.parse().ok();
        call.verdict.take(&Head { status: Some(200), grpc_status, ..Head::default() });
        call
    }

    #[test]
    fn a_call_says_what_the_contract_wants() {
        let showing = |byte| Showing { token: [byte; 96], due_ns: 1, landing_url: Vec::new() };
        let (mut records, showings) = (records(), [showing(b'A'), showing(b'B')]);
        let mut lanes: [Lane<Call>; 0] = [];
        assert!(!records.send(showings.iter(), &mut lanes), "nobody has room");
        let event = |letter: &str| Event {
            kind: EventKind::Impression.into(),
            token: letter.repeat(96),
            ..Event::default()
        };
        let expected = RecordEventsRequest { events: vec![event("A"), event("B")] };
        assert_eq!(RecordEventsRequest::decode(&records.body[5..]).unwrap(), expected);
    }

    #[test]
    fn each_result_is_counted() {
        let mut records = records();
        records.end(&call(&[1, 5], "0"), End::Whole, 5);
        assert_eq!((records.acknowledged, records.meter.counts.wrong), (1, 1));
        records.end(&call(&[1], "0"), End::Whole, 5);
        assert_eq!(records.meter.wrong["not as many results as events"], 2);
        records.end(&call(&[], "14"), End::Whole, 5);
        assert_eq!(records.meter.counts.refused, 2);
        records.end(&call(&[], "none"), End::Whole, 5);
        assert_eq!(records.meter.counts.wrong, 5);
        records.end(&call(&[1, 1], "0"), End::GivenUp, 5);
        assert_eq!((records.acknowledged, records.meter.counts.unanswered), (1, 2));
    }
}
