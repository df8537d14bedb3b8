//! The resumable best-first search over the ads of one zone, exact without looking at most of
//! them.
//!
//! An ad's score is its eCPM x g[m], where m is how many of the request's keywords it has. Ads
//! without a match compete too, so there are two streams, both in order of the positions and so
//! of the eCPM, tier by tier:
//!
//! - the *matched*: the union of the keywords' lists. They are counted in windows of some
//!   thousand positions at most ([`window`]). From a position on, no ad can score more than its eCPM x
//!   g[lists that are left]; when that is below what the worst of the ads to be found has, the
//!   stream ends. Before, whatever lies below the m-th of the lists' heads has fewer than m
//!   matches, and is skipped when m are needed.
//! - the *unmatched*: every level of equal eCPM in turn ([`unmatched`]), until eCPM x g[0] is
//!   below that.
//!
//! Skipping is on strictly less, so ties survive. Equal ones come in random order: each is given
//! an *arrival*, an independent exponential waiting time, and who arrives first is first. That
//! makes every order equally likely, and spares us most of the drawing. The first of n to arrive
//! waits a n-th of one's time, and the next a (n-1)-th longer: of a level of a million equal ads
//! the first ones are drawn, each at a random place, and no others. Waits have no memory: of those
//! that have not come when a search goes on, the rest of the wait is as it was at the beginning.
//! And how many of many equal ads come too late before one is in time is drawn at once.

mod last;
mod top;
mod unmatched;
mod window;

use std::sync::LazyLock;

use rand_distr::{Distribution, Exp1};
use smallvec::SmallVec;

use last::Last;
pub use top::Candidate;
use top::{Ranking, Top};
use window::{ROWS_FEW, ROWS_MAX, Window};

use super::Rng;
use crate::index::{Cursor, NO_POSITION, Tier, ZoneBlock};
use crate::model::{KEYWORDS_USED_MAX, Keywords};

/// ln(1.1 + m) for every m that can occur.
static FACTORS: LazyLock<[f64; KEYWORDS_USED_MAX + 1]> =
    LazyLock::new(|| std::array::from_fn(|matched| (1.1 + matched as f64).ln()));

/// How many more ads are looked for at once when those that were found are used up: so a search
/// that has to go on and on looks at every ad a few times at most.
const FURTHER: usize = 4;

/// Ranks the ads of a zone that the caller admits, best first: tier, then score, both descending;
/// equal ones in uniformly random order. As many as are asked for are found, and no more.
///
/// What the caller admits may become less while it asks, not more: an ad that was turned down once
/// may be left out for good.
pub struct Search {
    /// The lists of the request's keywords that any ad here has.
    lists: SmallVec<[u32; 8]>,
    rng: Rng,
    /// Only ads that are worth so much.
    floor_ecpm_micros: i64,
    /// How many ads to find at once.
    wanted: usize,
    found: Ranking,
    is_over: bool,
    touched: usize,
}

impl Search {
    /// A search for the ads of `block` that are worth at least `floor_ecpm_micros`, in which
    /// `wanted` are found at once.
    pub fn new(
        block: &ZoneBlock,
        keywords: &Keywords,
        floor_ecpm_micros: i64,
        wanted: usize,
        rng: Rng,
    ) -> Self {
        Self {
            lists: keywords.iter().filter_map(|word| block.postings.find(word)).collect(),
            rng,
            floor_ecpm_micros,
            wanted: wanted.max(1),
            found: Ranking::new(),
            is_over: false,
            touched: 0,
        }
    }

    /// The candidate at this place of the ranking, where it was found already.
    pub fn found(&self, at: usize) -> Option<Candidate> {
        self.found.get(at).copied()
    }

    /// Whether every ad was found or turned down.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Finds further ads of those that `admits` admits by their positions. `block` is the one that
    /// the search was made for.
    pub fn go_on(&mut self, block: &ZoneBlock, mut admits: impl FnMut(u32) -> bool) {
        let before = self.found.len();
        if !self.is_over {
            // Three digits count the usual number of keywords, seven all that there can be.
            if self.lists.len() >= 7 {
                self.fill::<7, ROWS_MAX>(block, &mut admits);
            } else if block.entries.len() > ROWS_FEW * 64 {
                self.fill::<3, ROWS_MAX>(block, &mut admits);
            } else {
                self.fill::<3, ROWS_FEW>(block, &mut admits);
            }
            self.is_over = self.found.len() - before < self.wanted;
            self.wanted = self.wanted.saturating_mul(FURTHER);
        }
    }

    /// How many entries were touched so far: steps over lists, and ads that were judged.
    pub fn touched(&self) -> usize {
        self.touched
    }

    fn fill<const BITS: usize, const ROWS: usize>(
        &mut self,
        block: &ZoneBlock,
        admits: &mut impl FnMut(u32) -> bool,
    ) {
        const { assert!(KEYWORDS_USED_MAX < 1 << 7) };
        let last = self.found.last().map(|last| Last::new(last, &self.found));
        let mut scan = Scan::<BITS, ROWS, _> {
            block,
            cursors: self.lists.iter().map(|list| block.postings.cursor(*list)).collect(),
            factors: &FACTORS,
            rng: &mut self.rng,
            floor_ecpm_micros: self.floor_ecpm_micros,
            last,
            top: Top::new(self.wanted),
            admits,
            window: None,
            touched: 0,
        };
        let end = self.found.len() + self.wanted;
        for tier in &block.tiers {
            if scan.last.as_ref().is_some_and(|last| tier.tier > last.tier) {
                continue;
            }
            scan.tier(tier);
            scan.top.take_into(&mut self.found);
            if self.found.len() == end {
                break;
            }
        }
        self.touched += scan.touched;
    }
}

