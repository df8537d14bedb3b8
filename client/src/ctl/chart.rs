//! Bars of block characters.

/// Characters of the longest bar: a table with one still fits a terminal of 100.
const WIDTH: u64 = 24;
/// Eighths of a block, from one to seven.
const PARTS: [char; 7] =
    ['\u{258f}', '\u{258e}', '\u{258d}', '\u{258c}', '\u{258b}', '\u{258a}', '\u{2589}'];
const FULL: char = '\u{2588}';

/// A bar for each value, the greatest of full width. What is not nothing is seen: an eighth of a
/// block at least.
pub(crate) fn bars(values: &[u64]) -> Vec<String> {
    let greatest = values.iter().copied().max().unwrap_or(0);
    values.iter().map(|value| bar(*value, greatest)).collect()
}

fn bar(value: u64, greatest: u64) -> String {
    if value == 0 {
        return String::new();
    }
    let eighths = u128::from(value) * u128::from(WIDTH * 8) / u128::from(greatest);
    // At most the width in eighths.
    let eighths = usize::try_from(eighths).unwrap_or(0).max(1);
    let mut bar: String = std::iter::repeat_n(FULL, eighths / 8).collect();
    if let Some(part) = (eighths % 8).checked_sub(1) {
        bar.push(PARTS[part]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values_are_great() {
        let full = "\u{2588}".repeat(24);
        let half = "\u{2588}".repeat(12);
        assert_eq!(bars(&[0, 2, 1, 0]), ["", &full, &half, ""]);
        assert_eq!(bars(&[u64::MAX, 1]), [&*full, "\u{258f}"]);
        // 24 x 8 / 192 is one eighth each.
        let seven = bars(&[192, 7, 8, 9]);
        assert_eq!(seven[1..], ["\u{2589}", "\u{2588}", "\u{2588}\u{258f}"]);
        assert_eq!(bars(&[0, 0]), ["", ""]);
        assert_eq!(bars(&[]), Vec::<String>::new());
    }
}
