//! The port to the durable log of events.

use async_trait::async_trait;

use super::StoreError;
use crate::events::Partition;

/// Where a batch lies in its partition. Later ones are greater; the default is before all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u128);

/// A batch in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBatch {
    /// Where.
    pub position: Position,
    /// When the log took it, in microseconds of Unix time.
    pub appended_at_us: i64,
    /// What was appended: see [`crate::events::batch`].
    pub bytes: Vec<u8>,
}

/// Keeps events, in order, for each partition.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Appends batches, each to its partition. When this returns, they are durable.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: some or all may be there all the same, and may be appended
    /// again, as each event counts once. So for every call below.
    async fn append(&self, batches: Vec<(Partition, Vec<u8>)>) -> Result<(), StoreError>;

    /// The batches of `partition` after `after`, in order: of at most `bytes_max` in all, but one
    /// at least. None: the end is reached, as of a moment after the call began.
    async fn read(
        &self,
        partition: Partition,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<LogBatch>, StoreError>;

    /// Drops the batches of `partition` up to `counted`, that one included, which were appended
    /// before `before_us`. Returns how many.
    async fn trim(
        &self,
        partition: Partition,
        counted: Position,
        before_us: i64,
    ) -> Result<u64, StoreError>;

    /// What keeps an acknowledged event from being safe here, in words for an operator; nothing
    /// where all is well.
    async fn weakness(&self) -> Option<String> {
        None
    }
}
