//! What the service needs of a store, as traits. One conformance suite (`tests/conformance`)
//! says what every implementation must do; nothing outside `app` names an implementation.

mod catalog;
mod clock;
mod counting;
mod counts;
mod increments;
mod log;
mod nodes;
mod profiles;

pub use catalog::{
    AuditPage, AuditQuery, AuditRow, CatalogStore, Commit, Delta, Head, Image, ListQuery, Put, Row,
    Serial,
};
pub use clock::Clock;
pub use counting::{
    Claim, CountError, CountStore, Counted, IdLife, Place, Step, SweepAt, Swept, Tally,
};
pub use counts::{CountReader, Counts, MinuteQuery, MinuteRow, PairRow};
pub use increments::{Day, IncrementBatch, IncrementStore, PairEstimate};
pub use log::{EventLog, LogBatch, Position};
pub use nodes::{NodeReport, NodeSeen, NodeStore};
pub use profiles::{Admission, Forgotten, Known, ProfileStore, SegmentsChange, VisitorKey};

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Another change came first: check again against the new head.
    #[error("the catalogue is at version {head} now")]
    Conflict {
        /// The head that was found.
        head: u64,
    },
    /// The changes after that version are no longer kept: load everything.
    #[error("the changes after that version are no longer kept; the oldest kept is {oldest}")]
    Gap {
        /// The oldest version whose change is still kept.
        oldest: u64,
    },
    /// The store did not answer, or answered with an error of its own.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// A named bound of ours is reached.
    #[error("{0}")]
    Full(&'static str),
}
