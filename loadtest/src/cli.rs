//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

pub(crate) use modes::{
    Bars, Batch, Clicks, Compare, Decisions, Mixed, Of, Overload, Prepare, Ramp, Stream, Tell,
};

use crate::schedule::Arrivals;

mod modes;

const AFTER_HELP: &str = "\
Exit codes:
  0  done; every answer that was given was right
  1  an answer was wrong, or nothing was answered at all
  2  bad command line
  3  the run could not be made: no server, a file that cannot be written

Examples:
  loadtest prepare
  loadtest unary --rate 20000 --seconds 30
  loadtest batch --rate 100000 --batch 16 --json batch.json";

/// Puts a load on Slotwise, and says how it bore it.
#[derive(Debug, Parser)]
#[command(name = "loadtest", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the catalogue and import it
    Prepare(Prepare),
    /// Decisions, each in a call of its own
    Unary(Decisions),
    /// Decisions, several in each call
    Batch(Batch),
    /// Decisions over long-lived streams
    Stream(Stream),
    /// Clicks (or pixels) as browsers make them, each with a token of its own, got beforehand
    Clicks(Clicks),
    /// Decisions, and the impressions and clicks that follow, counted
    Mixed(Mixed),
    /// The highest rate of decisions that holds a latency goal
    Ramp(Ramp),
    /// The loads that the service is measured by, against a server that is started for them: unary
    /// 70,000 decisions a second, batch 300,000, stream 400,000, mixed 40,000
    Bars(Bars),
    /// What real decisions cost beside a no-op of equal size, in turns, on servers that are started
    /// for it
    Compare(Compare),
    /// What becomes of twice as many decisions as can be answered, on a server that is started for it
    Overload(Overload),
}

/// The doors of a running server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The server")]
pub(crate) struct Doors {
    /// Where the decision door listens
    #[arg(
        long,
        env = "SLOTWISE_DECISION_ADDR",
        value_name = "ADDR",
        default_value = "127.0.0.1:7070"
    )]
    pub(crate) decision_addr: SocketAddr,
    /// Where the event door listens
    #[arg(
        long,
        env = "SLOTWISE_EVENT_ADDR",
        value_name = "ADDR",
        default_value = "127.0.0.1:7071"
    )]
    pub(crate) event_addr: SocketAddr,
    /// Where the admin door listens
    #[arg(
        long,
        env = "SLOTWISE_ADMIN_ADDR",
        value_name = "ADDR",
        default_value = "127.0.0.1:7072"
    )]
    pub(crate) admin_addr: SocketAddr,
    /// The server's process on this machine, so that its processor time is shown; on loopback it is
    /// found by its port where that can be
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
}

/// How the load is made.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The load")]
pub(crate) struct Making {
    /// Decisions a second, by a schedule that waits for nobody
    #[arg(long, default_value_t = 1_000.0, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: f64,
    /// Calls that are always under way instead of a rate: a closed loop, whose latencies leave out
    /// the waits that a slow server causes
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    pub(crate) closed: Option<usize>,
    /// Seconds that are measured
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Seconds before that, at the same rate
    #[arg(long, default_value_t = 3, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3_600))]
    pub(crate) warm_up: u64,
    /// How the instants of the schedule lie
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson, value_name = "HOW")]
    pub(crate) arrivals: Arrivals,
    /// Connections
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) connections: u16,
    /// What is due within so many microseconds is sent together
    #[arg(long, default_value_t = 500, value_name = "US", value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub(crate) tick_us: u64,
    /// What comes within so many microseconds is read together, which is cheaper and makes latencies
    /// seem longer, never shorter [default: 0 below 5,000 calls a second, above it as --tick-us]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub(crate) gather_us: Option<u64>,
    /// An answer that takes more milliseconds is counted as late
    #[arg(long, default_value_t = 100, value_name = "MS")]
    pub(crate) late_ms: u64,
    /// Milliseconds within which an answer is of use (unary and batch): half of them may pass until
    /// a call is sent, or it is dropped as not sent; the rest is the deadline that it names; what
    /// takes longer than both is late
    #[arg(long, value_name = "MS", conflicts_with = "late_ms", value_parser = clap::value_parser!(u64).range(2..=60_000))]
    pub(crate) deadline_ms: Option<u64>,
    /// One answer of so many is held against the catalogue as a whole; 0: none. Each is looked
    /// through in any case
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub(crate) check_every: u64,
    /// The server answers with a no-op: its answers hold nothing that could be checked
    #[arg(skip)]
    pub(crate) is_noop: bool,
}

/// Where the results go, beside the table.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Results")]
pub(crate) struct Results {
    /// Write all figures to a file as one JSON object; without a file, or with -, to standard output
    /// instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Draw latency by percentile, and what became of the requests over time
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
}

impl Doors {
    /// The process whose processor time is shown.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.server_pid.or_else(|| crate::pid::of_listener(self.decision_addr))
    }
}

impl Making {
    /// Nanoseconds from the beginning until the measured part, and until its end.
    pub(crate) fn window(&self) -> crate::meter::Window {
        let from_ns = self.warm_up * 1_000_000_000;
        crate::meter::Window { from_ns, to_ns: from_ns + self.seconds * 1_000_000_000 }
    }

    /// An answer that takes more microseconds is late.
    pub(crate) fn late_us(&self) -> u64 {
        self.deadline_ms.unwrap_or(self.late_ms).saturating_mul(1_000)
    }

    /// The deadline that a call names: what is left of it when a call is sent at the last instant.
    pub(crate) fn named_deadline(&self) -> Option<Duration> {
        self.deadline_ms.map(|ms| Duration::from_millis(ms) / 2)
    }

    /// How long something that is due may wait until it is sent.
    pub(crate) fn patience(&self) -> Duration {
        self.named_deadline().unwrap_or(crate::limits::PATIENCE)
    }

    /// # Errors
    /// When a deadline is asked for where `what` has none.
    pub(crate) fn ensure_no_deadline(&self, what: &str) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.deadline_ms.is_none(),
            "--deadline-ms is for unary, batch and overload: {what} has no deadline for each decision"
        );
        Ok(())
    }

    /// How the thread divides its time, for so many calls a second.
    pub(crate) fn rhythm(&self, calls_a_second: f64) -> crate::engine::Rhythm {
        let usual = if calls_a_second < EAGER_BELOW { 0 } else { self.tick_us };
        let gather_us = if self.closed.is_some() { 0 } else { usual };
        crate::engine::Rhythm {
            tick: Duration::from_micros(self.tick_us),
            gather: Duration::from_micros(self.gather_us.unwrap_or(gather_us)),
        }
    }
}

/// Below so many calls a second it costs nothing to read each answer when it comes.
const EAGER_BELOW: f64 = 5_000.0;

/// A rate that a schedule can be made of.
fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    (0.1..=10_000_000.0)
        .contains(&rate)
        .then_some(rate)
        .ok_or("not from 0.1 to 10,000,000".to_owned())
}
