//! See `src/tokens.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| slotwise_fuzz::tokens::check(data));
