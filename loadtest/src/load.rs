//! The loads that there are: each says what it sends and what becomes of what comes back.

pub(crate) mod clicks;
pub(crate) mod common;
pub(crate) mod decide;
pub(crate) mod follow;
pub(crate) mod gets;
pub(crate) mod mixed;
pub(crate) mod pace;
pub(crate) mod probe;
pub(crate) mod records;
pub(crate) mod stream;
