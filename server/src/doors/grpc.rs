//! The decision door: `AdDecisionService`.

mod answer;
mod ask;
mod choose;
mod delivery;
mod explain;
mod front;
mod markup;
mod mint;
mod noop;
mod overload;
mod service;

pub use choose::Chooser;
pub use mint::Mint;
pub use service::DecisionDoor;
