//! See `src/import_file.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| slotwise_fuzz::import_file::check(data));
