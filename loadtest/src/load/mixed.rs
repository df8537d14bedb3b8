//! Decisions with the impressions and clicks that follow: what a server bears in its day.

use std::collections::VecDeque;

use crate::engine::{Load, ns};
use crate::h2::connection::{End, Receiver};
use crate::h2::head::Head;
use crate::lanes::{Lane, Lanes};
use crate::limits::{EVENTS_IN_CALL, EVENTS_WAIT_MAX, PATIENCE};
use crate::load::decide::{self, Decide};
use crate::load::follow::{FollowUps, Showing};
use crate::load::gets::{self, Gets};
use crate::load::records::{self, Records};
use crate::meter::Meter;

/// One call of any kind.
pub(crate) enum Call {
    Decide(decide::Call),
    Click(gets::Call),
    Pixel(gets::Call),
    Record(records::Call),
}

/// How impressions are told of.
pub(crate) enum Impressions {
    /// Many in a call.
    Records(Records),
    /// Each by a GET of its own.
    Pixels(Gets),
}

/// Sends decisions and what follows them.
pub(crate) struct Mixed {
    pub(crate) decide: Decide,
    pub(crate) clicks: Gets,
    pub(crate) impressions: Impressions,
    /// Connections for decisions, and for clicks; the rest are for impressions.
    decision_lanes: usize,
    click_lanes: usize,
}

impl From<decide::Call> for Call {
    fn from(call: decide::Call) -> Self {
        Self::Decide(call)
    }
}

impl From<records::Call> for Call {
    fn from(call: records::Call) -> Self {
        Self::Record(call)
    }
}

/// Both kinds of GETs are kept apart by where they were sent.
impl From<gets::Call> for Call {
    fn from(call: gets::Call) -> Self {
        if gets::is_click(&call) { Self::Click(call) } else { Self::Pixel(call) }
    }
}

impl Impressions {
    fn meter(&mut self) -> &mut Meter {
        match self {
            Self::Records(records) => &mut records.meter,
            Self::Pixels(gets) => &mut gets.meter,
        }
    }

    /// How many the server has.
    pub(crate) fn acknowledged(&self) -> u64 {
        match self {
            Self::Records(records) => records.acknowledged,
            Self::Pixels(gets) => gets.acknowledged,
        }
    }

    /// What was measured.
    pub(crate) fn into_meter(self) -> Meter {
        match self {
            Self::Records(records) => records.meter,
            Self::Pixels(gets) => gets.meter,
        }
    }
}

impl Mixed {
    /// `decide` must follow its answers up.
    pub(crate) fn new(
        decide: Decide,
        clicks: Gets,
        impressions: Impressions,
        decision_lanes: usize,
        click_lanes: usize,
    ) -> Self {
        Self { decide, clicks, impressions, decision_lanes, click_lanes }
    }

    fn click(&mut self, follow: &mut FollowUps, lanes: &mut [Lane<Call>]) {
        let now_ns = self.decide.common.now_ns;
        expire(&mut follow.clicked, &mut self.clicks.meter, now_ns);
        while let Some(showing) = follow.clicked.pop_front() {
            let due_ns = showing.due_ns;
            if let Some(back) = self.clicks.send(showing, lanes) {
                follow.clicked.push_front(back);
                break;
            }
            self.clicks.meter.intended(due_ns, 1);
        }
    }

    fn impress(&mut self, follow: &mut FollowUps, lanes: &mut [Lane<Call>]) {
        let now_ns = self.decide.common.now_ns;
        expire(&mut follow.seen, self.impressions.meter(), now_ns);
        while let Some(oldest) = follow.seen.front() {
            match &mut self.impressions {
                Impressions::Records(records) => {
                    let is_due = now_ns >= oldest.due_ns + ns(EVENTS_WAIT_MAX);
                    let count = follow.seen.len().min(EVENTS_IN_CALL);
                    if count < EVENTS_IN_CALL && !is_due {
                        break;
                    }
                    if !records.send(follow.seen.range(..count), lanes) {
                        break;
                    }
                    for showing in follow.seen.drain(..count) {
                        records.meter.intended(showing.due_ns, 1);
                    }
                }
                Impressions::Pixels(gets) => {
                    let Some(showing) = follow.seen.pop_front() else { break };
                    let due_ns = showing.due_ns;
                    if let Some(back) = gets.send(showing, lanes) {
                        follow.seen.push_front(back);
                        break;
                    }
                    gets.meter.intended(due_ns, 1);
                }
            }
        }
    }
}

