//! Ads without a match: a level of equal eCPM at a time.

use smallvec::SmallVec;

use super::{Last, Matches, Scan, wait};
use rand_core::Rng as _;

/// A level of so few ads is gone through as it stands.
pub(super) const LEVEL_SMALL: u32 = 16;
/// Draws from a larger one that may fail before all of it is gone through: beyond it, most of its
/// ads are turned down.
const FAILURES_MAX: usize = 64;
/// Draws from it at most: they are kept in order, so that none comes twice.
const DRAWS_MAX: usize = 4_096;

impl<M: Matches, A: FnMut(u32) -> bool> Scan<'_, M, A> {
    /// Offers the ads of `level` that have no match.
    pub(super) fn unmatched(&mut self, level: u32) {
        let (block, range) = (self.block, self.block.level_range(level));
        let tier = block.levels[level as usize].tier;
        let score = block.levels[level as usize].ecpm * self.factors[0];
        let len = range.end - range.start;
        if len <= LEVEL_SMALL {
            range.for_each(|position| self.offer(tier, position, 0, score));
            return;
        }
        let Some(mut arrival) = Last::since(self.last.as_ref(), tier, score) else { return };
        let (mut left, mut failures) = (len, 0);
        let mut drawn: SmallVec<[u32; 16]> = SmallVec::new();
        while failures < FAILURES_MAX && drawn.len() < DRAWS_MAX && left > len / 2 {
            // Whichever of those that are left comes first.
            arrival += wait(self.rng) / f64::from(left);
            if !self.top.takes(score, arrival) {
                return;
            }
            left -= 1;
            let position = loop {
                let position = range.start + below(self.rng, len);
                if let Err(at) = drawn.binary_search(&position) {
                    drawn.insert(at, position);
                    break position;
                }
            };
            if !self.offer_at(tier, position, 0, score, arrival) {
                failures += 1;
            }
        }
        let mut drawn = drawn.into_iter().peekable();
        for position in range {
            if drawn.next_if_eq(&position).is_none() {
                let arrival = arrival + wait(self.rng);
                self.offer_at(tier, position, 0, score, arrival);
            }
        }
    }
}

/// Uniform below `end` (Lemire, "Fast Random Integer Generation in an Interval", 2019).
pub(super) fn below(rng: &mut super::Rng, end: u32) -> u32 {
    loop {
        let wide = u64::from(rng.next_u32()) * u64::from(end);
        // The low half decides over the few draws that would favour some results.
        let (high, low) = ((wide >> 32) as u32, wide & u64::from(u32::MAX));
        if low >= u64::from(end.wrapping_neg() % end) {
            return high;
        }
    }
}
