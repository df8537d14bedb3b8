//! The doors: what the world calls, and how it is answered. They turn the wire's types into the
//! service's own on the way in, and back on the way out; they decide nothing.

mod admin;
mod calls;
mod deadline;
mod events;
mod grpc;
mod health;
mod held;
mod listener;
mod refusal;
mod reload;
mod tls;

pub use admin::{Admin, AdminDoor, Identities, Ledger, Token, Users};
pub use calls::Calls;
pub use events::{EventDoor, Events, Landings};
pub use grpc::{Chooser, DecisionDoor, Mint};
pub use health::{Health, reflect};
pub use listener::{Doorman, Drain, Queue, Traffic, bind, connections_max};
pub use reload::Reloaded;
pub use tls::{ClientCertificates, FOR_BROWSERS, FOR_CALLS, Protocols, Tls};
