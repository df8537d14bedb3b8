//! Counts, by a closed set of names.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Everything that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Decisions with at least one ad.
    DecisionsFilled,
    /// Decisions without an ad.
    DecisionsUnfilled,
    /// Decisions refused, for what was asked or for what we could not do.
    DecisionsRefused,
    /// Decisions that the caller gave up.
    DecisionsCancelled,
    /// Decisions that were not begun, as they could not have been answered in time.
    DecisionsShed,
    /// Keywords of requests that were too long or too many to use.
    KeywordsIgnored,
    /// Impressions and clicks that the estimates lack, as there was no room for them.
    IncrementsDropped,
    /// Decisions made without the visitor's profile, as it was not to be had.
    ProfilesUnavailable,
    /// Events that the log took from the doors.
    EventsRecorded,
    /// Events that the log did not take, and this node's disk did; they go to the log later, and
    /// are not counted again then.
    EventsSpilled,
    /// Events that neither took.
    EventsLost,
    /// Parts of the spill file that could not be read back.
    SpillFramesDamaged,
    /// Calls of the event door that were answered, and what they told is durable.
    EventCallsTaken,
    /// Calls of the event door that were answered and do not count: HEAD, prefetches.
    EventCallsUncounted,
    /// Calls of the event door refused: a token that is bad or too old, or something ill-formed.
    EventCallsRefused,
    /// Calls of the event door whose events could not be made durable, or whose ad could not be
    /// named: our fault.
    EventCallsFailed,
    /// Calls of the event door that the caller gave up.
    EventCallsCancelled,
    /// Events that were accepted; repeats included.
    EventsAccepted,
    /// Events of known bots: logged, and not counted.
    EventsFiltered,
    /// Events that were refused.
    EventsRefused,
    /// Events that were counted, late ones included.
    EventsCounted,
    /// Events that were counted after their partition had promised that none would come.
    EventsLate,
    /// Events that had been counted before.
    EventsRepeated,
    /// Batches of the log that could not be counted, and were passed over.
    LogBatchesSetAside,
    /// Impressions and losses that the visitor's profile was not told of.
    ExposuresUnsettled,
}

impl Metric {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 25] = [
        Self::DecisionsFilled,
        Self::DecisionsUnfilled,
        Self::DecisionsRefused,
        Self::DecisionsCancelled,
        Self::DecisionsShed,
        Self::KeywordsIgnored,
        Self::IncrementsDropped,
        Self::ProfilesUnavailable,
        Self::EventsRecorded,
        Self::EventsSpilled,
        Self::EventsLost,
        Self::SpillFramesDamaged,
        Self::EventCallsTaken,
        Self::EventCallsUncounted,
        Self::EventCallsRefused,
        Self::EventCallsFailed,
        Self::EventCallsCancelled,
        Self::EventsAccepted,
        Self::EventsFiltered,
        Self::EventsRefused,
        Self::EventsCounted,
        Self::EventsLate,
        Self::EventsRepeated,
        Self::LogBatchesSetAside,
        Self::ExposuresUnsettled,
    ];
}

/// So many threads count without meeting another; where there are more, some share.
const STRIPES: usize = 16;

/// The counts since the process began, in stripes: two cores that count on one cache line wait
/// for each other at every decision.
#[derive(Debug, Default)]
pub struct Counters([Stripe; STRIPES]);

/// What some threads have counted. Two cache lines are fetched together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; Metric::ALL.len()]);

thread_local! {
    /// Which stripe this thread counts in.
    static STRIPE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
}

impl Counters {
    /// Adds `n` to the count of `metric`.
    pub fn add(&self, metric: Metric, n: u64) {
        if n > 0 {
            let stripe = STRIPE.with(|stripe| *stripe);
            self.0[stripe].0[metric as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    /// The count of `metric`.
    pub fn get(&self, metric: Metric) -> u64 {
        self.0.iter().map(|stripe| stripe.0[metric as usize].load(Ordering::Relaxed)).sum()
    }
}

/// Counts one request as exactly one thing: what it is said to be, or cancelled when it is
/// dropped before.
#[derive(Debug)]
pub struct Outcome<'c> {
    counters: &'c Counters,
    metric: Option<Metric>,
}

impl<'c> Outcome<'c> {
    /// A decision that has begun.
    pub fn new(counters: &'c Counters) -> Self {
        Self { counters, metric: Some(Metric::DecisionsCancelled) }
    }

    /// A call of the event door that has begun.
    pub fn of_event_call(counters: &'c Counters) -> Self {
        Self { counters, metric: Some(Metric::EventCallsCancelled) }
    }

    /// The request ended so.
    pub fn is(mut self, metric: Metric) {
        self.metric = Some(metric);
    }

    /// The request goes on, and is counted by whoever has it now.
    pub fn goes_on(mut self) {
        self.metric = None;
    }
}

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        if let Some(metric) = self.metric {
            self.counters.add(metric, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_however_it_ends() {
        let counters = Counters::default();
        Outcome::new(&counters).is(Metric::DecisionsFilled);
        drop(Outcome::new(&counters));
        drop(Outcome::of_event_call(&counters));
        let counts = Metric::ALL.map(|metric| counters.get(metric));
        let ended =
            [Metric::DecisionsFilled, Metric::DecisionsCancelled, Metric::EventCallsCancelled];
        let expected = Metric::ALL.map(|metric| u64::from(ended.contains(&metric)));
        assert_eq!(counts, expected);
    }

    #[test]
    fn every_metric_stands_at_its_own_number() {
        for (at, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, at);
        }
    }
}
