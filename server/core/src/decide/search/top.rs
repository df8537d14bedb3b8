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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        // Few scores and arrivals, so that there are ties of both.
        prop::collection::vec((0..12_u8, 0..40_u8), 0..1_500).prop_map(|drawn| {
            let all = drawn.into_iter().zip(0..);
            all.map(|((score, arrival), position)| Candidate {
                position,
                score: f64::from(score),
                matched: 0,
                tier: 0,
                arrival: f64::from(arrival),
            })
            .collect()
        })
    }

    /// The order, said again: score, then who came first, then position.
    fn sorted(mut all: Vec<Candidate>) -> Vec<u32> {
        all.sort_by(|a, b| {
            (b.score, a.arrival, a.position)
                .partial_cmp(&(a.score, b.arrival, b.position))
                .unwrap_or(Ordering::Equal)
        });
        all.iter().map(|candidate| candidate.position).collect()
    }

    proptest! {
        /// Few and many wanted, behind what an earlier tier found.
        #[test]
        fn the_best_are_kept_in_their_order(
            all in candidates(),
            wanted in prop_oneof![1..6_usize, 120..140_usize, 200..500_usize],
            before in 0..3_u32,
        ) {
            let earlier = |position| Candidate {
                position, score: 0.0, matched: 0, tier: 1, arrival: 0.0,
            };
            let mut ranking: Ranking = (0..before).map(|n| earlier(10_000 + n)).collect();
            let mut top = Top::new(&mut ranking, wanted);
            for candidate in &all {
                let is_taken = top.takes(candidate.score, candidate.arrival);
                if top.is_full() {
                    let is_better = (candidate.score, -candidate.arrival) > (top.bar(), -top.latest());
                    prop_assert_eq!(is_taken, is_better);
                } else {
                    prop_assert!(is_taken);
                }
                if is_taken {
                    top.push(*candidate);
                }
                if top.is_full() {
                    // The bar is that of one that is kept, with as many as wanted at or above it.
                    let (bar, latest) = (top.bar(), top.latest());
                    let kept = &top.ranking[before as usize..];
                    let reaches = |one: &&Candidate| (one.score, -one.arrival) >= (bar, -latest);
                    prop_assert!(kept.iter().any(|one| (one.score, one.arrival) == (bar, latest)));
                    prop_assert!(kept.iter().filter(reaches).count() >= wanted);
                }
            }
            let is_done = top.is_done();
            prop_assert_eq!(is_done, all.len() >= wanted);
            let found: Vec<_> = ranking.iter().map(|one| one.position).collect();
            let (first, found) = found.split_at(before as usize);
            let earlier: Vec<_> = (0..before).map(|n| 10_000 + n).collect();
            prop_assert_eq!(first, &earlier);
            let mut best = sorted(all);
            best.truncate(wanted);
            prop_assert_eq!(found, &best);
        }
    }

    #[test]
    fn what_comes_with_the_last_of_the_best_is_not_better() {
        let one = Candidate { position: 1, score: 2.0, matched: 0, tier: 0, arrival: 0.5 };
        let mut ranking = Ranking::new();
        let mut top = Top::new(&mut ranking, 1);
        top.push(one);
        assert!(top.takes(2.0, 0.25));
        assert!(!top.takes(2.0, 0.5));
        assert_eq!((top.bar(), top.latest()), (2.0, 0.5));
    }

    #[test]
    fn only_itself_is_equal() {
        let one = Candidate { position: 1, score: 2.0, matched: 0, tier: 0, arrival: 0.5 };
        assert_eq!(one, one);
        assert_ne!(one, Candidate { position: 2, ..one });
        assert_ne!(one, Candidate { arrival: 0.25, ..one });
    }
}
