//! The library as programs use it, against servers that break in chosen ways.
// A test, and what helps it, fails by a panic.
#![allow(clippy::unwrap_used)]

#[path = "support/decider.rs"]
mod decider;
#[path = "support/pki.rs"]
mod pki;
#[path = "support/scripted.rs"]
mod scripted;

mod library {
    mod connections;
    mod real;
    mod repeats;
    mod streams;
    mod tls;
}
