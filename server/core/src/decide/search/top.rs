//! The best candidates found so far.

use std::cmp::Ordering;

use smallvec::SmallVec;

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
    /// Decides between equals, who comes first: the waits are independent and exponential.
    pub(crate) arrival: f64,
}

/// A better one is greater.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        // Scores are finite and not negative, where the total order is the usual one and equal
        // means bitwise equal. The position only keeps the order total when two came at once,
        // too.
        self.tier
            .cmp(&other.tier)
            .then_with(|| self.score.total_cmp(&other.score))
            .then_with(|| other.arrival.total_cmp(&self.arrival))
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

/// Below every score.
const NO_BAR: f64 = -1.0;
/// Up to so many are kept in order; more are gathered and thinned out, as each insertion would
/// move half of them.
const SORTED_MAX: usize = 128;

/// Candidates in their order, best first: of most searches there are few.
pub(super) type Ranking = SmallVec<[Candidate; 4]>;

/// So many of the best candidates of one tier.
pub(super) struct Top {
    wanted: usize,
    found: Ranking,
    bar: f64,
    latest: f64,
}

impl Top {
    /// Room for `wanted`, at least one.
    pub(super) fn new(wanted: usize) -> Self {
        Self { wanted, found: Ranking::new(), bar: NO_BAR, latest: 0.0 }
    }

    /// What is below this score is not among the best.
    pub(super) fn bar(&self) -> f64 {
        self.bar
    }

    /// What has just the score of the bar and comes no sooner than this is not among the best.
    pub(super) fn latest(&self) -> f64 {
        self.latest
    }

    /// Whether there are as many as wanted, so that each further one drives one out.
    pub(super) fn is_full(&self) -> bool {
        self.bar >= 0.0
    }

    pub(super) fn takes(&self, score: f64, arrival: f64) -> bool {
        score > self.bar || score == self.bar && arrival < self.latest
    }

    /// Adds one that it takes.
    pub(super) fn push(&mut self, candidate: Candidate) {
        if self.wanted > SORTED_MAX {
            self.found.push(candidate);
            if self.found.len() == 2 * self.wanted {
                self.found.select_nth_unstable_by(self.wanted - 1, |a, b| b.cmp(a));
                self.found.truncate(self.wanted);
                self.raise();
            }
            return;
        }
        let mut at = self.found.len();
        while at > 0 && self.found[at - 1] < candidate {
            at -= 1;
        }
        self.found.insert(at, candidate);
        self.found.truncate(self.wanted);
        if self.found.len() == self.wanted {
            self.raise();
        }
    }

    fn raise(&mut self) {
        if let Some(worst) = self.found.get(self.wanted - 1) {
            (self.bar, self.latest) = (worst.score, worst.arrival);
        }
    }

    /// Moves what was found behind what is in `all`, best first; then begins anew, with room for
    /// as many less.
    pub(super) fn take_into(&mut self, all: &mut Ranking) {
        if self.wanted > SORTED_MAX {
            self.found.sort_unstable_by(|a, b| b.cmp(a));
            self.found.truncate(self.wanted);
        }
        self.wanted -= self.found.len();
        all.extend(self.found.drain(..));
        (self.bar, self.latest) = (NO_BAR, 0.0);
    }
}
