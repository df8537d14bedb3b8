//! The resumable best-first search over the ads of one zone.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::LazyLock;

use rand_core::Rng as _;

use super::{Query, Rng};
use crate::index::ZoneBlock;
use crate::model::KEYWORDS_USED_MAX;

/// ln(1.1 + m) for every m that can occur.
static FACTORS: LazyLock<[f64; KEYWORDS_USED_MAX + 1]> =
    LazyLock::new(|| std::array::from_fn(|matched| (1.1 + matched as f64).ln()));

/// eCPM x ln(1.1 + matched), in the account's currency per 1,000 impressions. An ad that matches
/// nothing still competes, with ln 1.1.
pub fn score(ecpm_micros: i64, matched: usize) -> f64 {
    // Below 2^53 by the limit on prices, so nothing is lost.
    let ecpm = ecpm_micros as f64 / 1e6;
    ecpm * FACTORS[matched.min(KEYWORDS_USED_MAX)]
}

/// One ad of the zone, ranked.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its place in [`ZoneBlock::entries`].
    pub position: usize,
    /// See [`score`].
    pub score: f64,
    /// Distinct request keywords that it has.
    pub matched: u32,
    tier: i32,
    tie: u64,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        // Scores are finite and not negative, where the total order is the usual one and equal
        // means bitwise equal. The random number decides between equals; the position only
        // keeps the order total when two of those numbers are equal, too.
        let tiers = self.tier.cmp(&other.tier);
        tiers
            .then_with(|| self.score.total_cmp(&other.score))
            .then_with(|| self.tie.cmp(&other.tie))
            .then_with(|| self.position.cmp(&other.position))
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

/// Gives every ad of a zone once, best first: tier, then score, both descending; equal ones in
/// uniformly random order.
///
/// The caller may stop at any time and go on later: what comes next never depends on what the
/// caller made of what came before. After the last ad it gives `None`, and goes on doing so.
pub struct Search {
    left: BinaryHeap<Candidate>,
}

impl Search {
    /// Ranks all ads of `block` for `query`.
    pub fn new(block: &ZoneBlock, query: &Query, rng: &mut Rng) -> Self {
        let rank = |(position, entry): (usize, &crate::index::Entry)| {
            let matched = query
                .keywords
                .iter()
                .filter(|word| entry.ad.keywords.iter().any(|own| own == *word))
                .count();
            Candidate {
                position,
                score: score(entry.ecpm_micros, matched),
                // At most KEYWORDS_USED_MAX.
                #[allow(clippy::cast_possible_truncation)]
                matched: matched as u32,
                tier: entry.tier,
                tie: rng.next_u64(),
            }
        };
        Self { left: block.entries.iter().enumerate().map(rank).collect::<Vec<_>>().into() }
    }
}

impl Iterator for Search {
    type Item = Candidate;

    fn next(&mut self) -> Option<Candidate> {
        self.left.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_scores() {
        let worked = [
            (250, [23.827_545, 185.484_336, 282.850_528, 352.746_743]),
            (200, [19.062_036, 148.387_469, 226.280_422, 282.197_395]),
        ];
        for (ecpm, scores) in worked {
            for (matched, expected) in scores.into_iter().enumerate() {
                let got = score(ecpm * 1_000_000, matched);
                assert!((got - expected).abs() < 5e-7, "{ecpm} with {matched}: {got}");
            }
        }
    }
}
