//! Instants: microseconds of Unix time here, timestamps on the wire.

use prost_types::Timestamp;

/// `at_us` as a timestamp.
pub fn timestamp(at_us: i64) -> Timestamp {
    let nanos = i32::try_from(at_us.rem_euclid(1_000_000) * 1_000).unwrap_or(0);
    Timestamp { seconds: at_us.div_euclid(1_000_000), nanos }
}

/// `timestamp` in microseconds of Unix time, what is below cut off; nothing where it lies outside
/// the years 1 to 9999, or is none.
pub fn micros(timestamp: &Timestamp) -> Option<i64> {
    const YEARS_1_TO_9999: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;
    let is_one = YEARS_1_TO_9999.contains(&timestamp.seconds)
        && (0..1_000_000_000).contains(&timestamp.nanos);
    is_one.then(|| timestamp.seconds * 1_000_000 + i64::from(timestamp.nanos) / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_as_they_were_written() {
        for at_us in [0, -1, 1, 1_796_040_000_123_456, -62_135_596_800_000_000] {
            assert_eq!(micros(&timestamp(at_us)), Some(at_us));
        }
        for (seconds, nanos) in [(0, -1), (0, 1_000_000_000), (i64::MAX, 0), (i64::MIN, 0)] {
            assert_eq!(micros(&Timestamp { seconds, nanos }), None);
        }
    }
}
