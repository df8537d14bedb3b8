//! Counts, by a closed set of names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Keywords of requests that were too long or too many to use.
    KeywordsIgnored,
    /// Decisions made without the visitor's profile, as it was not to be had.
    ProfilesUnavailable,
    /// Impressions and losses that the visitor's profile was not told of.
    ExposuresUnsettled,
}

impl Metric {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::DecisionsFilled,
        Self::DecisionsUnfilled,
        Self::DecisionsRefused,
        Self::DecisionsCancelled,
        Self::KeywordsIgnored,
        Self::ProfilesUnavailable,
        Self::ExposuresUnsettled,
    ];
}

/// The counts since the process began.
#[derive(Debug, Default)]
pub struct Counters([AtomicU64; Metric::ALL.len()]);

impl Counters {
    /// Adds `n` to the count of `metric`.
    pub fn add(&self, metric: Metric, n: u64) {
        if n > 0 {
            self.0[metric as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    /// The count of `metric`.
    pub fn get(&self, metric: Metric) -> u64 {
        self.0[metric as usize].load(Ordering::Relaxed)
    }
}

/// Counts one request as exactly one thing: what it is said to be, or cancelled when it is
/// dropped before.
#[derive(Debug)]
pub struct Outcome {
    counters: Arc<Counters>,
    metric: Metric,
}

impl Outcome {
    /// A request that has begun.
    pub fn new(counters: &Arc<Counters>) -> Self {
        Self { counters: Arc::clone(counters), metric: Metric::DecisionsCancelled }
    }

    /// The request ended so.
    pub fn is(mut self, metric: Metric) {
        self.metric = metric;
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        self.counters.add(self.metric, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_however_it_ends() {
        let counters = Arc::new(Counters::default());
        Outcome::new(&counters).is(Metric::DecisionsFilled);
        drop(Outcome::new(&counters));
        let counts = Metric::ALL.map(|metric| counters.get(metric));
        assert_eq!(counts, [1, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn every_metric_stands_at_its_own_number() {
        for (at, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, at);
        }
    }
}
