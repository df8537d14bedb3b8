//! See `src/token_keys.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| slotwise_fuzz::token_keys::check(data));
