//! The store for several nodes: Redis 7 or newer (or Valkey), one server or a cluster.
//!
//! All keys of the catalogue share one hash tag, and so one node of a cluster: a change is one
//! script. Each visitor of an account has a hash of its own, with a hash tag of its own.

mod address;
mod audit;
mod catalog;
mod commit;
mod hints;
mod keys;
mod link;
mod log;
mod nodes;
mod profiles;
mod reading;
mod refill;
mod scripts;
mod server;
mod stage;

pub use catalog::RedisCatalog;
pub use log::RedisLog;
pub use nodes::RedisNodes;
pub use profiles::RedisProfiles;
pub use server::Redis;
