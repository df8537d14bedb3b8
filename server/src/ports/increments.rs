//! The port to the estimates: impressions and clicks as they are reported, added up a few times a
//! second. They feed budgets, pacing and live views. No bill is ever made of them.

use async_trait::async_trait;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::StoreError;

/// A day of an account's own calendar, as days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i32);

/// What an ad had in a zone, by estimate. The lowest level: whatever is asked is a sum of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairEstimate {
    /// Where.
    pub zone: ZoneSerial,
    /// Which ad.
    pub ad: AdSerial,
    /// Ads seen.
    pub impressions: u64,
    /// Ads clicked.
    pub clicks: u64,
}

/// What one sender adds to one account in one flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncrementBatch {
    /// Who adds: a number of its own for each run of a process.
    pub sender: u64,
    /// Rises with each flush of the sender, and is the same when it is sent again.
    pub number: u64,
    /// To whose counts.
    pub account: AccountSerial,
    /// What, by day.
    pub days: Vec<(Day, Vec<PairEstimate>)>,
}

/// Keeps one document for each account and day.
#[async_trait]
pub trait IncrementStore: Send + Sync {
    /// Adds each batch whole, and once: one whose number is not above the last of its sender and
    /// account is recognised as a repeat, and changes nothing. A sender sends the next number only
    /// when this one was taken.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: some may be added. To be sent again as they are.
    async fn add(&self, batches: &[IncrementBatch]) -> Result<(), StoreError>;

    /// What was added to `account` on `day`, in order of zone and ad.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn document(
        &self,
        account: AccountSerial,
        day: Day,
    ) -> Result<Vec<PairEstimate>, StoreError>;
}
