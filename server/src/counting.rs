//! From the log to the counts: each event once, in the minute when it happened.

pub mod heat;
mod job;
pub mod promise;
pub mod shares;
pub mod sums;
mod worker;

pub use job::Job;
pub use worker::{Turn, Worker};
