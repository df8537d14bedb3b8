//! What a partition promises: that no event from before an instant is in time any more.

use crate::limits::LATENESS;

/// A running promise. It moves with each event in the order of the log, so what is late does not
/// depend on where batches are cut; and it never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise(i64);

/// In microseconds; some minutes fit any integer.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
const LATENESS_US: i64 = LATENESS.as_micros() as i64;

impl Promise {
    /// What is stored: events from before `promised_us`, in microseconds of Unix time, are late.
    pub fn at(promised_us: i64) -> Self {
        Self(promised_us)
    }

    /// The instant.
    pub fn us(self) -> i64 {
        self.0
    }

    /// Takes the next event of the log, and returns whether it is late: older than what was
    /// promised just before it. `now_us` is the clock's time when the log took the event: what is
    /// stamped later than that promises no more than the clock does.
    pub fn takes(&mut self, at_us: i64, now_us: i64) -> bool {
        let is_late = at_us < self.0;
        self.0 = self.0.max(at_us.min(now_us).saturating_sub(LATENESS_US));
        is_late
    }

    /// The log ended here when the clock said `now_us`, and no event came after: what is still to
    /// come is not older than that, less what it may be behind.
    #[must_use]
    pub fn at_the_end(self, now_us: i64) -> Self {
        Self(self.0.max(now_us.saturating_sub(LATENESS_US)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000;

    #[test]
    fn events_up_to_two_minutes_behind_the_newest_are_in_time() {
        let mut promise = Promise::at(0);
        assert!(!promise.takes(1_000 * S, 1_000 * S));
        assert_eq!(promise.us(), 880 * S);
        assert!(!promise.takes(880 * S, 1_001 * S), "exactly two minutes");
        assert!(promise.takes(880 * S - 1, 1_001 * S), "a microsecond more");
        assert_eq!(promise.us(), 880 * S, "it does not go back");
    }

    /// 00:00:01, and then 22:59:59 of the evening before.
    #[test]
    fn an_event_of_an_hour_ago_is_late_and_changes_nothing() {
        let mut promise = Promise::at(i64::MIN);
        assert!(!promise.takes(86_401 * S, 86_401 * S));
        assert!(promise.takes(82_799 * S, 86_402 * S));
        assert!(!promise.takes(86_402 * S, 86_402 * S));
    }

    #[test]
    fn an_event_of_the_future_promises_no_more_than_the_clock() {
        let mut promise = Promise::at(0);
        assert!(!promise.takes(1_060 * S, 1_000 * S));
        assert_eq!(promise.us(), 880 * S);
        assert!(!promise.takes(i64::MAX, 1_001 * S));
        assert_eq!(promise.us(), 881 * S);
        assert!(!promise.takes(1_001 * S, 1_001 * S), "what is right goes on being in time");
    }

    #[test]
    fn an_empty_log_promises_from_the_clock_and_never_goes_back() {
        let promise = Promise::at(0).at_the_end(1_000 * S);
        assert_eq!(promise.us(), 880 * S);
        assert_eq!(promise.at_the_end(990 * S), promise);
        assert_eq!(Promise::at(i64::MIN).at_the_end(i64::MIN).us(), i64::MIN);
    }
}
