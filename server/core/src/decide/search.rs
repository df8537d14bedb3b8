//! The resumable best-first search over the ads of one zone, exact without looking at most of
//! them.
//!
//! An ad's score is its eCPM x g[m], where m is how many of the request's keywords it has. Ads
//! without a match compete too, so there are the *matched*, the union of the keywords' lists, and
//! the *unmatched*; all come in order of the positions and so of the eCPM, tier by tier.
//!
//! - In a small zone the matches of all ads are counted first ([`tally`]). Those that have just m
//!   are in order of their scores then: most matches first, each m ends with the first ad that is
//!   below what the worst of the ads to be found has.
//! - In a large one the lists are walked ([`lists`]), and counted in windows of some thousand
//!   positions at most ([`window`]). From a position on, no ad can score more than its eCPM x
//!   g[lists that are left]; when that is below that bar, the matched end. Before, whatever lies
//!   below the m-th of the lists' heads has fewer than m matches, and is skipped when m are needed.
//! - The unmatched are offered a level of equal eCPM at a time ([`unmatched`]), until eCPM x g[0]
//!   is below the bar.
//!
//! Skipping is on strictly less, so ties survive. Equal ones come in random order: each is given
//! an *arrival*, an independent exponential waiting time, and who arrives first is first. That
//! makes every order equally likely, and spares us most of the drawing. The first of n to arrive
//! waits a n-th of one's time, and the next a (n-1)-th longer: of a level of a million equal ads
//! the first ones are drawn, each at a random place, and no others. Waits have no memory: of those
//! that have not come when a search goes on, the rest of the wait is as it was at the beginning.
//! And how many of many equal ads come too late before one is in time is drawn at once.

mod last;
mod lists;
mod tally;
mod top;
mod unmatched;
mod window;

use std::ops::Range;
use std::sync::LazyLock;

use rand_distr::{Distribution, Exp1};
use smallvec::SmallVec;

use last::Last;
use lists::Lists;
use tally::Tally;
pub use top::Candidate;
use top::{Ranking, Top};

use super::Rng;
use crate::index::{Tier, ZoneBlock};
use crate::model::{KEYWORDS_USED_MAX, Keywords};

/// ln(1.1 + m) for every m that can occur.
static FACTORS: LazyLock<[f64; KEYWORDS_USED_MAX + 1]> =
    LazyLock::new(|| std::array::from_fn(|matched| (1.1 + matched as f64).ln()));

/// How many more ads are looked for at once when those that were found are used up: so a search
/// that has to go on and on looks at every ad a few times at most.
const FURTHER: usize = 4;

/// Rows of 64 ads of a small zone at most; they are cleared for each search. At 2,000 ads every kind
/// of question measured gains; at 4,000 those that end after a look at a few ads lose a third.
const TALLY_ROWS: usize = 32;
/// The same where there are many keywords: at 1,000 ads 20 keywords lose a seventh.
const TALLY_ROWS_MANY: usize = 8;

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
    pub fn go_on(&mut self, block: &ZoneBlock, admits: impl FnMut(u32) -> bool) {
        const { assert!(KEYWORDS_USED_MAX < 1 << 7) };
        if self.is_over {
            return;
        }
        let before = self.found.len();
        let (lists, rows) = (self.lists.as_slice(), block.entries.len().div_ceil(64));
        // Three digits count the usual number of keywords, seven all that there can be.
        match lists.len() < 1 << 3 {
            true if rows <= TALLY_ROWS => {
                self.fill(block, &mut Tally::<3, TALLY_ROWS>::new(block, lists), admits);
            }
            true => self.fill(block, &mut Lists::<3>::new(block, lists), admits),
            false if rows <= TALLY_ROWS_MANY => {
                self.fill(block, &mut Tally::<7, TALLY_ROWS_MANY>::new(block, lists), admits);
            }
            false => self.fill(block, &mut Lists::<7>::new(block, lists), admits),
        }
        self.is_over = self.found.len() - before < self.wanted;
        self.wanted = self.wanted.saturating_mul(FURTHER);
    }

    /// How many entries were touched so far: steps over lists, and ads that were judged.
    pub fn touched(&self) -> usize {
        self.touched
    }

    fn fill<M: Matches>(
        &mut self,
        block: &ZoneBlock,
        matches: &mut M,
        admits: impl FnMut(u32) -> bool,
    ) {
        let last = self.found.last().map(|last| Last::new(last, &self.found));
        let mut scan = Scan {
            block,
            matches,
            factors: &FACTORS,
            rng: &mut self.rng,
            last,
            top: Top::new(&mut self.found, self.wanted),
            admits,
            touched: 0,
        };
        for tier in &block.tiers {
            if scan.last.as_ref().is_some_and(|last| tier.tier > last.tier) {
                continue;
            }
            M::offer_all(&mut scan, Part::new(block, tier, self.floor_ecpm_micros));
            if scan.top.is_done() {
                break;
            }
        }
        self.touched += scan.touched + scan.matches.steps();
    }
}