/// Leaves out what has waited for too long.
fn expire(queue: &mut VecDeque<Showing>, meter: &mut Meter, now_ns: u64) {
    while queue.front().is_some_and(|oldest| now_ns > oldest.due_ns + ns(PATIENCE)) {
        queue.pop_front();
        meter.not_sent(now_ns, 1);
    }
}

impl Load for Mixed {
    type Call = Call;

    fn at(&mut self, now_ns: u64) {
        self.decide.common.now_ns = now_ns;
    }

    fn send(&mut self, lanes: &mut Lanes<Call>) {
        let (decisions, events) = lanes.all.split_at_mut(self.decision_lanes);
        let (clicks, impressions) = events.split_at_mut(self.click_lanes);
        self.decide.dispatch(decisions);
        let Some(mut follow) = self.decide.follow.take() else { return };
        self.click(&mut follow, clicks);
        self.impress(&mut follow, impressions);
        let dropped = std::mem::take(&mut follow.dropped);
        if dropped > 0 {
            self.impressions.meter().not_sent(self.decide.common.now_ns, dropped);
        }
        self.decide.follow = Some(follow);
    }

    fn sent(&mut self, now_ns: u64) {
        self.decide.common.came(now_ns);
    }

    fn due_ns(&self) -> Option<u64> {
        let waits = self.decide.follow.as_ref().is_some_and(|follow| !follow.is_empty());
        if waits { Some(0) } else { self.decide.common.due_ns() }
    }

    fn intended_ns(call: &Call) -> u64 {
        match call {
            Call::Decide(call) => Decide::intended_ns(call),
            Call::Click(call) | Call::Pixel(call) => Gets::intended_ns(call),
            Call::Record(call) => Records::intended_ns(call),
        }
    }

    fn has_ended(&self) -> bool {
        let waits = self.decide.follow.as_ref().is_some_and(|follow| !follow.is_empty());
        self.decide.common.has_ended() && !waits
    }

    fn watch(&mut self) {
        self.decide.common.probe.look();
    }

    fn watch_ns(&self) -> Option<u64> {
        self.decide.common.probe.due_ns()
    }
}

impl Receiver<Call> for Mixed {
    #[inline]
    fn head(&mut self, call: &mut Call, head: &Head) {
        match call {
            Call::Decide(call) => self.decide.head(call, head),
            Call::Click(call) | Call::Pixel(call) => Gets::head(call, head),
            Call::Record(call) => Records::head(call, head),
        }
    }

    #[inline]
    fn data(&mut self, call: &mut Call, bytes: &[u8]) {
        match call {
            Call::Decide(call) => self.decide.data(call, bytes),
            Call::Click(call) | Call::Pixel(call) => Gets::data(call, bytes),
            Call::Record(call) => Records::data(call, bytes),
        }
    }

    fn end(&mut self, call: Call, end: End) {
        let now_ns = self.decide.common.now_ns;
        match (call, &mut self.impressions) {
            (Call::Decide(call), _) => self.decide.end(call, end),
            (Call::Click(call), _) => self.clicks.end(&call, end, now_ns),
            (Call::Pixel(call), Impressions::Pixels(gets)) => gets.end(&call, end, now_ns),
            (Call::Record(call), Impressions::Records(records)) => records.end(&call, end, now_ns),
            // Only what is sent comes back.
            (Call::Pixel(_), _) | (Call::Record(_), _) => {}
        }
    }
}