/// One walk over a zone for the best ads that are left.
struct Scan<'s, const BITS: usize, const ROWS: usize, A> {
    block: &'s ZoneBlock,
    cursors: SmallVec<[Cursor<'s>; 8]>,
    factors: &'s [f64; KEYWORDS_USED_MAX + 1],
    rng: &'s mut Rng,
    floor_ecpm_micros: i64,
    last: Option<Last>,
    /// The best of this tier.
    top: Top,
    admits: &'s mut A,
    window: Option<Window<BITS, ROWS>>,
    touched: usize,
}

impl<const BITS: usize, const ROWS: usize, A: FnMut(u32) -> bool> Scan<'_, BITS, ROWS, A> {
    fn tier(&mut self, tier: &Tier) {
        let levels = &self.block.levels[tier.levels.start as usize..tier.levels.end as usize];
        let above = levels.partition_point(|level| level.ecpm_micros >= self.floor_ecpm_micros);
        let (mut level, level_end) = match u32::try_from(above) {
            Ok(above) => (tier.levels.start, tier.levels.start + above),
            Err(_) => return,
        };
        let start = self.block.levels[level as usize].start;
        let end = self.block.levels[level_end as usize].start;
        self.cursors.iter_mut().for_each(|cursor| cursor.seek(start));
        let (mut needed, mut rows) = (1, window::ROWS_MIN);
        while let Some(next) = self.next_matched(end, &mut needed) {
            // Where one match is surely better than none, the matched raise the bar first.
            let before = level;
            level = self.unmatched_until(level, level_end, next.score_min);
            if level == before {
                self.window(tier.tier, next.position, start, end, needed, rows);
                rows = (rows * 2).min(ROWS);
            }
        }
        self.unmatched_until(level, level_end, 0.0);
    }

    /// Offers the levels from `level` on whose ads may be among the best, and are worth more than
    /// `score_min` where they have no match; returns the first that is left.
    fn unmatched_until(&mut self, mut level: u32, level_end: u32, score_min: f64) -> u32 {
        while level < level_end {
            let score = self.block.levels[level as usize].ecpm * self.factors[0];
            if score < self.top.bar() || score < score_min {
                break;
            }
            self.unmatched(level);
            level += 1;
        }
        level
    }

    /// The first position before `end` from which a matched ad may be among the best; `needed` is
    /// raised to how many matches that takes at least.
    fn next_matched(&mut self, end: u32, needed: &mut usize) -> Option<Matched> {
        let bar = self.top.bar();
        let (mut head, mut left) = (NO_POSITION, 0);
        for cursor in &self.cursors {
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
            let mut heads: SmallVec<[u32; 8]> = self.cursors.iter().map(Cursor::head).collect();
            heads.sort_unstable();
            head = heads[*needed - 1];
            self.cursors.iter_mut().for_each(|cursor| cursor.seek(head));
            debug_assert!(head < end, "as many heads as are needed lie before the end");
            ecpm = self.block.level_at(head).ecpm;
        }
        Some(Matched { position: head, score_min: ecpm * self.factors[*needed] })
    }

    /// Takes an ad in if it is among the best so far and admitted.
    fn offer(&mut self, tier: i32, position: u32, matched: usize, score: f64) {
        let Some(since) = Last::since(self.last.as_ref(), tier, score) else { return };
        if score == self.top.bar() {
            let arrival = since + wait(self.rng);
            self.offer_at(tier, position, matched, score, arrival);
        } else if score > self.top.bar() && self.is_admitted(tier, position, score) {
            // Most ads are turned down: so their arrivals need not be drawn.
            let arrival = since + wait(self.rng);
            self.push(tier, position, matched, score, arrival);
        }
    }

    /// The same for one that arrives then.
    fn offer_at(&mut self, tier: i32, position: u32, matched: usize, score: f64, arrival: f64) {
        if self.top.takes(score, arrival) && self.is_admitted(tier, position, score) {
            self.push(tier, position, matched, score, arrival);
        }
    }

    fn is_admitted(&mut self, tier: i32, position: u32, score: f64) -> bool {
        self.touched += 1;
        !self.last.as_ref().is_some_and(|last| last.has(tier, score, position))
            && (self.admits)(position)
    }

    fn push(&mut self, tier: i32, position: u32, matched: usize, score: f64, arrival: f64) {
        // At most KEYWORDS_USED_MAX.
        #[allow(clippy::cast_possible_truncation)]
        let matched = matched as u32;
        self.top.push(Candidate { position, score, matched, tier, arrival });
    }
}

/// Where the matched ads go on.
struct Matched {
    position: u32,
    /// What an ad with as many matches as needed has there.
    score_min: f64,
}

/// An exponential waiting time of mean 1.
fn wait(rng: &mut Rng) -> f64 {
    Exp1.sample(rng)
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
                let got = f64::from(ecpm) * FACTORS[matched];
                assert!((got - expected).abs() < 5e-7, "{ecpm} with {matched}: {got}");
            }
        }
    }
}
