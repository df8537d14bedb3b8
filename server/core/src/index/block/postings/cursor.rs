//! A walk over the ads that have one keyword.

/// No ad has this position: what a cursor's head is when there is none left.
pub(crate) const NO_POSITION: u32 = u32::MAX;

/// Stands before one ad of a list, its head. Moves forward only.
pub(crate) struct Cursor<'b> {
    ads: Ads<'b>,
    head: u32,
}

enum Ads<'b> {
    /// The positions, and which of them is the head.
    Sparse(&'b [u32], usize),
    Dense(&'b [u64]),
}

impl<'b> Cursor<'b> {
    pub(super) fn sparse(positions: &'b [u32]) -> Self {
        let head = positions.first().copied().unwrap_or(NO_POSITION);
        Self { ads: Ads::Sparse(positions, 0), head }
    }

    pub(super) fn dense(bits: &'b [u64]) -> Self {
        Self { ads: Ads::Dense(bits), head: next_bit(bits, 0) }
    }

    /// The ad that it stands before; [`NO_POSITION`] at the end.
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Moves on to the first ad that is not before `position`.
    pub(crate) fn seek(&mut self, position: u32) {
        if self.head >= position {
            return;
        }
        match &mut self.ads {
            Ads::Sparse(positions, at) => {
                // In doubling steps, as most of the ways are short.
                let left = &positions[*at..];
                let mut step = 1;
                while left.get(step).is_some_and(|head| *head < position) {
                    step *= 2;
                }
                let within = &left[step / 2..left.len().min(step + 1)];
                *at += step / 2 + within.partition_point(|head| *head < position);
                self.head = positions.get(*at).copied().unwrap_or(NO_POSITION);
            }
            Ads::Dense(bits) => self.head = next_bit(bits, position),
        }
    }

    /// Whether the ad at `position` is in the list, wherever the cursor stands.
    pub(crate) fn has(&self, position: u32) -> bool {
        match self.ads {
            Ads::Sparse(positions, _) => positions.binary_search(&position).is_ok(),
            Ads::Dense(bits) => bits[position as usize / 64] >> (position % 64) & 1 == 1,
        }
    }

    /// Gives the ads from `start`, a multiple of 64, up to `end` as rows of 64 bits: `add` gets
    /// the number of the row, from 0 at `start`, and bits of it, each ad once. Moves on to `end`.
    /// Returns how many steps that took.
    pub(crate) fn each_row(
        &mut self,
        start: u32,
        end: u32,
        mut add: impl FnMut(usize, u64),
    ) -> usize {
        match &mut self.ads {
            Ads::Sparse(positions, at) => {
                let left = &positions[*at..];
                let mut steps = 0;
                for position in left.iter().take_while(|position| **position < end) {
                    let from_start = position - start;
                    add(from_start as usize / 64, 1 << (from_start % 64));
                    steps += 1;
                }
                *at += steps;
                self.head = left.get(steps).copied().unwrap_or(NO_POSITION);
                steps
            }
            Ads::Dense(bits) => {
                let rows = start as usize / 64..end.div_ceil(64) as usize;
                for (row, bits) in bits[rows.clone()].iter().enumerate() {
                    add(row, *bits);
                }
                self.head = next_bit(bits, end);
                rows.len()
            }
        }
    }
}

/// The first set bit that is not before `from`.
fn next_bit(bits: &[u64], from: u32) -> u32 {
    let (mut row, mut mask) = (from as usize / 64, u64::MAX << (from % 64));
    while let Some(bits) = bits.get(row) {
        let left = bits & mask;
        if left != 0 {
            // As many bits as positions, which fit a u32.
            return u32::try_from(row * 64).unwrap_or(NO_POSITION) + left.trailing_zeros();
        }
        (row, mask) = (row + 1, u64::MAX);
    }
    NO_POSITION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(positions: &[u32]) -> ([u64; 8], Vec<u32>) {
        let mut bits = [0; 8];
        for position in positions {
            bits[*position as usize / 64] |= 1 << (position % 64);
        }
        (bits, positions.to_vec())
    }

    #[test]
    fn both_forms_walk_alike() {
        let all: Vec<u32> =
            (0..500).filter(|n| n % 7 == 3 || n % 64 == 63 || (200..230).contains(n)).collect();
        let (bits, positions) = both(&all);
        for to in 0..512 {
            let expected = all.iter().find(|head| **head >= to).copied().unwrap_or(NO_POSITION);
            for by in [1, 5, 64, 400] {
                let mut cursors = [Cursor::sparse(&positions), Cursor::dense(&bits)];
                for cursor in &mut cursors {
                    assert_eq!(cursor.has(to), all.contains(&to), "{to}");
                    (0..=to).step_by(by).for_each(|stop| cursor.seek(stop));
                    cursor.seek(to);
                    assert_eq!(cursor.head(), expected, "{to} by {by}");
                }
            }
        }
    }

    #[test]
    fn both_forms_give_the_same_rows() {
        let all: Vec<u32> = (0..500).filter(|n| n % 5 == 0).collect();
        let (bits, positions) = both(&all);
        let rows = |mut cursor: Cursor<'_>, start, end| {
            let mut rows = [0_u64; 8];
            cursor.seek(start);
            cursor.each_row(start, end, |row, bits| rows[row] |= bits);
            (rows, cursor.head())
        };
        for (start, end) in [(0, 64), (64, 512), (0, 512), (128, 192)] {
            let sparse = rows(Cursor::sparse(&positions), start, end);
            assert_eq!(sparse, rows(Cursor::dense(&bits), start, end), "{start}..{end}");
            let expected = (start..end).filter(|n| n % 5 == 0 && *n < 500).count();
            assert_eq!(
                sparse.0.iter().map(|row| row.count_ones() as usize).sum::<usize>(),
                expected
            );
        }
    }

    #[test]
    fn an_empty_list_is_at_its_end() {
        for mut cursor in [Cursor::sparse(&[]), Cursor::dense(&[0; 8])] {
            assert_eq!(cursor.head(), NO_POSITION);
            cursor.seek(100);
            assert_eq!(cursor.head(), NO_POSITION);
        }
    }
}
