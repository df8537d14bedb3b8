//! Counting matches: a window of positions, one bit for each ad, in as many rows as a count has
//! digits. Adding a keyword's ads is binary addition of 64 ads at a time.

use std::ops::Range;

use rand_core::Rng as _;

use super::lists::Lists;
use super::{Last, Part, Scan, wait};

/// Rows of 64 ads in the first window: few, as most searches end soon.
pub(super) const ROWS_MIN: usize = 4;
/// Rows in the largest: with seven digits 3.5 KiB, so all of it stays in the fastest cache.
pub(super) const ROWS_MAX: usize = 64;

/// The counts of a window's ads, least digit first.
pub(super) struct Window<const BITS: usize, const ROWS: usize> {
    digits: [[u64; ROWS]; BITS],
}

impl<const BITS: usize, const ROWS: usize> Window<BITS, ROWS> {
    pub(super) fn new() -> Self {
        Self { digits: [[0; ROWS]; BITS] }
    }

    /// One more match for each of `ads`.
    pub(super) fn add(&mut self, row: usize, ads: u64) {
        const { assert!(ROWS.is_power_of_two() && ROWS <= ROWS_MAX) };
        // Never changes it; the compiler sees that it is in bounds.
        let row = row % ROWS;
        let mut carry = ads;
        for digit in &mut self.digits {
            let sum = digit[row];
            digit[row] = sum ^ carry;
            carry &= sum;
            if carry == 0 {
                break;
            }
        }
    }

    /// Sets each of `hits` to the ads of its row that have at least `matches`.
    fn at_least(&self, matches: usize, hits: &mut [u64]) {
        // Row by row in every digit, so that the compiler takes several rows at once.
        for (row, hit) in hits.iter_mut().enumerate().take(ROWS) {
            let (mut more, mut same) = (0, u64::MAX);
            for (at, digit) in self.digits.iter().enumerate().rev() {
                let asked = 0_u64.wrapping_sub((matches >> at & 1) as u64);
                more |= same & digit[row] & !asked;
                same &= !(digit[row] ^ asked);
            }
            *hit = more | same;
        }
    }

    /// Those of a row's ads that have just so many matches.
    pub(super) fn with_just(&self, matches: usize, row: usize) -> u64 {
        let row = row % ROWS;
        self.digits.iter().enumerate().fold(u64::MAX, |ads, (at, digit)| {
            let asked = 0_u64.wrapping_sub((matches >> at & 1) as u64);
            ads & !(digit[row] ^ asked)
        })
    }

    fn count(&self, row: usize, ad: u32) -> usize {
        let digits = self.digits.iter().enumerate();
        digits.fold(0, |count, (at, digit)| count | ((digit[row] >> ad & 1) as usize) << at)
    }

    fn clear(&mut self, rows: usize) {
        self.digits.iter_mut().for_each(|digit| digit[..rows].fill(0));
    }
}

impl<const BITS: usize, A: FnMut(u32) -> bool> Scan<'_, Lists<'_, BITS>, A> {
    /// Counts the matches of up to `rows` x 64 ads of `part` from `from` on, and offers those that
    /// have at least `needed`.
    pub(super) fn window(&mut self, part: &Part, from: u32, needed: usize, rows: usize) {
        let Range { start, end } = part.ads;
        let (tier, first) = (part.tier, from / 64 * 64);
        // At most ROWS_MAX x 64.
        #[allow(clippy::cast_possible_truncation)]
        let end = end.min(first + rows as u32 * 64);
        let rows = (end - first).div_ceil(64) as usize;
        let Lists { cursors, window, steps } = &mut *self.matches;
        let window = window.get_or_insert_with(Window::new);
        for cursor in cursors {
            *steps += cursor.each_row(first, end, |row, ads| window.add(row, ads));
        }
        let block = self.block;
        let level = block.entries[from as usize].level;
        let is_level = block.entries[end as usize - 1].level == level;
        let mut passed = Passed::default();
        let mut hits = [0; ROWS_MAX];
        window.at_least(needed, &mut hits[..rows]);
        for (row, hit) in hits[..rows].iter().enumerate().filter(|(_, hit)| **hit != 0) {
            let mut ads = *hit;
            // At most ROWS_MAX.
            #[allow(clippy::cast_possible_truncation)]
            let at = first + row as u32 * 64;
            if at < start {
                ads &= u64::MAX << (start - at);
            }
            if end - at < 64 {
                ads &= !(u64::MAX << (end - at));
            }
            let ecpm = block.levels[level as usize].ecpm;
            let least = ecpm * self.factors[needed];
            if is_level && self.top.is_full() && least == self.top.bar() {
                let window = self.matches.window.as_ref();
                let ties = window.map_or(0, |window| ads & window.with_just(needed, row));
                self.offer_each(tier, row, at, ads & !ties);
                self.offer_ties(tier, at, ties, needed, least, &mut passed);
            } else {
                self.offer_each(tier, row, at, ads);
            }
        }
        if let Some(window) = &mut self.matches.window {
            window.clear(rows);
        }
    }

