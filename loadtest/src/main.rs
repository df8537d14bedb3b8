//! `loadtest`: puts a load on Slotwise, and says how it bore it.

use std::process::ExitCode;

mod chart;
mod check;
mod cli;
mod commands;
mod cpu;
mod engine;
mod grpc;
mod h2;
mod lanes;
mod limits;
mod load;
mod memory;
mod meter;
mod pid;
mod report;
mod schedule;
mod server;
mod workload;

fn main() -> ExitCode {
    match commands::run(<cli::Cli as clap::Parser>::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("loadtest: {error:#}");
            ExitCode::from(commands::FAILED)
        }
    }
}
