//! See `src/expression.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| slotwise_fuzz::expression::check(data));