/// How the ads that have a match are found.
trait Matches: Sized {
    /// Whether an ad has a match.
    fn has(&self, position: u32) -> bool;

    /// Offers every ad of a part that may be among the best.
    fn offer_all<A: FnMut(u32) -> bool>(scan: &mut Scan<'_, Self, A>, part: Part);

    /// How many steps over lists were taken.
    fn steps(&self) -> usize;
}

/// The levels of a tier that are worth enough, and the positions of their ads.
struct Part {
    tier: i32,
    levels: Range<u32>,
    ads: Range<u32>,
}

impl Part {
    fn new(block: &ZoneBlock, tier: &Tier, floor_ecpm_micros: i64) -> Self {
        let mut levels = tier.levels.clone();
        if floor_ecpm_micros > 0 {
            let all = &block.levels[levels.start as usize..levels.end as usize];
            let above = all.partition_point(|level| level.ecpm_micros >= floor_ecpm_micros);
            // Not more than there are.
            #[allow(clippy::cast_possible_truncation)]
            let above = above as u32;
            levels.end = levels.start + above;
        }
        let first = |level: u32| block.levels[level as usize].start;
        Self { tier: tier.tier, ads: first(levels.start)..first(levels.end), levels }
    }
}

/// One walk over a zone for the best ads that are left.
struct Scan<'s, M, A> {
    block: &'s ZoneBlock,
    matches: &'s mut M,
    factors: &'s [f64; KEYWORDS_USED_MAX + 1],
    rng: &'s mut Rng,
    last: Option<Last>,
    /// The best of this tier.
    top: Top<'s>,
    admits: A,
    touched: usize,
}

impl<M: Matches, A: FnMut(u32) -> bool> Scan<'_, M, A> {
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

    /// Takes an ad in if it is among the best so far and admitted.
    fn offer(&mut self, tier: i32, position: u32, matched: usize, score: f64) {
        let Some(since) = Last::since(self.last.as_ref(), tier, score) else { return };
        if score == self.top.bar() {
            let arrival = since + wait(self.rng);
            self.offer_at(tier, position, matched, score, arrival);
        } else if score > self.top.bar() && self.is_admitted(tier, position, matched, score) {
            // Most ads are turned down: so their arrivals need not be drawn.
            let arrival = since + wait(self.rng);
            self.push(tier, position, matched, score, arrival);
        }
    }

    /// The same for one that arrives then; says whether it was taken in.
    fn offer_at(
        &mut self,
        tier: i32,
        position: u32,
        matched: usize,
        score: f64,
        arrival: f64,
    ) -> bool {
        let is_taken =
            self.top.takes(score, arrival) && self.is_admitted(tier, position, matched, score);
        if is_taken {
            self.push(tier, position, matched, score, arrival);
        }
        is_taken
    }

    fn is_admitted(&mut self, tier: i32, position: u32, matched: usize, score: f64) -> bool {
        self.touched += 1;
        // Whether it has a match after all is asked last: it may be a search in every list.
        !self.last.as_ref().is_some_and(|last| last.has(tier, score, position))
            && (self.admits)(position)
            && (matched > 0 || !self.matches.has(position))
    }

    fn push(&mut self, tier: i32, position: u32, matched: usize, score: f64, arrival: f64) {
        // At most KEYWORDS_USED_MAX.
        #[allow(clippy::cast_possible_truncation)]
        let matched = matched as u32;
        self.top.push(Candidate { position, score, matched, tier, arrival });
    }
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
