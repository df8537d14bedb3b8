//! Instants: microseconds of Unix time here, timestamps on the wire.

use prost_types::Timestamp;

/// `at_us` as a timestamp.
pub fn timestamp(at_us: i64) -> Timestamp {
    let nanos = i32::try_from(at_us.rem_euclid(1_000_000) * 1_000).unwrap_or(0);
    Timestamp { seconds: at_us.div_euclid(1_000_000), nanos }
}
