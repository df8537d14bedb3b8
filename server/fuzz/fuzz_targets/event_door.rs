//! See `src/event_door.rs`.
#![no_main]

use std::sync::LazyLock;

use slotwise_fuzz::event_door::Doors;

static DOORS: LazyLock<Doors> = LazyLock::new(Doors::new);

libfuzzer_sys::fuzz_target!(|data: &[u8]| DOORS.check(data));
