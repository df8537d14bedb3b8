//! What each command does.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::{Cli, Command, Decisions, Results};
use crate::report::Report;
use decisions::Mode;

mod bars;
mod compare;
mod counted;
mod decisions;
mod events;
mod overload;
mod prepare;
mod ramp;

/// The run could not be made.
pub(crate) const FAILED: u8 = 3;
/// An answer was wrong.
const WRONG: u8 = 1;

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Prepare(args) => {
            prepare::run(&args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Unary(args) => decide(&args, Mode::Unary),
        Command::Batch(args) => decide(&args.decisions, Mode::Batch(usize::from(args.batch))),
        Command::Stream(args) => decide(&args.decisions, Mode::Stream(usize::from(args.streams))),
        Command::Clicks(args) => finish(&events::clicks(&args)?, &args.decisions.results),
        Command::Mixed(args) => finish(&events::mixed(&args)?, &args.decisions.results),
        Command::Ramp(args) => {
            let found = ramp::run(&args)?;
            tell(&found.table(), &found.json(), args.decisions.results.json.as_deref())?;
            Ok(code(found.is_good()))
        }
        Command::Bars(args) => Ok(code(bars::run(&args)?)),
        Command::Compare(args) => {
            let compared = compare::run(&args)?;
            tell(&compared.table(), &compared.json(), args.decisions.results.json.as_deref())?;
            Ok(code(compared.is_good()))
        }
        Command::Overload(args) => {
            let borne = overload::run(&args)?;
            tell(&borne.table(), &borne.json(), args.decisions.results.json.as_deref())?;
            Ok(code(borne.is_good()))
        }
    }
}

fn decide(args: &Decisions, mode: Mode) -> anyhow::Result<ExitCode> {
    finish(&decisions::run(args, mode)?, &args.results)
}

/// Shows a report and says how the run went.
fn finish(report: &Report, results: &Results) -> anyhow::Result<ExitCode> {
    tell(&report.table(), &report.json(), results.json.as_deref())?;
    if let Some(path) = &results.svg {
        report.draw(path)?;
    }
    Ok(code(report.is_good()))
}

/// Prints the table and writes the figures; or prints these alone.
fn tell(table: &str, json: &serde_json::Value, path: Option<&Path>) -> anyhow::Result<()> {
    if path == Some(Path::new("-")) {
        println!("{json}");
        return Ok(());
    }
    print!("{table}");
    if let Some(path) = path {
        std::fs::write(path, format!("{json}\n")).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::from(WRONG) }
}
