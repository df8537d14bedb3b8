//! Matches in a large zone: a window of positions at a time, as far as they are needed.

use std::ops::Range;

use smallvec::SmallVec;

use super::window::{ROWS_MAX, ROWS_MIN, Window};
use super::{Matches, Part, Scan};
use crate::index::{Cursor, NO_POSITION, ZoneBlock};

/// A walk over the lists of the request's keywords.
pub(super) struct Lists<'b, const BITS: usize> {
    pub(super) cursors: SmallVec<[Cursor<'b>; 8]>,
    pub(super) window: Option<Window<BITS, ROWS_MAX>>,
    pub(super) steps: usize,
}

impl<'b, const BITS: usize> Lists<'b, BITS> {
    pub(super) fn new(block: &'b ZoneBlock, lists: &[u32]) -> Self {
        let cursors = lists.iter().map(|list| block.postings.cursor(*list)).collect();
        Self { cursors, window: None, steps: 0 }
    }
}

impl<const BITS: usize> Matches for Lists<'_, BITS> {
    fn has(&self, position: u32) -> bool {
        self.cursors.iter().any(|list| list.has(position))
    }

    fn steps(&self) -> usize {
        self.steps
    }

    fn offer_all<A: FnMut(u32) -> bool>(scan: &mut Scan<'_, Self, A>, part: Part) {
        let Range { start, end } = part.ads;
        scan.matches.cursors.iter_mut().for_each(|cursor| cursor.seek(start));
        let (mut needed, mut rows, mut level) = (1, ROWS_MIN, part.levels.start);
        while let Some(next) = scan.next_matched(end, &mut needed) {
            // Where one match is surely better than none, the matched raise the bar first.
            let before = level;
            level = scan.unmatched_until(level, part.levels.end, next.score_min);
            if level == before {
                scan.window(&part, next.position, needed, rows);
                rows = (rows * 2).min(ROWS_MAX);
            }
        }
        scan.unmatched_until(level, part.levels.end, 0.0);
    }
}

/// Where the matched ads go on.
struct Matched {
    position: u32,
    /// What an ad with as many matches as needed has there.
    score_min: f64,
}

impl<const BITS: usize, A: FnMut(u32) -> bool> Scan<'_, Lists<'_, BITS>, A> {
    /// The first position before `end` from which a matched ad may be among the best; `needed` is
    /// raised to how many matches that takes at least.
    fn next_matched(&mut self, end: u32, needed: &mut usize) -> Option<Matched> {
        let bar = self.top.bar();
        let (mut head, mut left) = (NO_POSITION, 0);
        for cursor in &self.matches.cursors {
            head = head.min(cursor.head());
            left += usize::from(cursor.head() < end);
        }
        if left == 0 {
            return None;
        }
        let mut ecpm = self.block.level_at(head).ecpm;
        if ecpm * self.factors[left] < bar {
            return None;
        }
        while ecpm * self.factors[*needed] < bar {
            *needed += 1;
        }
        if *needed > 1 {
            // Below the m-th head an ad has fewer than m matches.
            let mut heads: SmallVec<[u32; 8]> =
                self.matches.cursors.iter().map(Cursor::head).collect();
            heads.sort_unstable();
            head = heads[*needed - 1];
            self.matches.cursors.iter_mut().for_each(|cursor| cursor.seek(head));
            debug_assert!(head < end, "as many heads as are needed lie before the end");
            ecpm = self.block.level_at(head).ecpm;
        }
        Some(Matched { position: head, score_min: ecpm * self.factors[*needed] })
    }
}
