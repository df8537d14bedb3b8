//! The store for several nodes: Redis 7 or newer (or Valkey), one server or a cluster.
//!
//! All keys of the catalogue share one hash tag, and so one node of a cluster: a change is one
//! script. Each visitor of an account has a hash of its own, with a hash tag of its own.

mod address;
mod link;
mod scripts;
mod server;

pub use address::RedisAddress;
pub use server::Redis;
