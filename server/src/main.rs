//! `slotwise`: the server.

use std::process::ExitCode;

fn main() -> ExitCode {
    slotwise_server::cli::run(std::env::args_os())
}
