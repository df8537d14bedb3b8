//! Reports: what was counted, cut into minutes and days and shown under names. Pure beside its
//! reads: the wire stands in `doors::admin`.
//!
//! What a token counted under is a serial. Its name comes from [`crate::serials`]; what is not
//! known there any more is shown as `#<serial>`, with `#` for the site or campaign that it was
//! of, so that sums still add up.

mod days;
mod minutes;
mod stats;
mod top;

pub use days::{BadDays, Day, cut};
pub use minutes::{Minute, Watched, fill, is_closed, last_closed};
pub use stats::{Dimension, Filter, Of, StatsError, StatsQuery, StatsRow, StatsTable, stats};
pub use top::{TopAd, TopQuery, top};

/// Microseconds of a minute.
pub const MINUTE_US: i64 = 60_000_000;
/// What [`crate::ports::CountReader::pairs`] is cut at, in minutes.
pub const QUARTER_MIN: i64 = 15;
/// What is not known any more is shown by its number after this.
const UNKNOWN: &str = "#";

#[cfg(test)]
mod tests;
