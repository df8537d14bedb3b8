//! The Slotwise server: doors, stores, and what lies between them. See ARCHITECTURE.md for the
//! map.

pub mod app;
pub mod bots;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod counting;
pub mod doors;
pub mod events;
pub mod exposures;
pub mod fleet;
pub mod hours;
pub mod increments;
pub mod inflight;
pub mod kills;
pub mod limits;
pub mod ports;
pub mod refresh;
pub mod reports;
pub mod serials;
pub mod store;
pub mod telemetry;
pub mod testing;
pub mod time;
pub mod tokens;
pub mod visitors;
