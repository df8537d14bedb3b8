//! The implementations of the ports. Only `app` names them.

pub mod embedded;
pub mod postgres;
pub mod redis;
