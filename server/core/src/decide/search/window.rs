//! Counting matches: a window of positions, one bit for each ad, in as many rows as a count has
//! digits. Adding a keyword's ads is binary addition of 64 ads at a time.

use super::{Scan, uniform};

/// Rows of 64 ads in the first window: few, as most searches end soon.
pub(super) const ROWS_MIN: usize = 4;
/// Rows in the largest: with seven digits 3.5 KiB, so all of it stays in the fastest cache.
pub(super) const ROWS_MAX: usize = 64;

/// The counts of a window's ads, least digit first.
pub(super) struct Window<const BITS: usize> {
    digits: [[u64; ROWS_MAX]; BITS],
}

impl<const BITS: usize> Window<BITS> {
    fn new() -> Self {
        Self { digits: [[0; ROWS_MAX]; BITS] }
    }

    /// One more match for each of `ads`.
    fn add(&mut self, row: usize, ads: u64) {
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

    /// The ads that have at least `matches`.
    fn at_least(&self, row: usize, matches: usize) -> u64 {
        let (mut more, mut same) = (0, u64::MAX);
        for (at, digit) in self.digits.iter().enumerate().rev() {
            let asked = 0_u64.wrapping_sub((matches >> at & 1) as u64);
            more |= same & digit[row] & !asked;
            same &= !(digit[row] ^ asked);
        }
        more | same
    }

    fn count(&self, row: usize, ad: u32) -> usize {
        let digits = self.digits.iter().enumerate();
        digits.fold(0, |count, (at, digit)| count | ((digit[row] >> ad & 1) as usize) << at)
    }

    fn clear(&mut self, rows: usize) {
        self.digits.iter_mut().for_each(|digit| digit[..rows].fill(0));
    }
}

impl<const BITS: usize, A: FnMut(u32) -> bool> Scan<'_, BITS, A> {
    /// Counts the matches of up to `rows` x 64 ads from `from` on, between `start` and `end`, and
    /// offers those that have at least `needed`.
    pub(super) fn window(
        &mut self,
        tier: i32,
        from: u32,
        start: u32,
        end: u32,
        needed: usize,
        rows: usize,
    ) {
        let first = from / 64 * 64;
        // At most ROWS_MAX x 64.
        #[allow(clippy::cast_possible_truncation)]
        let end = end.min(first + rows as u32 * 64);
        let rows = (end - first).div_ceil(64) as usize;
        let window = self.window.get_or_insert_with(Window::new);
        for cursor in &mut self.cursors {
            self.touched += cursor.each_row(first, end, |row, ads| window.add(row, ads));
        }
        let block = self.block;
        let level = block.entries[from as usize].level;
        let is_level = block.entries[end as usize - 1].level == level;
        let mut passed = Passed::default();
        for row in 0..rows {
            let mut ads = self.at_least(row, needed);
            if ads == 0 {
                continue;
            }
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
                let better = ads & self.at_least(row, needed + 1);
                self.offer_each(tier, row, at, better);
                self.offer_ties(tier, at, ads & !better, needed, least, &mut passed);
            } else {
                self.offer_each(tier, row, at, ads);
            }
        }
        if let Some(window) = &mut self.window {
            window.clear(rows);
        }
    }

    fn at_least(&self, row: usize, matches: usize) -> u64 {
        self.window.as_ref().map_or(0, |window| window.at_least(row, matches))
    }

    fn offer_each(&mut self, tier: i32, row: usize, at: u32, ads: u64) {
        let mut left = ads;
        while left != 0 {
            let ad = left.trailing_zeros();
            left &= left - 1;
            let matched = self.window.as_ref().map_or(0, |window| window.count(row, ad));
            let score = self.block.level_at(at + ad).ecpm * self.factors[matched];
            if score >= self.top.bar() {
                self.offer(tier, at + ad, matched, score);
            }
        }
    }

    /// Offers those of `ads`, all with the score of the bar, whose keys are above the bar's: how
    /// many there are before the next such one is drawn at once.
    fn offer_ties(
        &mut self,
        tier: i32,
        at: u32,
        ads: u64,
        matched: usize,
        score: f64,
        passed: &mut Passed,
    ) {
        let Some(room) = self.room(tier, score) else { return };
        let mut left = ads;
        loop {
            if score != self.top.bar() {
                return;
            }
            let bar = self.top.bar_key() / room;
            let skip = passed.skip(score, bar, self.rng);
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
            let key = room * (bar + (1.0 - bar) * uniform(self.rng));
            self.offer_with(tier, at + ad, matched, score, key);
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
    fn skip(&mut self, score: f64, bar: f64, rng: &mut super::Rng) -> u64 {
        if self.bar != Some((score, bar)) {
            self.bar = Some((score, bar));
            // Each has a key above the bar with the chance 1 - bar: the number of failures before
            // a success is geometric. As a cast it is at most u64::MAX.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let drawn = (uniform(rng).ln() / bar.ln()) as u64;
            self.left = drawn;
        }
        self.left
    }
}