    fn offer_each(&mut self, tier: i32, row: usize, at: u32, ads: u64) {
        let mut left = ads;
        while left != 0 {
            let ad = left.trailing_zeros();
            left &= left - 1;
            let matched = self.matches.window.as_ref().map_or(0, |window| window.count(row, ad));
            let score = self.block.level_at(at + ad).ecpm * self.factors[matched];
            if score >= self.top.bar() {
                self.offer(tier, at + ad, matched, score);
            }
        }
    }

    /// Offers those of `ads`, all with the score of the bar, that arrive in time: how many come
    /// too late before the next one that does not is drawn at once.
    fn offer_ties(
        &mut self,
        tier: i32,
        at: u32,
        ads: u64,
        matched: usize,
        score: f64,
        passed: &mut Passed,
    ) {
        let Some(since) = Last::since(self.last.as_ref(), tier, score) else { return };
        let mut left = ads;
        loop {
            if score != self.top.bar() {
                return;
            }
            let patience = self.top.latest() - since;
            let skip = passed.skip(score, patience, self.rng);
            let count = u64::from(left.count_ones());
            if count <= skip {
                passed.left = skip - count;
                return;
            }
            for _ in 0..skip {
                left &= left - 1;
            }
            let ad = left.trailing_zeros();
            left &= left - 1;
            *passed = Passed::default();
            // A wait that is known to be shorter than the patience.
            let share = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let arrival = since - (share * (-patience).exp_m1()).ln_1p();
            self.offer_at(tier, at + ad, matched, score, arrival);
        }
    }
}

/// How many equal ads are still to be passed over, and for which bar that was drawn.
#[derive(Default)]
struct Passed {
    bar: Option<(f64, f64)>,
    left: u64,
}

impl Passed {
    fn skip(&mut self, score: f64, patience: f64, rng: &mut super::Rng) -> u64 {
        if self.bar != Some((score, patience)) {
            self.bar = Some((score, patience));
            // The chance that k in a row wait longer is exp(-patience)^k: that one waits longer
            // than k x patience. As a cast it is at most u64::MAX.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let drawn = (wait(rng) / patience) as u64;
            self.left = drawn;
        }
        self.left
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROWS: usize = 4;

    proptest! {
        /// Three digits hold seven matches.
        #[test]
        fn counts_are_those_of_a_plain_list(
            added in prop::collection::vec((0..ROWS, any::<u64>()), 0..7),
        ) {
            let mut window = Window::<3, ROWS>::new();
            let mut counts = [[0_usize; 64]; ROWS];
            for (row, ads) in added {
                window.add(row, ads);
                counts[row].iter_mut().enumerate().for_each(|(ad, count)| {
                    *count += (ads >> ad & 1) as usize;
                });
            }
            let ads_of = |row: usize, is_meant: &dyn Fn(usize) -> bool| {
                let ads = counts[row].iter().enumerate().filter(|(_, count)| is_meant(**count));
                ads.fold(0_u64, |ads, (ad, _)| ads | 1 << ad)
            };
            for matches in 0..8 {
                let mut hits = [0; ROWS];
                window.at_least(matches, &mut hits);
                for (row, hit) in hits.into_iter().enumerate() {
                    prop_assert_eq!(hit, ads_of(row, &|count| count >= matches));
                    prop_assert_eq!(window.with_just(matches, row), ads_of(row, &|count| count == matches));
                }
            }
            for (row, counts) in counts.iter().enumerate() {
                for (ad, count) in (0..).zip(counts) {
                    prop_assert_eq!(window.count(row, ad), *count);
                }
            }
            window.clear(2);
            let mut hits = [0; ROWS];
            window.at_least(1, &mut hits);
            prop_assert_eq!(hits[..2].to_vec(), vec![0; 2]);
            prop_assert_eq!(hits[3], ads_of(3, &|count| count >= 1));
        }
    }
}
