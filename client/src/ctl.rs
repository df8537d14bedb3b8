//! What `slotwisectl` is made of: a command line over the client.

use std::process::ExitCode;

use clap::Parser;

mod accounts;
mod chart;
mod cli;
mod commands;
mod connect;
mod error;
mod events;
pub mod files;
mod input;
mod mask;
mod money;
mod output;
mod paging;
mod report;
mod spool;
mod text;
mod time;

/// Reads the command line, runs the one command in it, and says how that ended: an error is one
/// line on standard error and an exit code, as `slotwisectl --help` lists them.
pub async fn run() -> ExitCode {
    match commands::run(cli::Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has what they wanted: `slotwisectl ... | head`.
        Err(error::Error::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(&failure.to_string());
            ExitCode::from(failure.exit_code())
        }
    }
}
