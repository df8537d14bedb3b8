//! `overload`: what becomes of more decisions than can be answered, on a server of our own. The peak
//! is found by a closed loop; then so many times as much is asked for by a schedule that waits for
//! nobody, each call with a deadline.

use std::fmt::Write as _;

use anyhow::Context;
use serde_json::{Value, json};

use super::decisions::{self, Mode};
use super::prepare;
use crate::cli::Overload;
use crate::limits::DEADLINE_MS_DEFAULT;
use crate::memory::{self, Resident};
use crate::report::Report;
use crate::server::{self, Server};
use crate::workload::Catalogue;

/// How an overload was borne.
pub(crate) struct Borne {
    /// Decisions a second of the closed loop.
    peak: f64,
    deadline_ms: u64,
    report: Report,
    before: Resident,
    after: Resident,
    is_good: bool,
}

pub(crate) fn run(args: &Overload) -> anyhow::Result<Borne> {
    let binary = server::binary(args.server_bin.as_deref())?;
    let home = tempfile::tempdir().context("a directory for the server")?;
    let server = Server::start(&binary, home.path(), &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let catalogue = Catalogue::new(&args.decisions.shape)?;
    eprintln!("{}", runtime.block_on(prepare::import(server.admin, catalogue))?);
    let mut decisions = args.decisions.clone();
    decisions.doors.decision_addr = server.decisions;
    decisions.doors.server_pid = Some(server.pid());
    let deadline_ms = decisions.making.deadline_ms.take().unwrap_or(DEADLINE_MS_DEFAULT);
    decisions.making.closed = Some(args.in_flight);
    let at_peak = decisions::run(&decisions, Mode::Unary)?;
    let peak = at_peak.kinds.first().context("nothing was measured")?.meter.rate();
    anyhow::ensure!(peak > 0.0, "nothing was answered:\n{}", at_peak.table());
    eprintln!("the peak: {peak:.0} decisions a second");

    decisions.making.closed = None;
    decisions.making.rate = peak * args.times;
    decisions.making.deadline_ms = Some(deadline_ms);
    memory::forget_most(server.pid())?;
    let before = memory::of_process(server.pid())?;
    let report = decisions::run(&decisions, Mode::Unary)?;
    let after = memory::of_process(server.pid())?;
    server.stop();
    let is_good = at_peak.is_good() && report.is_good();
    Ok(Borne { peak, deadline_ms, report, before, after, is_good })
}

impl Borne {
    pub(crate) fn is_good(&self) -> bool {
        self.is_good
    }

    /// What was answered in time, a second.
    fn goodput(&self) -> f64 {
        self.report.kinds.first().map_or(0.0, |kind| {
            let counts = kind.meter.counts;
            #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
            let in_time = counts.answered.saturating_sub(counts.late) as f64;
            in_time / kind.meter.window.seconds()
        })
    }

    pub(crate) fn table(&self) -> String {
        let mut text = self.report.table();
        let goodput = self.goodput();
        let _ = writeln!(
            text,
            "overload: asked for {:.0}/s, {:.1} times the peak of {:.0}/s; answered within {} ms: \
             {goodput:.0}/s, {:.1} % of the peak",
            self.report.making.rate,
            self.report.making.rate / self.peak,
            self.peak,
            self.deadline_ms,
            goodput / self.peak * 100.0,
        );
        let _ = writeln!(
            text,
            "resident memory of the server: {:.0} MB before, {:.0} MB after, {:.0} MB at most",
            self.before.now_mb, self.after.now_mb, self.after.most_mb
        );
        text
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "peak": self.peak,
            "offered": self.report.making.rate,
            "goodput": self.goodput(),
            "goodput_share": self.goodput() / self.peak,
            "deadline_ms": self.deadline_ms,
            "resident_mb_before": self.before.now_mb,
            "resident_mb_after": self.after.now_mb,
            "resident_mb_most": self.after.most_mb,
            "is_good": self.is_good,
            "run": self.report.json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Meter, Window};
    use crate::report::Kind;

    #[test]
    fn what_is_late_is_no_goodput() {
        let cli = <crate::cli::Cli as clap::Parser>::try_parse_from(["loadtest", "overload"]);
        let crate::cli::Command::Overload(args) = cli.unwrap().command else {
            panic!("not overload")
        };
        let mut making = args.decisions.making.clone();
        making.rate = 80.0;
        let window = Window { from_ns: 0, to_ns: 2_000_000_000 };
        let mut meter = Meter::new(window, 100_000).unwrap();
        meter.answered(0, 90_000_000, 60);
        meter.answered(0, 110_000_000, 20);
        meter.refused("UNAVAILABLE: overloaded".to_owned(), 1, 60);
        let mut report = Report::new("unary", &making);
        report.kinds.push(Kind { name: "decisions", meter });
        let resident = Resident { now_mb: 100.0, most_mb: 120.0 };
        let borne = Borne {
            peak: 40.0,
            deadline_ms: 100,
            report,
            before: resident,
            after: resident,
            is_good: true,
        };
        let (json, table) = (borne.json(), borne.table());
        for (key, expected) in [("peak", 40.0), ("offered", 80.0), ("goodput", 30.0)] {
            assert!((json[key].as_f64().unwrap() - expected).abs() < 1e-9, "{key}");
        }
        assert!((json["goodput_share"].as_f64().unwrap() - 0.75).abs() < 1e-9);
        assert_eq!(json["run"]["kinds"]["decisions"]["late"], 20);
        assert!(table.contains("2.0 times the peak of 40/s"), "{table}");
        assert!(table.contains("30/s, 75.0 % of the peak"), "{table}");
        assert!(table.contains("120 MB at most"), "{table}");
    }
}
