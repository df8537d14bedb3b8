//! The event door over real sockets: what it answers, what it records, and what it does not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "these functions are tests: they stop where something is not as promised"
)]

mod support;

#[path = "event_door/batches.rs"]
mod batches;
#[path = "event_door/bench.rs"]
mod bench;
#[path = "event_door/clicks.rs"]
mod clicks;
#[path = "event_door/pixels.rs"]
mod pixels;
#[path = "event_door/ports.rs"]
mod ports;
#[path = "event_door/real.rs"]
mod real;
