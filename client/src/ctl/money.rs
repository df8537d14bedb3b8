//! Money as people write it and as the wire carries it: integer micros, never a float.

const DECIMALS_MAX: usize = 6;
const NANO_DECIMALS: usize = 9;
/// What is always shown: 5.5 prints as 5.50.
const DECIMALS_MIN: usize = 2;

/// Micros of a decimal amount: `5.25` is 5,250,000. Exact, or refused with the reason.
pub(crate) fn parse_micros(text: &str) -> Result<i64, String> {
    let (whole, decimals) = match text.split_once('.') {
        Some((_, "")) => return Err(not_an_amount()),
        Some(parts) => parts,
        None => (text, ""),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(decimals) {
        return Err(not_an_amount());
    }
    if decimals.len() > DECIMALS_MAX {
        return Err(format!("at most {DECIMALS_MAX} decimals: the smallest amount is 0.000001"));
    }
    format!("{whole}{decimals:0<DECIMALS_MAX$}")
        .parse()
        .map_err(|_| "more than the largest amount, 9223372036854.775807".to_owned())
}

fn not_an_amount() -> String {
    "an amount is digits with at most one decimal point, such as 5.25".to_owned()
}

/// A decimal amount with at least two decimals and no zeros beyond them.
pub(crate) fn format_micros(micros: i64) -> String {
    format_parts(micros, DECIMALS_MAX)
}

/// The same of the ledger's nanos: up to nine decimals.
pub(crate) fn format_nanos(nanos: i64) -> String {
    format_parts(nanos, NANO_DECIMALS)
}

fn format_parts(amount: i64, decimals_max: usize) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    // At least one digit before the point.
    let digits = format!("{:0>width$}", amount.unsigned_abs(), width = decimals_max + 1);
    let (whole, decimals) = digits.split_at(digits.len() - decimals_max);
    let kept = decimals.trim_end_matches('0').len().max(DECIMALS_MIN);
    format!("{sign}{whole}.{}", &decimals[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        assert_eq!(parse_micros("5.25"), Ok(5_250_000));
        assert_eq!(parse_micros("0"), Ok(0));
        assert_eq!(parse_micros("0.000001"), Ok(1));
        assert_eq!(parse_micros("9223372036854.775807"), Ok(i64::MAX));
        let tenths: i64 = (0..10).map(|_| parse_micros("0.1").unwrap()).sum();
        assert_eq!(tenths, parse_micros("1.0").unwrap());
    }

    #[test]
    fn what_is_no_exact_amount_is_refused() {
        assert!(parse_micros("0.0000001").unwrap_err().contains("6 decimals"));
        assert!(parse_micros("9223372036854.775808").unwrap_err().contains("largest"));
        for bad in ["", ".", "5.", ".5", "-1", "+1", "1e3", "NaN", "1,000", "1.2.3", " 1", "inf"] {
            assert!(parse_micros(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn amounts_print_with_two_to_six_decimals() {
        // 12,345 cents.
        assert_eq!(format_micros(12_345 * 10_000), "123.45");
        assert_eq!(format_micros(5_250_000), "5.25");
        assert_eq!(format_micros(1_000_000), "1.00");
        assert_eq!(format_micros(5_500_000), "5.50");
        assert_eq!(format_micros(1), "0.000001");
        assert_eq!(format_micros(1_230_000_500), "1230.0005");
        assert_eq!(format_micros(-10_000), "-0.01");
        assert_eq!(format_micros(i64::MIN), "-9223372036854.775808");
        assert_eq!(format_micros(0), "0.00");
    }

    #[test]
    fn nanos_print_exactly() {
        // 12,345 cents.
        assert_eq!(format_nanos(12_345 * 10_000_000), "123.45");
        assert_eq!(format_nanos(1), "0.000000001");
        assert_eq!(format_nanos(-1_500_000_000), "-1.50");
        assert_eq!(format_nanos(0), "0.00");
        let tenths: i64 = (0..10).map(|_| 100_000_000).sum();
        assert_eq!(format_nanos(tenths), "1.00");
        assert_eq!(format_nanos(i64::MIN), "-9223372036.854775808");
    }
}
