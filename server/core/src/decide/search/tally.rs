//! Matches in a small zone: all of them are counted first, which is less work there than to find
//! out how many need not be.

use std::ops::Range;

use smallvec::SmallVec;

use super::unmatched::{LEVEL_SMALL, below};
use super::window::Window;
use super::{Last, Matches, Part, Scan, wait};
use crate::index::ZoneBlock;

/// How many matches each ad of a zone has.
pub(super) struct Tally<const BITS: usize, const ROWS: usize> {
    counts: Window<BITS, ROWS>,
    /// Which ads have a match.
    any: [u64; ROWS],
    /// What no ad has more matches than.
    most: usize,
    steps: usize,
}

impl<const BITS: usize, const ROWS: usize> Tally<BITS, ROWS> {
    pub(super) fn new(block: &ZoneBlock, lists: &[u32]) -> Self {
        let mut tally = Self { counts: Window::new(), any: [0; ROWS], most: 0, steps: 0 };
        for list in lists {
            let mut is_more = 0;
            tally.steps += block.postings.each_row(*list, |row, ads| {
                let any = &mut tally.any[row % ROWS];
                is_more |= *any & ads;
                *any |= ads;
                tally.counts.add(row, ads);
            });
            tally.most += usize::from(tally.most == 0 || is_more != 0);
        }
        tally
    }

    /// The first ad between `start` and `end` that has just so many matches.
    fn next(&self, matched: usize, start: u32, end: u32) -> Option<u32> {
        let (mut at, mut mask) = (start / 64 * 64, u64::MAX << (start % 64));
        while at < end {
            let ads = self.counts.with_just(matched, at as usize / 64) & mask;
            if ads != 0 {
                return Some(at + ads.trailing_zeros()).filter(|position| *position < end);
            }
            (at, mask) = (at + 64, u64::MAX);
        }
        None
    }
}

impl<const BITS: usize, const ROWS: usize> Matches for Tally<BITS, ROWS> {
    fn has(&self, position: u32) -> bool {
        self.any[position as usize / 64 % ROWS] >> (position % 64) & 1 == 1
    }

    fn steps(&self) -> usize {
        self.steps
    }

    fn offer_all<A: FnMut(u32) -> bool>(scan: &mut Scan<'_, Self, A>, part: Part) {
        for matched in (1..=scan.matches.most).rev() {
            scan.with_just(matched, &part);
        }
        scan.unmatched_until(part.levels.start, part.levels.end, 0.0);
    }
}

impl<const BITS: usize, const ROWS: usize, A: FnMut(u32) -> bool> Scan<'_, Tally<BITS, ROWS>, A> {
    /// Offers the ads that have just so many matches: in order of what they score, so the first
    /// that is not good enough is the last.
    fn with_just(&mut self, matched: usize, part: &Part) {
        let Range { mut start, end } = part.ads;
        while let Some(position) = self.matches.next(matched, start, end) {
            let level = self.block.entries[position as usize].level;
            let score = self.block.levels[level as usize].ecpm * self.factors[matched];
            if score < self.top.bar() {
                return;
            }
            let level_end = self.block.levels[level as usize + 1].start;
            if level_end - position <= LEVEL_SMALL {
                self.offer(part.tier, position, matched, score);
                start = position + 1;
            } else {
                self.equals(part.tier, position..level_end, matched, score);
                start = level_end;
            }
        }
    }

    /// Offers those ads of a level in the order in which they arrive.
    fn equals(&mut self, tier: i32, ads: Range<u32>, matched: usize, score: f64) {
        let Some(mut arrival) = Last::since(self.last.as_ref(), tier, score) else { return };
        let mut left: SmallVec<[u32; 64]> = SmallVec::new();
        let mut start = ads.start;
        while let Some(position) = self.matches.next(matched, start, ads.end) {
            left.push(position);
            start = position + 1;
        }
        // At most as many as the tally has room for.
        #[allow(clippy::cast_possible_truncation)]
        while !left.is_empty() {
            // Whichever of those that are left comes first.
            arrival += wait(self.rng) / left.len() as f64;
            if !self.top.takes(score, arrival) {
                return;
            }
            let position = left.swap_remove(below(self.rng, left.len() as u32) as usize);
            self.offer_at(tier, position, matched, score, arrival);
        }
    }
}
