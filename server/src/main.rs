//! `slotwise`: the server.

use std::process::ExitCode;

/// A decision makes some dozens of small pieces and frees them on the same thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    slotwise_server::cli::run(std::env::args_os())
}
