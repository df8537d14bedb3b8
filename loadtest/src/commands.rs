//! What each command does.

use std::process::ExitCode;

use crate::cli::{Cli, Command, Decisions, Results};
use decisions::Mode;

use crate::report::Report;

mod counted;
mod decisions;
mod events;
mod prepare;

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
    }
}

fn decide(args: &Decisions, mode: Mode) -> anyhow::Result<ExitCode> {
    finish(&decisions::run(args, mode)?, &args.results)
}

/// Shows a report and says how the run went.
fn finish(report: &Report, results: &Results) -> anyhow::Result<ExitCode> {
    print!("{}", report.table());
    report.write(results)?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
}
