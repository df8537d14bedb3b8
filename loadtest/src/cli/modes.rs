//! What each command takes.

use std::path::PathBuf;

use clap::Args;

use super::{Doors, Making, Results};
use crate::workload::{Asking, Shape, share};

#[derive(Args, Debug)]
pub(crate) struct Prepare {
    #[command(flatten)]
    pub(crate) doors: Doors,
    #[command(flatten)]
    pub(crate) shape: Shape,
    /// Write the catalogue to a file, as `slotwisectl import` takes it, instead of importing it
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Decisions {
    #[command(flatten)]
    pub(crate) doors: Doors,
    #[command(flatten)]
    pub(crate) making: Making,
    #[command(flatten)]
    pub(crate) asking: Asking,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) results: Results,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Batch {
    /// Decisions in one call
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) batch: u16,
    #[command(flatten)]
    pub(crate) decisions: Decisions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Stream {
    /// Streams on each connection
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) streams: u16,
    #[command(flatten)]
    pub(crate) decisions: Decisions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Clicks {
    /// Pixels (impressions) instead of clicks
    #[arg(long)]
    pub(crate) pixels: bool,
    #[command(flatten)]
    pub(crate) decisions: Decisions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Mixed {
    /// Share of decisions, 0 to 1, of which an ad is seen
    #[arg(long, default_value_t = 0.3, value_name = "SHARE", value_parser = share)]
    pub(crate) impressions: f64,
    /// Share of decisions, 0 to 1, of which an ad is clicked
    #[arg(long, default_value_t = 0.01, value_name = "SHARE", value_parser = share)]
    pub(crate) clicks: f64,
    /// How impressions are told of; a click is always a GET
    #[arg(long, value_enum, default_value_t = Tell::Calls, value_name = "HOW")]
    pub(crate) tell: Tell,
    /// Connections for clicks, and as many for impressions
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) event_connections: u16,
    #[command(flatten)]
    pub(crate) decisions: Decisions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Ramp {
    /// What is ramped
    #[arg(long, value_enum, default_value_t = Of::Unary, value_name = "WHAT")]
    pub(crate) of: Of,
    /// Decisions in one call of a batch
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) batch: u16,
    /// The goal: milliseconds from the intended send to the answer
    #[arg(long, default_value_t = 10.0, value_name = "MS")]
    pub(crate) goal_ms: f64,
    /// The share of answers, 0 to 1, that must keep it; besides, none may fail
    #[arg(long, default_value_t = 0.99, value_name = "SHARE", value_parser = share)]
    pub(crate) quantile: f64,
    /// Each step is so many times the one before, until one fails
    #[arg(long, default_value_t = 1.5, value_name = "TIMES", value_parser = growth)]
    pub(crate) growth: f64,
    /// How close the rate is found, as a share of it
    #[arg(long, default_value_t = 0.05, value_name = "SHARE", value_parser = share)]
    pub(crate) within: f64,
    /// --rate is where it begins, and --seconds and --warm-up are those of each step
    #[command(flatten)]
    pub(crate) decisions: Decisions,
}

/// What is ramped.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Each decision in a call of its own
    Unary,
    /// Several in a call
    Batch,
    /// Over long-lived streams
    Stream,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Bars {
    /// The server's binary [default: `slotwise` beside this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) server_bin: Option<PathBuf>,
    /// All rates times this, for a smaller machine
    #[arg(long, default_value_t = 1.0, value_name = "TIMES", value_parser = scale)]
    pub(crate) scale: f64,
    /// A directory for charts, one of each load
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) decisions: Decisions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Compare {
    /// The server's binary [default: `slotwise` beside this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) server_bin: Option<PathBuf>,
    /// Rounds, each of one run with the no-op and one with real decisions
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) rounds: u16,
    /// Calls that are always under way
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub(crate) in_flight: usize,
    #[command(flatten)]
    pub(crate) decisions: Decisions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Overload {
    /// The server's binary [default: `slotwise` beside this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) server_bin: Option<PathBuf>,
    /// So many times the peak is asked for
    #[arg(long, default_value_t = 2.0, value_name = "TIMES", value_parser = growth)]
    pub(crate) times: f64,
    /// Calls that are always under way while the peak is looked for
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub(crate) in_flight: usize,
    /// --rate and --closed are not used; without --deadline-ms it is 100
    #[command(flatten)]
    pub(crate) decisions: Decisions,
}

/// How impressions are told of.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    /// RecordEvents, up to 100 in a call
    Calls,
    /// GET /i/TOKEN, as browsers do
    Pixels,
}

/// What a ramp's steps are apart.
fn growth(text: &str) -> Result<f64, String> {
    let growth: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    (1.01..=10.0).contains(&growth).then_some(growth).ok_or("not from 1.01 to 10".to_owned())
}

/// What all rates are multiplied with.
fn scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    (0.0001..=100.0).contains(&scale).then_some(scale).ok_or("not from 0.0001 to 100".to_owned())
}
