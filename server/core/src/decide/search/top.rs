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

/// So many of the best candidates of one tier, behind those of the tiers before.
pub(super) struct Top<'s> {
    wanted: usize,
    ranking: &'s mut Ranking,
    /// How many of the ranking are of the tiers before.
    before: usize,
    bar: f64,
    latest: f64,
}

impl<'s> Top<'s> {
    /// Finds `wanted` more for `ranking`, at least one.
    pub(super) fn new(ranking: &'s mut Ranking, wanted: usize) -> Self {
        Self { wanted, before: ranking.len(), ranking, bar: NO_BAR, latest: 0.0 }
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
        let end = self.before + self.wanted;
        if self.wanted > SORTED_MAX {
            self.ranking.push(candidate);
            if self.ranking.len() == end + self.wanted {
                let found = &mut self.ranking[self.before..];
                found.select_nth_unstable_by(self.wanted - 1, |a, b| b.cmp(a));
                self.ranking.truncate(end);
                self.raise();
            }
            return;
        }
        // From the end: what comes later mostly is worse, and most searches want few.
        let better = self.ranking[self.before..].iter().rposition(|one| *one > candidate);
        let at = better.map_or(self.before, |better| self.before + better + 1);
        if self.is_full() {
            // The worst makes room.
            self.ranking.copy_within(at..end - 1, at + 1);
            self.ranking[at] = candidate;
        } else {
            self.ranking.insert(at, candidate);
        }
        if self.ranking.len() == end {
            self.raise();
        }
    }

    fn raise(&mut self) {
        if let Some(worst) = self.ranking.get(self.before + self.wanted - 1) {
            (self.bar, self.latest) = (worst.score, worst.arrival);
        }
    }

    /// Ends the tier: its best stay where they are. Says whether there are as many as wanted.
    pub(super) fn is_done(&mut self) -> bool {
        if self.wanted > SORTED_MAX {
            self.ranking[self.before..].sort_unstable_by(|a, b| b.cmp(a));
            self.ranking.truncate(self.before + self.wanted);
        }
        self.wanted -= self.ranking.len() - self.before;
        self.before = self.ranking.len();
        (self.bar, self.latest) = (NO_BAR, 0.0);
        self.wanted == 0
    }
}
