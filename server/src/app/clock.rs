//! The machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::ports::Clock;

/// Wall-clock time of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_us(&self) -> i64 {
        // The one place that reads it.
        #[allow(clippy::disallowed_methods)]
        let now = SystemTime::now();
        let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
    }
}
