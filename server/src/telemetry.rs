//! What the service says about itself: logs, and counts of what it did.

mod counters;
mod log;

pub use counters::{Counters, Metric, Outcome};
pub use log::{LogFormat, init};
