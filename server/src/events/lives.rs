//! How long a token may be used, and for what.

use std::time::Duration;

use super::Kind;
use crate::tokens::Showing;

/// The lives of a token, each from when it was issued. At its end it still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// For an impression, and for a loss.
    pub impression: Duration,
    /// For a click.
    pub click: Duration,
    /// For a conversion.
    pub conversion: Duration,
}

impl Lives {
    /// Whether what happened to `showing` at `at_us` came too late.
    pub fn are_over(&self, kind: Kind, showing: &Showing, at_us: i64) -> bool {
        let life = match kind {
            Kind::Impression => self.impression,
            Kind::Click => self.click,
            Kind::Conversion => self.conversion,
        };
        let life_ms = i64::try_from(life.as_millis()).unwrap_or(i64::MAX);
        // The instant of issue is known to the millisecond.
        at_us.div_euclid(1_000) > showing.issued_at_ms.saturating_add(life_ms)
    }
}
