//! `compare`: what a decision costs beside a no-op of equal size. The same binary answers in turn
//! with a fixed answer, after reading the request whole, and with real decisions; each time a new
//! process on a fresh copy of the catalogue, under the same closed loop.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::decisions::{self, Mode};
use super::prepare;
use crate::cli::Compare;
use crate::report::Report;
use crate::server::{self, Server};
use crate::workload::Catalogue;
use crate::workload::encode::GRPC_PREFIX_BYTES;

/// One side of one round.
#[derive(Clone, Copy, Debug)]
struct Side {
    rate: f64,
    cpu_us: f64,
}

/// All rounds.
pub(crate) struct Compared {
    noop_bytes: u64,
    rounds: Vec<(Side, Side)>,
    is_good: bool,
}

pub(crate) fn run(args: &Compare) -> anyhow::Result<Compared> {
    let binary = server::binary(args.server_bin.as_deref())?;
    let home = tempfile::tempdir().context("a directory for the catalogue")?;
    let prepared = home.path().join("prepared");
    let noop_bytes = prepare(args, &binary, &prepared)?;
    eprintln!("a real answer has {noop_bytes} bytes on average: so has the no-op's");
    let mut compared = Compared { noop_bytes, rounds: Vec::new(), is_good: true };
    for round in 0..args.rounds {
        let mut side = |is_noop: bool| {
            let data = home.path().join("round");
            copy(&prepared, &data)?;
            let report = one(args, &binary, &data, is_noop.then_some(noop_bytes))?;
            std::fs::remove_dir_all(&data).context("a round's directory")?;
            let kind = report.kinds.first().context("nothing was measured")?;
            compared.is_good &= report.is_good() && kind.meter.failed() == 0;
            let cpu_us = report.server_us_each().context("the server's processor time")?;
            let side = Side { rate: kind.meter.rate(), cpu_us };
            let name = if is_noop { "no-op" } else { "real" };
            eprintln!(
                "round {}: {name}: {:.0}/s, {:.2} us of the server's processor each",
                round + 1,
                side.rate,
                side.cpu_us
            );
            Ok::<_, anyhow::Error>(side)
        };
        // Whoever goes first finds another machine than whoever goes second: in turns.
        let pair = if round % 2 == 0 {
            let noop = side(true)?;
            (noop, side(false)?)
        } else {
            let real = side(false)?;
            (side(true)?, real)
        };
        compared.rounds.push(pair);
    }
    Ok(compared)
}

/// Makes the catalogue once, and measures how large a real answer is.
fn prepare(args: &Compare, binary: &Path, prepared: &Path) -> anyhow::Result<u64> {
    let server = Server::start(binary, prepared, &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let catalogue = Catalogue::new(&args.decisions.shape)?;
    eprintln!("{}", runtime.block_on(prepare::import(server.admin, catalogue))?);
    server.stop();
    // Measured on a copy: what is decided here must not fill caps in the rounds.
    let home = tempfile::tempdir().context("a directory for the first answers")?;
    let data = home.path().join("first");
    copy(prepared, &data)?;
    let server = Server::start(binary, &data, &[])?;
    let mut decisions = decisions_of(args, &server);
    (decisions.making.seconds, decisions.making.warm_up) = (1, 0);
    let report = decisions::run(&decisions, Mode::Unary)?;
    server.stop();
    anyhow::ensure!(report.is_good(), "the first answers were not right:\n{}", report.table());
    let bytes = report.answer_bytes.unwrap_or_default() - f64::from(PREFIX);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of bytes")]
    Ok(bytes.round().max(1.0) as u64)
}

/// What stands before each message, and is not part of it.
#[allow(clippy::cast_possible_truncation, reason = "five")]
const PREFIX: u8 = GRPC_PREFIX_BYTES as u8;

/// One side of one round, on a process of its own.
fn one(args: &Compare, binary: &Path, data: &Path, noop: Option<u64>) -> anyhow::Result<Report> {
    let more = noop.map_or(Vec::new(), |bytes| vec!["--noop-bytes".to_owned(), bytes.to_string()]);
    let server = Server::start(binary, data, &more)?;
    let mut decisions = decisions_of(args, &server);
    decisions.making.is_noop = noop.is_some();
    let report = decisions::run(&decisions, Mode::Unary)?;
    server.stop();
    Ok(report)
}

/// The load of every round: as much as is taken.
fn decisions_of(args: &Compare, server: &Server) -> crate::cli::Decisions {
    let mut decisions = args.decisions.clone();
    decisions.doors.decision_addr = server.decisions;
    decisions.doors.server_pid = Some(server.pid());
    decisions.making.closed = Some(args.in_flight);
    decisions.making.seconds = args.decisions.making.seconds;
    decisions
}

/// Copies a directory of files.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target).with_context(|| target.display().to_string())?;
        }
    }
    Ok(())
}

