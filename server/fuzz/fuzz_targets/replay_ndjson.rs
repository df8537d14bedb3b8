//! See `src/replay.rs`.
#![no_main]

use slotwise_client::ctl::files::Form;

libfuzzer_sys::fuzz_target!(|data: &[u8]| slotwise_fuzz::replay::check(data, Form::Ndjson));
