//! `slotwisectl`, the ops tool of Slotwise: everything is in the library beside it.

use std::process::ExitCode;

// One thread does: the tool makes one call at a time.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    slotwise_client::ctl::run().await
}
