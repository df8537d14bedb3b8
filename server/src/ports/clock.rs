//! Wall-clock time as an argument.

/// Tells the time. The service reads it here and nowhere else, so that tests can set it.
pub trait Clock: Send + Sync {
    /// Microseconds of Unix time.
    fn now_us(&self) -> i64;
}
