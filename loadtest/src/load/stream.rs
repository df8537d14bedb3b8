//! Decisions over long-lived streams: an answer for each request, in order.

use std::collections::VecDeque;

use crate::engine::Load;
use crate::grpc::Messages;
use crate::h2::connection::{End, Receiver};
use crate::h2::head::Head;
use crate::lanes::Lanes;
use crate::limits::{STREAM_AHEAD_MAX, STREAMS_AT_ONCE, VISITOR_BYTES_MAX};
use crate::load::common::{Common, Verdict};
use crate::workload::encode::GRPC_PREFIX_BYTES;

/// The call.
pub(crate) const STREAM: &str = "/slotwise.v1.AdDecisionService/ChooseAdsStream";

/// One stream.
pub(crate) struct Call {
    /// Which of ours it is.
    channel: usize,
    /// Requests without an answer: when each should have been sent, and its number in the pool.
    asked: VecDeque<(u64, usize)>,
    verdict: Verdict,
    messages: Messages,
    /// When we said that nothing more comes.
    finished_ns: Option<u64>,
}

/// Where one of our streams is now.
struct Channel {
    lane: usize,
    stream: Option<u32>,
}

/// Sends decisions over streams.
pub(crate) struct Streams {
    pub(crate) common: Common,
    channels: Vec<Channel>,
    turn: usize,
    under_way: usize,
    body: Vec<u8>,
    /// Streams that ended although we had not finished them.
    pub(crate) ended_early: u64,
}

impl Streams {
    /// So many streams on each of so many connections.
    pub(crate) fn new(common: Common, lanes: usize, each: usize) -> Self {
        // Neighbours are on different connections.
        let channels = (0..lanes * each).map(|at| Channel { lane: at % lanes, stream: None });
        Self {
            common,
            channels: channels.collect(),
            turn: 0,
            under_way: 0,
            body: Vec::new(),
            ended_early: 0,
        }
    }

    /// Opens what is not open.
    fn open(&mut self, lanes: &mut Lanes<Call>) {
        for (at, channel) in self.channels.iter_mut().enumerate() {
            let connection = &mut lanes.all[channel.lane].connection;
            if channel.stream.is_none() && connection.has_room(0) {
                let call = Call {
                    channel: at,
                    asked: VecDeque::new(),
                    verdict: Verdict::default(),
                    messages: Messages::default(),
                    finished_ns: None,
                };
                channel.stream = Some(connection.begin(call, None, &[], false));
            }
        }
    }

    /// Sends at most `share` requests over one stream; how many.
    fn send_on(&mut self, at: usize, share: usize, lanes: &mut Lanes<Call>) -> usize {
        let Channel { lane, stream: Some(stream) } = self.channels[at] else { return 0 };
        let connection = &mut lanes.all[lane].connection;
        let room = usize::try_from(connection.room_on(stream)).unwrap_or_default();
        let Some(call) = connection.call_mut(stream) else { return 0 };
        let request_max = self.common.pool.request_bytes_max() + VISITOR_BYTES_MAX;
        let ahead = STREAM_AHEAD_MAX.saturating_sub(call.asked.len());
        let share = share.min(ahead).min(room / request_max);
        self.body.clear();
        let mut count = 0;
        while count < share
            && let Some(intended_ns) = self.common.pace.front()
        {
            self.common.pace.pop();
            let asked = self.common.put(&mut self.body, None);
            call.asked.push_back((intended_ns, asked));
            count += 1;
        }
        if count > 0 {
            connection.send(stream, &self.body, false);
        }
        self.under_way += count;
        count
    }

    /// Says on each stream that nothing more comes.
    fn finish(&mut self, lanes: &mut Lanes<Call>) {
        for channel in &self.channels {
            let Some(stream) = channel.stream else { continue };
            let connection = &mut lanes.all[channel.lane].connection;
            let Some(call) = connection.call_mut(stream) else { continue };
            if call.finished_ns.is_none() {
                call.finished_ns = Some(self.common.now_ns);
                connection.finish(stream);
            }
        }
    }

    fn answer(&mut self, call: &mut Call, message: &[u8]) {
        let now_ns = self.common.now_ns;
        let Some((intended_ns, asked)) = call.asked.pop_front() else {
            return self.common.meter.wrong("an answer without a request", now_ns, 1);
        };
        self.under_way -= 1;
        self.common.answers += 1;
        self.common.answer_bytes += (message.len() + GRPC_PREFIX_BYTES) as u64;
        match self.common.look(message, asked) {
            Ok(()) => self.common.meter.answered(intended_ns, now_ns, 1),
            Err(wrong) => self.common.meter.wrong(wrong, now_ns, 1),
        }
    }
}

impl Load for Streams {
    type Call = Call;

    fn at(&mut self, now_ns: u64) {
        self.common.now_ns = now_ns;
    }

    fn send(&mut self, lanes: &mut Lanes<Call>) {
        self.common.fill(self.under_way);
        if self.common.has_ended() {
            return self.finish(lanes);
        }
        self.open(lanes);
        let count = self.channels.len();
        let share = self.common.pace.waiting().div_ceil(STREAMS_AT_ONCE.min(count));
        // Once round: where nobody has room, the rest waits.
        for _ in 0..count {
            if self.common.pace.front().is_none() {
                break;
            }
            self.send_on(self.turn, share, lanes);
            self.turn = (self.turn + 1) % count;
        }
    }

    fn sent(&mut self, now_ns: u64) {
        self.common.came(now_ns);
    }

    fn due_ns(&self) -> Option<u64> {
        self.common.due_ns()
    }

    /// The oldest request without an answer; a stream on which there is none may stay as it is,
    /// unless we wait for its end.
    fn intended_ns(call: &Call) -> u64 {
        let oldest = call.asked.front().map(|(intended_ns, _)| *intended_ns);
        oldest.or(call.finished_ns).unwrap_or(u64::MAX / 2)
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

impl Receiver<Call> for Streams {
    fn head(&mut self, call: &mut Call, head: &Head) {
        call.verdict.take(head);
    }

    #[inline]
    fn data(&mut self, call: &mut Call, bytes: &[u8]) {
        let mut messages = std::mem::take(&mut call.messages);
        messages.feed(bytes, |message| self.answer(call, message));
        call.messages = messages;
    }

    fn end(&mut self, call: Call, end: End) {
        self.channels[call.channel].stream = None;
        self.under_way -= call.asked.len();
        let left = call.asked.len() as u64;
        if call.finished_ns.is_none() {
            self.ended_early += 1;
        }
        let refused = call.verdict.refused().filter(|_| end == End::Whole);
        match refused {
            Some(how) => self.common.meter.refused(how, self.common.now_ns, left.max(1)),
            // Answered to the end, as it should be.
            None if left == 0 => {}
            None => self.common.cut_off(end, left),
        }
    }
}