impl Compared {
    /// Rate of real decisions beside that of the no-op, round by round, smallest first.
    fn ratios(&self) -> Vec<f64> {
        let mut ratios: Vec<_> =
            self.rounds.iter().map(|(noop, real)| real.rate / noop.rate).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    fn median_of(&self, value: impl Fn(&(Side, Side)) -> f64) -> f64 {
        let mut values: Vec<_> = self.rounds.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        median(&values)
    }

    pub(crate) fn is_good(&self) -> bool {
        self.is_good
    }

    pub(crate) fn table(&self) -> String {
        let ratios = self.ratios();
        format!(
            "compare: {} rounds, answers of {} bytes\n  no-op: {:.0}/s, {:.2} us of the server's \
             processor each\n  real:  {:.0}/s, {:.2} us\n  real decisions come at {:.3} of the \
             no-op's rate (median; {:.3} to {:.3})\n",
            self.rounds.len(),
            self.noop_bytes,
            self.median_of(|(noop, _)| noop.rate),
            self.median_of(|(noop, _)| noop.cpu_us),
            self.median_of(|(_, real)| real.rate),
            self.median_of(|(_, real)| real.cpu_us),
            median(&ratios),
            ratios.first().copied().unwrap_or(f64::NAN),
            ratios.last().copied().unwrap_or(f64::NAN),
        )
    }

    pub(crate) fn json(&self) -> Value {
        let ratios = self.ratios();
        let rounds = self.rounds.iter().map(|(noop, real)| {
            json!({
                "rate_noop": noop.rate,
                "rate_real": real.rate,
                "cpu_us_noop": noop.cpu_us,
                "cpu_us_real": real.cpu_us,
            })
        });
        json!({
            "ratio_median": median(&ratios),
            "ratio_min": ratios.first(),
            "ratio_max": ratios.last(),
            "cpu_us_noop": self.median_of(|(noop, _)| noop.cpu_us),
            "cpu_us_real": self.median_of(|(_, real)| real.cpu_us),
            "rate_noop": self.median_of(|(noop, _)| noop.rate),
            "rate_real": self.median_of(|(_, real)| real.rate),
            "answer_bytes": self.noop_bytes,
            "is_good": self.is_good,
            "rounds": rounds.collect::<Vec<_>>(),
        })
    }
}

/// The middle of sorted values.
fn median(sorted: &[f64]) -> f64 {
    let (Some(low), Some(high)) =
        (sorted.get(sorted.len().saturating_sub(1) / 2), sorted.get(sorted.len() / 2))
    else {
        return f64::NAN;
    };
    f64::midpoint(*low, *high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_each_round_and_its_spread_is_said() {
        let side = |rate: f64, cpu_us: f64| Side { rate, cpu_us };
        let rounds = vec![
            (side(100.0, 5.0), side(50.0, 10.0)),
            (side(200.0, 6.0), side(80.0, 11.0)),
            (side(100.0, 7.0), side(70.0, 12.0)),
        ];
        let compared = Compared { noop_bytes: 450, rounds, is_good: true };
        let json = compared.json();
        for (key, expected) in [
            ("ratio_median", 0.5),
            ("ratio_min", 0.4),
            ("ratio_max", 0.7),
            ("cpu_us_noop", 6.0),
            ("cpu_us_real", 11.0),
        ] {
            assert!((json[key].as_f64().unwrap() - expected).abs() < 1e-9, "{key}");
        }
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert!((median(&[1.0, 2.0, 4.0, 8.0]) - 3.0).abs() < 1e-9);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_directory_is_copied_with_all_in_it() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("a"), home.path().join("b"));
        std::fs::create_dir_all(from.join("c")).unwrap();
        std::fs::write(from.join("c/d"), "e").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("c/d")).unwrap(), "e");
    }
}
