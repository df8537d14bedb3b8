//! What became of everything that should have been sent. Nothing is left out: what was refused,
//! came late, was never answered or never sent stands beside what was answered well.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::check::Wrong;
use crate::limits::{LATENCY_DIGITS, LATENCY_US_MAX};

/// The part of a run that is measured: what was meant to be sent in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Window {
    pub(crate) fn holds(self, ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&ns)
    }

    /// Its length.
    pub(crate) fn seconds(self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a time of minutes")]
        let ns = (self.to_ns - self.from_ns) as f64;
        ns / 1e9
    }
}

/// One second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Second {
    /// That should have been sent in it.
    pub(crate) intended: u64,
    /// That were answered well in it.
    pub(crate) answered: u64,
    /// That ended otherwise in it.
    pub(crate) failed: u64,
    /// Of the answers that came in it, from the instant at which each should have been sent.
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
}

/// Sums over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// That should have been sent.
    pub(crate) intended: u64,
    /// That were answered well.
    pub(crate) answered: u64,
    /// Of these, later than said.
    pub(crate) late: u64,
    /// Whose answer was wrong.
    pub(crate) wrong: u64,
    /// That the server refused, with a status or by ending the stream.
    pub(crate) refused: u64,
    /// Whose connection broke.
    pub(crate) broken: u64,
    /// That had no answer when we stopped waiting.
    pub(crate) unanswered: u64,
    /// That were never sent: the server let no more in, and the queue was full.
    pub(crate) not_sent: u64,
    /// That were answered well within the measured part, whenever they should have been sent.
    pub(crate) answered_in_window: u64,
}

/// Measures one kind of request.
pub(crate) struct Meter {
    pub(crate) window: Window,
    late_us: u64,
    pub(crate) counts: Counts,
    pub(crate) wrong: BTreeMap<Wrong, u64>,
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) latency_us: Histogram<u64>,
    /// From the instant at which something should have been sent until we came to it; what waits
    /// after that waits for the server.
    pub(crate) own_lateness_us: Histogram<u64>,
    second_us: Histogram<u64>,
    second_us_end_ns: u64,
    pub(crate) seconds: Vec<Second>,
}

impl Meter {
    /// Measures in `window`; an answer after `late_us` is late.
    ///
    /// # Errors
    /// When the histograms cannot be made.
    pub(crate) fn new(window: Window, late_us: u64) -> anyhow::Result<Self> {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_US_MAX, LATENCY_DIGITS);
        Ok(Self {
            window,
            late_us,
            counts: Counts::default(),
            wrong: BTreeMap::new(),
            refused: BTreeMap::new(),
            latency_us: histogram()?,
            own_lateness_us: histogram()?,
            second_us: histogram()?,
            second_us_end_ns: 0,
            seconds: vec![Second::default()],
        })
    }

    /// Something should be sent at `intended_ns`.
    #[inline]
    pub(crate) fn intended(&mut self, intended_ns: u64, weight: u64) {
        if self.window.holds(intended_ns) {
            self.counts.intended += weight;
        }
        self.second(intended_ns).intended += weight;
    }

    /// We have come to it.
    #[inline]
    pub(crate) fn came_to(&mut self, intended_ns: u64, now_ns: u64) {
        if self.window.holds(intended_ns) {
            self.own_lateness_us.saturating_record(now_ns.saturating_sub(intended_ns) / 1_000);
        }
    }

    /// It was answered, and well.
    #[inline]
    pub(crate) fn answered(&mut self, intended_ns: u64, now_ns: u64, weight: u64) {
        let latency_us = now_ns.saturating_sub(intended_ns) / 1_000;
        if self.window.holds(intended_ns) {
            self.counts.answered += weight;
            if latency_us > self.late_us {
                self.counts.late += weight;
            }
            self.latency_us.saturating_record(latency_us);
        }
        if self.window.holds(now_ns) {
            self.counts.answered_in_window += weight;
        }
        self.roll(now_ns);
        self.second_us.saturating_record(latency_us);
        self.second(now_ns).answered += weight;
    }

    /// The answer was wrong.
    pub(crate) fn wrong(&mut self, wrong: Wrong, now_ns: u64, weight: u64) {
        self.counts.wrong += weight;
        *self.wrong.entry(wrong).or_default() += weight;
        self.second(now_ns).failed += weight;
    }

    /// The server has refused it.
    pub(crate) fn refused(&mut self, how: String, now_ns: u64, weight: u64) {
        self.counts.refused += weight;
        // The words of a status may differ each time; the first ones say what happens.
        let known = self.refused.len();
        let key = if known < REASONS_MAX || self.refused.contains_key(&how) {
            how
        } else {
            OTHER.to_owned()
        };
        *self.refused.entry(key).or_default() += weight;
        self.second(now_ns).failed += weight;
    }

    /// Its connection has broken.
    pub(crate) fn broken(&mut self, now_ns: u64, weight: u64) {
        self.counts.broken += weight;
        self.second(now_ns).failed += weight;
    }

    /// It was given up.
    pub(crate) fn unanswered(&mut self, now_ns: u64, weight: u64) {
        self.counts.unanswered += weight;
        self.second(now_ns).failed += weight;
    }

    /// It was never sent.
    pub(crate) fn not_sent(&mut self, now_ns: u64, weight: u64) {
        self.counts.not_sent += weight;
        self.second(now_ns).failed += weight;
    }

    /// Everything that did not end well.
    pub(crate) fn failed(&self) -> u64 {
        let Counts { wrong, refused, broken, unanswered, not_sent, .. } = self.counts;
        wrong + refused + broken + unanswered + not_sent
    }

    /// Answers a second, within the measured part.
    pub(crate) fn rate(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
        let answered = self.counts.answered_in_window as f64;
        answered / self.window.seconds()
    }

    /// One send of a hundred was later than this for our own reasons.
    pub(crate) fn own_lateness_p99_us(&self) -> u64 {
        if self.own_lateness_us.is_empty() {
            0
        } else {
            self.own_lateness_us.value_at_quantile(0.99)
        }
    }

    /// The last second is over.
    pub(crate) fn finish(&mut self) {
        self.roll(u64::MAX);
    }

    #[inline]
    fn second(&mut self, ns: u64) -> &mut Second {
        let at = usize::try_from(ns / 1_000_000_000).unwrap_or(usize::MAX).min(SECONDS_MAX);
        if at >= self.seconds.len() {
            self.seconds.resize(at + 1, Second::default());
        }
        &mut self.seconds[at]
    }

    /// Writes down the quantiles of the last second that had answers, once another one has begun.
    #[inline]
    fn roll(&mut self, now_ns: u64) {
        if now_ns < self.second_us_end_ns {
            return;
        }
        if !self.second_us.is_empty() {
            let (p50_us, p99_us) =
                (self.second_us.value_at_quantile(0.5), self.second_us.value_at_quantile(0.99));
            let ended_ns = self.second_us_end_ns.saturating_sub(1);
            let second = self.second(ended_ns);
            (second.p50_us, second.p99_us) = (p50_us, p99_us);
            self.second_us.reset();
        }
        self.second_us_end_ns =
            (now_ns / 1_000_000_000).saturating_add(1).saturating_mul(1_000_000_000);
    }
}

