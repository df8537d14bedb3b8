//! What shall be sent when: by a schedule that waits for nobody, or as answers come.

use std::collections::VecDeque;
use std::time::Duration;

use crate::engine::ns;
use crate::limits::QUEUE_MAX;
use crate::meter::Meter;
use crate::schedule::Schedule;

/// Who says when.
pub(crate) enum Beat {
    /// An open loop: the schedule alone.
    Open(Schedule),
    /// A closed loop: so many are always under way, until `end_ns` or until none is `left`.
    Closed { in_flight: usize, end_ns: u64, left: u64 },
}

/// What is due and waits to be sent.
pub(crate) struct Pace {
    beat: Beat,
    waiting: VecDeque<u64>,
    /// What has become due since it was last asked.
    come: Vec<u64>,
    /// Decisions of each.
    weight: u64,
    /// What has waited longer is not sent any more.
    patience_ns: u64,
    is_over: bool,
}

impl Pace {
    pub(crate) fn new(beat: Beat, weight: u64, patience: Duration) -> Self {
        let (waiting, come, patience_ns) = (VecDeque::new(), Vec::new(), ns(patience));
        Self { beat, waiting, come, weight, patience_ns, is_over: false }
    }

    /// Adds what has become due, where so many are `open`; and leaves out what has waited for too
    /// long.
    pub(crate) fn fill(&mut self, now_ns: u64, open: usize, meter: &mut Meter) {
        while let Some(front) = self.waiting.front()
            && now_ns > front + self.patience_ns
        {
            self.waiting.pop_front();
            meter.not_sent(now_ns, self.weight);
        }
        match &mut self.beat {
            Beat::Open(schedule) => {
                while let Some(intended) = schedule.take(now_ns) {
                    meter.intended(intended, self.weight);
                    self.come.push(intended);
                    if self.waiting.len() < QUEUE_MAX {
                        self.waiting.push_back(intended);
                    } else {
                        meter.not_sent(now_ns, self.weight);
                    }
                }
                self.is_over = schedule.next_ns().is_none();
            }
            Beat::Closed { in_flight, end_ns, left } => {
                self.is_over = now_ns >= *end_ns || *left == 0;
                while !self.is_over && open + self.waiting.len() < *in_flight {
                    *left -= 1;
                    self.is_over = *left == 0;
                    meter.intended(now_ns, self.weight);
                    self.waiting.push_back(now_ns);
                }
            }
        }
    }

    /// What has become due was sent by `now_ns`, as far as it is up to us: what waits now waits for
    /// the server.
    pub(crate) fn came(&mut self, now_ns: u64, meter: &mut Meter) {
        for intended_ns in self.come.drain(..) {
            meter.came_to(intended_ns, now_ns);
        }
    }

    /// How many wait.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When the next should have been sent.
    #[inline]
    pub(crate) fn front(&self) -> Option<u64> {
        self.waiting.front().copied()
    }

    /// It is sent.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.waiting.pop_front();
    }

    /// When there is something to send. What waits for the server, and a closed loop, go on as soon as
    /// an answer has come: at the next turn.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        match &self.beat {
            _ if !self.waiting.is_empty() => Some(0),
            Beat::Open(schedule) => schedule.next_ns(),
            Beat::Closed { .. } => Some(0),
        }
    }

    /// Whether nothing waits, and nothing more becomes due.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_over && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PATIENCE;
    use crate::meter::Window;
    use crate::schedule::Arrivals;

    const SECOND: u64 = 1_000_000_000;

    fn meter() -> Meter {
        Meter::new(Window { from_ns: 0, to_ns: 100 * SECOND }, 1_000).unwrap()
    }

    #[test]
    fn what_nobody_takes_is_not_sent_and_said() {
        let schedule = Schedule::new(Arrivals::Constant, 100_000.0, 4 * SECOND, 1);
        let (mut pace, mut meter) = (Pace::new(Beat::Open(schedule), 1, PATIENCE), meter());
        pace.fill(4 * SECOND, 0, &mut meter);
        assert_eq!(pace.waiting(), QUEUE_MAX);
        assert_eq!(meter.counts.intended, 399_999);
        assert_eq!(meter.counts.not_sent, 399_999 - QUEUE_MAX as u64);
        assert!(!pace.has_ended());
        pace.fill(20 * SECOND, 0, &mut meter);
        assert_eq!(meter.counts.not_sent, 399_999, "it has waited too long");
        assert!(pace.has_ended());
    }

    #[test]
    fn what_is_of_no_use_any_more_is_dropped_and_the_rest_is_sent() {
        let schedule = Schedule::new(Arrivals::Constant, 1_000.0, SECOND, 1);
        let patience = Duration::from_millis(50);
        let (mut pace, mut meter) = (Pace::new(Beat::Open(schedule), 1, patience), meter());
        // One is due each millisecond, from the first on; nobody takes them until the hundredth.
        pace.fill(100_000_000, 0, &mut meter);
        assert_eq!((pace.waiting(), meter.counts.not_sent), (100, 0));
        pace.fill(100_000_001, 0, &mut meter);
        assert_eq!((pace.waiting(), meter.counts.not_sent), (50, 50));
        assert_eq!(pace.front(), Some(51_000_000));
    }

    #[test]
    fn a_closed_loop_keeps_so_many_under_way() {
        let beat = Beat::Closed { in_flight: 3, end_ns: SECOND, left: u64::MAX };
        let (mut pace, mut meter) = (Pace::new(beat, 16, PATIENCE), meter());
        pace.fill(5, 0, &mut meter);
        assert_eq!((pace.waiting(), pace.front()), (3, Some(5)));
        (0..3).for_each(|_| pace.pop());
        pace.fill(6, 2, &mut meter);
        assert_eq!((pace.waiting(), pace.front()), (1, Some(6)));
        assert_eq!(meter.counts.intended, 4 * 16);
        pace.pop();
        pace.fill(SECOND, 0, &mut meter);
        assert!(pace.has_ended());
    }

    #[test]
    fn a_closed_loop_ends_when_none_is_left() {
        let beat = Beat::Closed { in_flight: 3, end_ns: SECOND, left: 4 };
        let (mut pace, mut meter) = (Pace::new(beat, 1, PATIENCE), meter());
        pace.fill(5, 0, &mut meter);
        assert_eq!(pace.waiting(), 3);
        (0..3).for_each(|_| pace.pop());
        pace.fill(6, 0, &mut meter);
        assert_eq!((pace.waiting(), pace.has_ended()), (1, false));
        pace.pop();
        assert!(pace.has_ended());
    }
}
