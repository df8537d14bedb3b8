//! Decisions, each in a call of its own, or several in one.

use crate::check::{self, Wrong};
use crate::engine::Load;
use crate::grpc::Messages;
use crate::h2::connection::{End, Receiver};
use crate::h2::head::Head;
use crate::lanes::{Lane, Lanes, open};
use crate::limits::{LANES_AT_ONCE, VISITOR_BYTES_MAX};
use crate::load::common::{Common, Verdict};
use crate::load::follow::FollowUps;

/// The calls.
pub(crate) const UNARY: &str = "/slotwise.v1.AdDecisionService/ChooseAds";
pub(crate) const BATCH: &str = "/slotwise.v1.AdDecisionService/ChooseAdsBatch";

/// One call.
pub(crate) struct Call {
    intended_ns: u64,
    /// Its first request in the pool.
    asked: usize,
    verdict: Verdict,
    answers: usize,
    bytes: u64,
    wrong: Option<Wrong>,
    messages: Messages,
}

/// Sends decisions and looks at their answers.
pub(crate) struct Decide {
    pub(crate) common: Common,
    /// Requests in one call; nothing: a call that takes one.
    batch: Option<usize>,
    lane: usize,
    body: Vec<u8>,
    /// What is done with the ads of right answers.
    pub(crate) follow: Option<FollowUps>,
}

impl Decide {
    pub(crate) fn new(common: Common, batch: Option<usize>) -> Self {
        Self { common, batch, lane: 0, body: Vec::new(), follow: None }
    }

    /// Decisions of one call.
    pub(crate) fn weight(&self) -> usize {
        self.batch.unwrap_or(1)
    }

    /// Bytes that no call's body is longer than.
    pub(crate) fn body_bytes_max(&self) -> usize {
        self.weight() * (self.common.pool.request_bytes_max() + VISITOR_BYTES_MAX)
    }

    fn message(&mut self, call: &mut Call, message: &[u8]) {
        if self.batch.is_none() {
            return self.answer(call, Ok(message));
        }
        for part in check::batch(message) {
            self.answer(call, part);
        }
    }

    #[inline]
    fn answer(&mut self, call: &mut Call, answer: Result<&[u8], Wrong>) {
        let asked = call.asked + call.answers;
        call.answers += 1;
        let looked = answer.and_then(|answer| self.common.look(answer, asked).map(|()| answer));
        match (looked, &mut self.follow) {
            (Ok(answer), Some(follow)) => follow.up(answer, self.common.now_ns),
            (Ok(_), None) => {}
            (Err(wrong), _) => call.wrong = call.wrong.or(Some(wrong)),
        }
    }

    /// Sends what is due over `lanes`.
    pub(crate) fn dispatch<T: From<Call>>(&mut self, lanes: &mut [Lane<T>]) {
        self.common.fill(open(lanes));
        // What is due together goes out on few connections, so that one write takes much of it.
        let share = self.common.pace.waiting().div_ceil(LANES_AT_ONCE.min(lanes.len())).max(1);
        let (mut on_this, mut tried) = (0, 0);
        let bytes_max = self.body_bytes_max();
        while let Some(intended_ns) = self.common.pace.front() {
            if on_this == share {
                (self.lane, on_this) = ((self.lane + 1) % lanes.len(), 0);
            }
            let connection = &mut lanes[self.lane].connection;
            if !connection.has_room(bytes_max) {
                tried += 1;
                if tried > lanes.len() {
                    break;
                }
                (self.lane, on_this) = ((self.lane + 1) % lanes.len(), 0);
                continue;
            }
            self.common.pace.pop();
            (on_this, tried) = (on_this + 1, 0);
            self.body.clear();
            let asked = self.common.put(&mut self.body, self.batch);
            let call = Call {
                intended_ns,
                asked,
                verdict: Verdict::default(),
                answers: 0,
                bytes: 0,
                wrong: None,
                messages: Messages::default(),
            };
            connection.begin(call.into(), None, &self.body, true);
        }
        self.lane = (self.lane + 1) % lanes.len();
    }

    /// What became of a call that has ended as it should.
    fn judge(&mut self, call: Call) {
        let (weight, now_ns) = (self.weight() as u64, self.common.now_ns);
        self.common.answers += weight;
        self.common.answer_bytes += call.bytes;
        let Call { intended_ns, verdict, answers, wrong, messages, .. } = call;
        let is_whole =
            !messages.is_cut() && (self.common.checks.is_noop || answers == self.weight());
        let meter = &mut self.common.meter;
        match (verdict.refused(), wrong) {
            (Some(how), _) => meter.refused(how, now_ns, weight),
            (None, _) if !verdict.is_there() => {
                meter.wrong("an answer without a status", now_ns, weight);
            }
            (None, Some(wrong)) => meter.wrong(wrong, now_ns, weight),
            (None, None) if !is_whole => {
                meter.wrong("not as many answers as requests", now_ns, weight);
            }
            (None, None) => meter.answered(intended_ns, now_ns, weight),
        }
    }
}

impl Load for Decide {
    type Call = Call;

    fn at(&mut self, now_ns: u64) {
        self.common.now_ns = now_ns;
    }

    fn send(&mut self, lanes: &mut Lanes<Call>) {
        self.dispatch(&mut lanes.all);
    }

    fn sent(&mut self, now_ns: u64) {
        self.common.came(now_ns);
    }

    fn due_ns(&self) -> Option<u64> {
        self.common.due_ns()
    }

    fn intended_ns(call: &Call) -> u64 {
        call.intended_ns
    }

    fn has_ended(&self) -> bool {
        self.common.has_ended()
    }

    fn watch(&mut self) {
        self.common.probe.look();
    }

    fn watch_ns(&self) -> Option<u64> {
        self.common.probe.due_ns()
    }
}

impl Receiver<Call> for Decide {
    #[inline]
    fn head(&mut self, call: &mut Call, head: &Head) {
        call.verdict.take(head);
    }

    #[inline]
    fn data(&mut self, call: &mut Call, bytes: &[u8]) {
        call.bytes += bytes.len() as u64;
        let mut messages = std::mem::take(&mut call.messages);
        messages.feed(bytes, |message| self.message(call, message));
        call.messages = messages;
    }

    fn end(&mut self, call: Call, end: End) {
        let weight = self.weight() as u64;
        match end {
            End::Whole => self.judge(call),
            other => self.common.cut_off(other, weight),
        }
    }
}
