//! What the service says about itself: logs, and counts of what it did.

mod counters;
mod log;
mod vital;

pub use counters::{Counters, Metric, Outcome};
pub use log::{LogFormat, init};
pub use vital::spawn_vital;
