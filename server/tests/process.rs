//! The real binary as a process of its own: how it starts, what it prints, how it stops, what
//! survives when it is killed, and what it never writes down.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

mod process {
    mod catalogue;
    mod child;
    mod config;
    mod doors;
    mod guards;
    mod privacy;
    mod replays;
    mod start;
    mod stop;
    mod survive;
}
