//! See `src/catalogue.rs`.
#![no_main]

use std::sync::LazyLock;

use slotwise_fuzz::catalogue::Imports;

static IMPORTS: LazyLock<Imports> = LazyLock::new(Imports::new);

libfuzzer_sys::fuzz_target!(|data: &[u8]| IMPORTS.check_wire(data));
