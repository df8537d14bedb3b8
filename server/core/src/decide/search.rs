//! The resumable best-first search over the ads of one zone, exact without looking at most of
//! them.
//!
//! An ad's score is its eCPM x g[m], where m is how many of the request's keywords it has. Ads
//! without a match compete too, so there are two streams, both in order of the positions and so
//! of the eCPM, tier by tier:
//!
//! - the *matched*: the union of the keywords' lists. They are counted in windows of some
//!   thousand positions ([`window`]). From a position on, no ad can score more than its eCPM x
//!   g[lists that are left]; when that is below what the worst of the ads to be found has, the
//!   stream ends. Before, whatever lies below the m-th of the lists' heads has fewer than m
//!   matches, and is skipped when m are needed.
//! - the *unmatched*: every level of equal eCPM in turn ([`unmatched`]), until eCPM x g[0] is
//!   below that.
//!
//! Skipping is on strictly less, so ties survive. Equal ones are ordered by random keys, drawn
//! when an ad is reached: independent and uniform, the highest first. A key that nobody can tell
//! from another's is never drawn: of a level of a million equal ads the highest keys come in
//! order, as the order statistics that they are, each at a random place; among many equal matched
//! ads, how many are passed over before the next one gets in is drawn instead of each one's key.

mod top;
mod unmatched;
mod window;

use std::sync::LazyLock;

use rand_core::Rng as _;
use smallvec::SmallVec;

pub use top::Candidate;
use top::Top;
use window::Window;

use super::Rng;
use crate::index::{Cursor, NO_POSITION, Tier, ZoneBlock};
use crate::model::{KEYWORDS_USED_MAX, Keywords};

/// ln(1.1 + m) for every m that can occur.
static FACTORS: LazyLock<[f64; KEYWORDS_USED_MAX + 1]> =
    LazyLock::new(|| std::array::from_fn(|matched| (1.1 + matched as f64).ln()));

/// How many more ads are looked for at once when those that were found are used up: so a search
/// that has to go on and on looks at every ad a few times at most.
const FURTHER: usize = 4;

/// Gives every ad of a zone that the caller admits once, best first: tier, then score, both
/// descending; equal ones in uniformly random order.
///
/// The caller may stop at any time and go on later. What it admits may become less meanwhile, not
/// more: an ad that was turned down once may be left out for good. After the last ad the search
/// gives `None`, and goes on doing so.
pub struct Search {
    /// The lists of the request's keywords that any ad here has.
    lists: SmallVec<[u32; 8]>,
    rng: Rng,
    /// Only ads that are worth so much.
    floor_ecpm_micros: i64,
    /// How many ads to find at once.
    wanted: usize,
    /// Found and not given yet, worst first.
    ready: Vec<Candidate>,
    last: Option<Last>,
    is_over: bool,
    touched: usize,
}

/// Where the search has come to: everything better has been given or turned down.
struct Last {
    tier: i32,
    score: f64,
    key: f64,
    /// The positions that were given and are equal to the last one; in order while it searches.
    given: Vec<u32>,
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
            ready: Vec::new(),
            last: None,
            is_over: false,
            touched: 0,
        }
    }

    /// The best ad that is left and that `admits` admits by its position. `block` is the one that
    /// the search was made for.
    pub fn next(
        &mut self,
        block: &ZoneBlock,
        admits: &mut impl FnMut(u32) -> bool,
    ) -> Option<Candidate> {
        if self.ready.is_empty() && !self.is_over {
            self.fill(block, admits);
        }
        let next = self.ready.pop()?;
        match &mut self.last {
            Some(last) if (last.tier, last.score) == (next.tier, next.score) => {
                last.key = next.key;
                last.given.push(next.position);
            }
            last => {
                let Candidate { tier, score, key, position, .. } = next;
                let given = last.take().map(|last| last.given);
                let mut given = given.unwrap_or_default();
                given.clear();
                given.push(position);
                *last = Some(Last { tier, score, key, given });
            }
        }
        Some(next)
    }

    /// How many entries were touched so far: steps over lists, and ads that were scored.
    pub fn touched(&self) -> usize {
        self.touched
    }

    fn fill(&mut self, block: &ZoneBlock, admits: &mut impl FnMut(u32) -> bool) {
        // Three digits count the usual number of keywords, seven all that there can be.
        if self.lists.len() < 7 {
            self.fill_counting::<3>(block, admits);
        } else {
            self.fill_counting::<7>(block, admits);
        }
        self.is_over = self.ready.len() < self.wanted;
        self.wanted = self.wanted.saturating_mul(FURTHER);
    }

    fn fill_counting<const BITS: usize>(
        &mut self,
        block: &ZoneBlock,
        admits: &mut impl FnMut(u32) -> bool,
    ) {
        const { assert!(KEYWORDS_USED_MAX < 1 << 7) };
        let mut found = std::mem::take(&mut self.ready);
        if let Some(last) = &mut self.last {
            last.given.sort_unstable();
        }
        let mut scan = Scan::<BITS, _> {
            block,
            cursors: self.lists.iter().map(|list| block.postings.cursor(*list)).collect(),
            factors: &FACTORS,
            rng: &mut self.rng,
            floor_ecpm_micros: self.floor_ecpm_micros,
            last: self.last.as_ref(),
            top: Top::new(self.wanted),
            admits,
            window: None,
            touched: 0,
        };
        for tier in &block.tiers {
            if scan.last.is_some_and(|last| tier.tier > last.tier) {
                continue;
            }
            scan.tier(tier);
            scan.top.take_into(&mut found);
            scan.top.set_wanted(self.wanted - found.len());
            if found.len() == self.wanted {
                break;
            }
        }
        self.touched += scan.touched;
        found.reverse();
        self.ready = found;
    }
}