/// Ways to be refused that are told apart.
const REASONS_MAX: usize = 32;
const OTHER: &str = "other reasons";
/// Seconds of a run that are told apart: a day.
const SECONDS_MAX: usize = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn meter() -> Meter {
        Meter::new(Window { from_ns: SECOND, to_ns: 3 * SECOND }, 5_000).unwrap()
    }

    #[test]
    fn latency_is_counted_from_the_instant_at_which_it_should_have_been_sent() {
        let mut meter = meter();
        // Both are answered at once, when a stall is over.
        for intended in [SECOND, 2 * SECOND] {
            meter.intended(intended, 1);
            meter.came_to(intended, 2 * SECOND + 1_000_000);
            meter.answered(intended, 2 * SECOND + 2_000_000, 1);
        }
        let close = |us: u64, to: u64| us.abs_diff(to) <= to / 1_000;
        assert!(close(meter.latency_us.max(), 1_002_000), "{}", meter.latency_us.max());
        assert!(close(meter.latency_us.min(), 2_000));
        assert!(close(meter.own_lateness_us.max(), 1_001_000));
        assert_eq!((meter.counts.answered, meter.counts.late), (2, 1));
    }

    #[test]
    fn the_warm_up_is_not_measured_but_its_faults_are() {
        let mut meter = meter();
        meter.intended(0, 1);
        meter.answered(0, 500_000_000, 1);
        assert_eq!(
            (meter.counts.intended, meter.counts.answered, meter.latency_us.len()),
            (0, 0, 0)
        );
        assert_eq!(meter.seconds[0].answered, 1, "the chart shows it");
        meter.wrong("bad", 500_000_000, 1);
        assert_eq!((meter.failed(), meter.wrong["bad"]), (1, 1));
        // An answer of the warm-up that comes while it is measured is one of the rate's.
        meter.answered(0, 2 * SECOND, 16);
        assert_eq!((meter.counts.answered, meter.counts.answered_in_window), (0, 16));
        assert!((meter.rate() - 8.0).abs() < 1e-9);
    }

    #[test]
    fn each_way_to_fail_is_counted_and_shown_in_its_second() {
        let mut meter = meter();
        meter.refused("resource exhausted".to_owned(), SECOND, 1);
        meter.broken(SECOND, 1);
        meter.unanswered(SECOND, 1);
        meter.not_sent(2 * SECOND, 16);
        assert_eq!((meter.failed(), meter.seconds[1].failed, meter.seconds[2].failed), (19, 3, 16));
        for number in 0..2 * REASONS_MAX {
            meter.refused(format!("{number}"), SECOND, 1);
        }
        assert_eq!(meter.refused.len(), REASONS_MAX + 1);
        assert_eq!(meter.refused.values().sum::<u64>(), meter.counts.refused);
    }

    #[test]
    fn each_second_has_the_quantiles_of_its_own_answers() {
        let mut meter = meter();
        for (second, latency_ms) in [(1, 10), (1, 20), (3, 40)] {
            let now = second * SECOND + SECOND / 2;
            meter.answered(now - latency_ms * 1_000_000, now, 1);
        }
        meter.finish();
        let p99: Vec<_> = meter.seconds.iter().map(|second| second.p99_us / 1_000).collect();
        assert_eq!(p99, [0, 20, 0, 40]);
    }
}
