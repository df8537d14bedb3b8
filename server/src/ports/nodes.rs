//! The port to the other nodes: who there is, and how far each has come.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;

/// What a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Its name; the same after a restart.
    pub node_id: String,
    /// The version that every new decision is made on, and no older one is on its way.
    pub catalog_version: u64,
    /// The last [`super::Forgotten::number`] that it has followed.
    pub forgets: u64,
    /// What is wrong, in words; empty: nothing.
    pub degraded_reason: String,
    /// Rows that were found bad and are not served.
    pub quarantined_rows: u32,
}

/// A node as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSeen {
    /// What it said last.
    pub report: NodeReport,
    /// When, by the store's clock, in microseconds of Unix time.
    pub seen_at_us: i64,
    /// How long ago, by the same clock.
    pub age: Duration,
    /// Whether that was a goodbye.
    pub has_left: bool,
}

/// Keeps what nodes say of themselves.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Says that the node lives, and what of; returns the store's clock, in microseconds of Unix
    /// time.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; so for every call below.
    async fn report(&self, report: &NodeReport) -> Result<i64, StoreError>;

    /// Every node that was heard of within [`crate::limits::NODE_REMEMBERED`]; those that said
    /// goodbye are among them for a while.
    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError>;

    /// The node stops: it serves nothing any more.
    async fn leave(&self, node_id: &str) -> Result<(), StoreError>;
}