/// One walk over a zone for the best ads that are left.
struct Scan<'s, const BITS: usize, A> {
    block: &'s ZoneBlock,
    cursors: SmallVec<[Cursor<'s>; 8]>,
    factors: &'s [f64; KEYWORDS_USED_MAX + 1],
    rng: &'s mut Rng,
    floor_ecpm_micros: i64,
    last: Option<&'s Last>,
    /// The best of this tier.
    top: Top,
    admits: &'s mut A,
    window: Option<Window<BITS>>,
    touched: usize,
}

impl<const BITS: usize, A: FnMut(u32) -> bool> Scan<'_, BITS, A> {
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
        loop {
            let bar = self.top.bar();
            let unmatched = (level < level_end)
                .then(|| self.block.levels[level as usize].ecpm * self.factors[0])
                .filter(|score| *score >= bar);
            let matched = self.next_matched(end, bar, &mut needed);
            match (matched, unmatched) {
                (None, None) => return,
                // Where one match is surely better than none, the matched raise the bar first.
                (Some(next), rival) if rival.is_none_or(|rival| next.score_min >= rival) => {
                    self.window(tier.tier, next.position, start, end, needed, rows);
                    rows = (rows * 2).min(window::ROWS_MAX);
                }
                _ => {
                    self.unmatched(level);
                    level += 1;
                }
            }
        }
    }

    /// The first position before `end` from which a matched ad may reach `bar`, and how many
    /// matches that takes at least.
    fn next_matched(&mut self, end: u32, bar: f64, needed: &mut usize) -> Option<Matched> {
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
            if head >= end {
                return None;
            }
            ecpm = self.block.level_at(head).ecpm;
        }
        Some(Matched { position: head, score_min: ecpm * self.factors[*needed] })
    }

    /// Takes an ad in if it is among the best so far and admitted.
    fn offer(&mut self, tier: i32, position: u32, matched: usize, score: f64) {
        let Some(room) = self.room(tier, score) else { return };
        let key = room * uniform(self.rng);
        self.offer_with(tier, position, matched, score, key);
    }

    /// The same with a key that was drawn.
    fn offer_with(
        &mut self,
        tier: i32,
        position: u32,
        matched: usize,
        score: f64,
        key: f64,
    ) -> bool {
        if !self.top.takes(score, key) || !self.is_admitted(tier, position, score) {
            return false;
        }
        self.push(tier, position, matched, score, key);
        true
    }

    fn is_admitted(&mut self, tier: i32, position: u32, score: f64) -> bool {
        self.touched += 1;
        !self.was_given(tier, score, position) && (self.admits)(position)
    }

    fn push(&mut self, tier: i32, position: u32, matched: usize, score: f64, key: f64) {
        // At most KEYWORDS_USED_MAX.
        #[allow(clippy::cast_possible_truncation)]
        let matched = matched as u32;
        self.top.push(Candidate { position, score, matched, tier, key });
    }

    /// Keys of what is left with this score lie below this; nothing where all of it was given.
    fn room(&self, tier: i32, score: f64) -> Option<f64> {
        match self.last {
            Some(last) if tier == last.tier && score > last.score => None,
            // Given the last key, the others are as if drawn below it.
            Some(last) if tier == last.tier && score == last.score => Some(last.key),
            _ => Some(1.0),
        }
    }

    fn was_given(&self, tier: i32, score: f64, position: u32) -> bool {
        self.last.is_some_and(|last| {
            (last.tier, last.score) == (tier, score) && last.given.binary_search(&position).is_ok()
        })
    }
}

/// Where the matched ads go on.
struct Matched {
    position: u32,
    /// What an ad with as many matches as needed has there.
    score_min: f64,
}

/// Uniform in (0, 1), without its ends: keys are multiplied, and their logarithms divided by.
fn uniform(rng: &mut Rng) -> f64 {
    const STEP: f64 = 1.0 / (1_u64 << 52) as f64;
    ((rng.next_u64() >> 12) as f64 + 0.5) * STEP
}

/// What an ad of this eCPM with so many matches scores, in the account's currency per 1,000
/// impressions. An ad that matches nothing still competes, with ln 1.1.
pub fn score(ecpm_micros: i64, matched: usize) -> f64 {
    // Below 2^53 by the limit on prices, so nothing is lost.
    let ecpm = ecpm_micros as f64 / 1e6;
    ecpm * FACTORS[matched.min(KEYWORDS_USED_MAX)]
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
