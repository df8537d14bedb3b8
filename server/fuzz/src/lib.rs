//! What each fuzz target asserts. The ordinary tests include these files one by one and run them
//! on the corpus (`server/tests/fuzz_corpus.rs`, `client/tests/fuzz_corpus.rs`), so that what was
//! found once is tried at every change, without a nightly compiler.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "these functions are tests: they stop where something is not as promised"
)]

pub mod catalogue;
pub mod event_door;
pub mod expression;
pub mod import_file;
pub mod replay;
pub mod token_keys;
pub mod tokens;
