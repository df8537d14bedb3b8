//! Profiles on a real Redis, and what becomes of them when it is slow, away, empty or damaged.
//! What they do where all is well is said by `conformance.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

#[path = "redis_profiles/away.rs"]
mod away;
#[path = "redis_profiles/caps.rs"]
mod caps;
#[path = "redis_profiles/cluster.rs"]
mod cluster;
#[path = "redis_profiles/forget.rs"]
mod forget;
#[path = "redis_profiles/keys.rs"]
mod keys;
#[path = "redis_profiles/node.rs"]
mod node;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "redis_profiles/reads.rs"]
mod reads;
#[path = "support/redis.rs"]
mod redis_server;
#[path = "redis_profiles/strict.rs"]
mod strict;
