//! The decision door: `AdDecisionService`.

mod answer;
mod ask;
mod choose;
mod delivery;
mod explain;
mod service;

pub use choose::Chooser;
pub use service::DecisionDoor;
