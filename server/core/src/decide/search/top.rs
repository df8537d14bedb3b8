//! The best candidates found so far.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// One ad of the zone, ranked.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its place in [`crate::index::ZoneBlock::entries`].
    pub position: u32,
    /// See [`super::score`].
    pub score: f64,
    /// Distinct request keywords that it has.
    pub matched: u32,
    /// Its campaign's tier.
    pub tier: i32,
    /// Decides between equals, the highest first: uniform in (0, 1) and independent.
    pub(crate) key: f64,
}

/// A better one is greater.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        // Scores are finite and not negative, where the total order is the usual one and equal
        // means bitwise equal. The position only keeps the order total when two keys are equal,
        // too.
        self.tier
            .cmp(&other.tier)
            .then_with(|| self.score.total_cmp(&other.score))
            .then_with(|| self.key.total_cmp(&other.key))
            .then_with(|| other.position.cmp(&self.position))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// So many of the best candidates of one tier.
pub(super) struct Top {
    wanted: usize,
    /// The worst on top.
    found: BinaryHeap<std::cmp::Reverse<Candidate>>,
    bar: f64,
    key: f64,
}

/// Below every score.
const NO_BAR: f64 = -1.0;

impl Top {
    /// Room for `wanted`, at least one.
    pub(super) fn new(wanted: usize) -> Self {
        Self { wanted, found: BinaryHeap::new(), bar: NO_BAR, key: 0.0 }
    }

    pub(super) fn set_wanted(&mut self, wanted: usize) {
        self.wanted = wanted;
    }

    /// What is below this score is not among the best.
    pub(super) fn bar(&self) -> f64 {
        self.bar
    }

    /// Among those that have just the score of the bar, what has no higher key than this is not
    /// among the best.
    pub(super) fn bar_key(&self) -> f64 {
        self.key
    }

    /// Whether there are as many as wanted, so that each further one drives one out.
    pub(super) fn is_full(&self) -> bool {
        self.bar >= 0.0
    }

    pub(super) fn takes(&self, score: f64, key: f64) -> bool {
        score > self.bar || score == self.bar && key > self.key
    }

    /// Adds one that it takes.
    pub(super) fn push(&mut self, candidate: Candidate) {
        self.found.push(std::cmp::Reverse(candidate));
        if self.found.len() > self.wanted {
            self.found.pop();
        }
        if self.found.len() == self.wanted
            && let Some(worst) = self.found.peek()
        {
            (self.bar, self.key) = (worst.0.score, worst.0.key);
        }
    }

    /// Moves what was found behind what is in `all`, best first, and begins anew.
    pub(super) fn take_into(&mut self, all: &mut Vec<Candidate>) {
        let found = std::mem::take(&mut self.found).into_sorted_vec();
        all.extend(found.into_iter().map(|candidate| candidate.0));
        (self.bar, self.key) = (NO_BAR, 0.0);
    }
}
