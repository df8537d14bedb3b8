//! `unary`, `batch` and `stream`: decisions by a schedule, or in a closed loop.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::check::Deep;
use crate::cli::Decisions;
use crate::engine::{self, Clock, Load};
use crate::h2::request::Template;
use crate::lanes::Lanes;
use crate::load::common::{Checks, Common};
use crate::load::decide::{BATCH, Decide, UNARY};
use crate::load::pace::{Beat, Pace};
use crate::load::probe::Probe;
use crate::load::stream::{STREAM, Streams};
use crate::meter::Meter;
use crate::report::{Kind, Report};
use crate::schedule::Schedule;
use crate::workload::{Catalogue, Pool, Visitors};

/// How decisions are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each in a call of its own.
    Unary,
    /// So many in a call.
    Batch(usize),
    /// Over so many streams on each connection.
    Stream(usize),
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::Batch(_) => "batch",
            Self::Stream(_) => "stream",
        }
    }

    fn batch(self) -> Option<usize> {
        match self {
            Self::Batch(count) => Some(count),
            Self::Unary | Self::Stream(_) => None,
        }
    }

    /// Decisions that are sent together.
    fn weight(self) -> f64 {
        u32::try_from(self.batch().unwrap_or(1)).map_or(1.0, f64::from)
    }
}

/// One run.
pub(crate) fn run(args: &Decisions, mode: Mode) -> anyhow::Result<Report> {
    let common = common(args, mode)?;
    let (common, fault, notes) = match mode {
        Mode::Unary | Mode::Batch(_) => {
            let path = if mode == Mode::Unary { UNARY } else { BATCH };
            let mut load = Decide::new(common, mode.batch());
            let needed = load.body_bytes_max();
            let fault = drive(&mut load, args, path, mode, needed)?;
            (load.common, fault, Vec::new())
        }
        Mode::Stream(each) => {
            args.making.ensure_no_deadline("a stream")?;
            let mut load = Streams::new(common, usize::from(args.making.connections), each);
            let fault = drive(&mut load, args, STREAM, mode, 0)?;
            let early = load.ended_early;
            let note = format!("{early} streams ended before we had finished them");
            (load.common, fault, if early > 0 { vec![note] } else { Vec::new() })
        }
    };
    let mut report = report(common, args, mode);
    report.last_fault = fault;
    report.notes = notes;
    Ok(report)
}

/// Connects, and goes round until all is done; why the last connection broke, if one did.
pub(crate) fn drive<L: Load>(
    load: &mut L,
    args: &Decisions,
    path: &str,
    mode: Mode,
    needed: usize,
) -> anyhow::Result<Option<String>> {
    let server = args.doors.decision_addr;
    let mut lanes = Lanes::new()?;
    for _ in 0..args.making.connections {
        let deadline = args.making.named_deadline();
        let template = Template::grpc(&server.to_string(), path).with_deadline(deadline);
        let at = lanes.connect(server, template, load)?;
        let largest = lanes.all[at].connection.body_bytes_max();
        anyhow::ensure!(
            i64::try_from(needed)? <= largest,
            "a call of {needed} bytes never fits the {largest} that the server takes at once"
        );
    }
    let rhythm = args.making.rhythm(args.making.rate / mode.weight());
    engine::run(load, &mut lanes, Clock::start(), rhythm)?;
    Ok(lanes.last_fault.take())
}

pub(crate) fn report(mut common: Common, args: &Decisions, mode: Mode) -> Report {
    common.meter.finish();
    let mut report = Report::new(mode.name(), &args.making);
    report.batch = mode.batch();
    report.spent = common.probe.spent();
    report.checked_whole = common.checks.deep.done();
    #[allow(clippy::cast_precision_loss, reason = "a mean of bytes")]
    let answer_bytes = common.answer_bytes as f64 / common.answers.max(1) as f64;
    report.answer_bytes = Some(answer_bytes);
    report.kinds.push(Kind { name: "decisions", meter: common.meter });
    report
}

/// Everything that a run needs, made before it begins.
pub(crate) fn common(args: &Decisions, mode: Mode) -> anyhow::Result<Common> {
    let (making, asking, shape) = (&args.making, &args.asking, &args.shape);
    let window = making.window();
    let catalogue = Catalogue::new(shape)?;
    let checks = Checks {
        count: asking.count as usize,
        is_full: catalogue.is_full(asking.count),
        deep: Deep::new(catalogue, making.check_every),
        is_noop: making.is_noop,
    };
    let beat = match making.closed {
        Some(in_flight) => Beat::Closed { in_flight, end_ns: window.to_ns, left: u64::MAX },
        None => {
            let rate = making.rate / mode.weight();
            Beat::Open(Schedule::new(making.arrivals, rate, window.to_ns, asking.seed))
        }
    };
    let pace = Pace::new(beat, mode.batch().unwrap_or(1) as u64, making.patience());
    let meter = Meter::new(window, making.late_us())?;
    let probe = Probe::new(window, args.doors.pid());
    let requests = (Pool::new(shape, asking)?, Visitors::new(asking, this_run())?);
    Ok(Common::new(pace, meter, probe, requests, checks))
}

/// What tells this run's newcomers from all others.
fn this_run() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}
