//! Clicks, or pixels, by a schedule: each with a token of its own, got beforehand.

use std::collections::VecDeque;

use crate::engine::Load;
use crate::h2::connection::{End, Receiver};
use crate::h2::head::Head;
use crate::lanes::Lanes;
use crate::load::follow::Showing;
use crate::load::gets::{Call, Gets};
use crate::load::pace::Pace;
use crate::load::probe::Probe;

/// Sends GETs by a schedule.
pub(crate) struct Clicks {
    pace: Pace,
    pub(crate) gets: Gets,
    pub(crate) probe: Probe,
    stock: VecDeque<Showing>,
    now_ns: u64,
}

impl Clicks {
    /// As `pace` says, for the showings in `stock`.
    pub(crate) fn new(pace: Pace, gets: Gets, probe: Probe, stock: VecDeque<Showing>) -> Self {
        Self { pace, gets, probe, stock, now_ns: 0 }
    }
}

impl Load for Clicks {
    type Call = Call;

    fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    fn send(&mut self, lanes: &mut Lanes<Call>) {
        self.pace.fill(self.now_ns, lanes.open(), &mut self.gets.meter);
        while let Some(due_ns) = self.pace.front() {
            let Some(showing) = self.stock.pop_front() else {
                self.pace.pop();
                self.gets.meter.not_sent(self.now_ns, 1);
                continue;
            };
            if let Some(back) = self.gets.send(Showing { due_ns, ..showing }, &mut lanes.all) {
                self.stock.push_front(back);
                break;
            }
            self.pace.pop();
        }
    }

    fn sent(&mut self, now_ns: u64) {
        self.pace.came(now_ns, &mut self.gets.meter);
    }

    fn due_ns(&self) -> Option<u64> {
        self.pace.due_ns()
    }

    fn intended_ns(call: &Call) -> u64 {
        Gets::intended_ns(call)
    }

    fn has_ended(&self) -> bool {
        self.pace.has_ended() && self.probe.due_ns().is_none()
    }

    fn watch(&mut self) {
        self.probe.look();
    }

    fn watch_ns(&self) -> Option<u64> {
        self.probe.due_ns()
    }
}

impl Receiver<Call> for Clicks {
    fn head(&mut self, call: &mut Call, head: &Head) {
        Gets::head(call, head);
    }

    fn data(&mut self, call: &mut Call, bytes: &[u8]) {
        Gets::data(call, bytes);
    }

    fn end(&mut self, call: Call, end: End) {
        self.gets.end(&call, end, self.now_ns);
    }
}
