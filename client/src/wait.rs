//! How long to pause before trying again: longer each time, and never in step with others.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The pause after `failures` failures in a row (0 counts as the first): twice as long each time,
/// from `min` up to `max`, half of it at random, so that those who failed together do not come
/// back together.
pub(crate) fn backoff(failures: u32, min: Duration, max: Duration) -> Duration {
    jittered(failures, min, max, RandomState::new().hash_one(failures))
}

fn jittered(failures: u32, min: Duration, max: Duration, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let whole = min.saturating_mul(1 << doublings).min(max);
    let share = (random >> 32) as u32;
    let half = whole / 2;
    half + half.mul_f64(f64::from(share) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_half_is_random() {
        let (min, max) = (Duration::from_millis(50), Duration::from_secs(5));
        let bounds =
            |failures| (jittered(failures, min, max, 0), jittered(failures, min, max, u64::MAX));
        let ms = Duration::from_millis;
        assert_eq!(bounds(0), (ms(25), ms(50)));
        assert_eq!(bounds(1), (ms(25), ms(50)));
        assert_eq!(bounds(3), (ms(100), ms(200)));
        assert_eq!(bounds(8), (ms(2_500), ms(5_000)));
        assert_eq!(bounds(u32::MAX), (ms(2_500), ms(5_000)));
        let drawn: std::collections::HashSet<Duration> =
            (0..20).map(|_| backoff(3, min, max)).collect();
        assert!(drawn.len() > 10, "{drawn:?}");
    }
}
