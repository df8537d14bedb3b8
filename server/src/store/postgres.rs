//! Counts on PostgreSQL: one server, or several that share the partitions.

mod claims;
mod counts;
mod link;
mod reading;
mod schema;
mod spread;
mod values;
mod writing;

pub use spread::PostgresCounts;

use std::error::Error;

use tokio_postgres::error::SqlState;

use crate::ports::{CountError, StoreError};

/// An error of PostgreSQL's as one of ours.
fn failed(error: tokio_postgres::Error) -> StoreError {
    // Its own text is the kind of error; what the server said is behind it.
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    StoreError::Unavailable(format!("postgres: {error}{cause}"))
}

/// The same where sums are added.
fn refused(error: tokio_postgres::Error) -> CountError {
    match error.code() {
        Some(code) if *code == SqlState::NUMERIC_VALUE_OUT_OF_RANGE => CountError::Overflow,
        _ => CountError::Store(failed(error)),
    }
}
