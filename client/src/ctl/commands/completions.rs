//! `completions`: a script for a shell.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::ctl::cli::Cli;
use crate::ctl::error::Error;

pub(super) fn run(shell: Shell) -> Result<(), Error> {
    // Made in memory first: the generator panics where a pipe closes.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "slotwisectl", &mut script);
    std::io::stdout().write_all(&script).map_err(Error::output)
}
