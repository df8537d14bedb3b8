//! The Slotwise server: doors, stores, and what lies between them.

pub mod limits;
pub mod ports;
pub mod store;
