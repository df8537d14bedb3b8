//! The port to what visitors have been shown.

use std::time::Duration;

use async_trait::async_trait;
use slotwise_core::model::{AccountSerial, Profile};

use super::StoreError;

/// A visitor of one account. The visitor's id itself is never stored: this is its keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VisitorKey {
    /// Profiles are kept apart by account.
    pub account: AccountSerial,
    /// Keyed hash of the visitor's id.
    pub visitor: u128,
}

/// Decides over a profile and records in it what it showed. Called once, under the visitor's
/// lock; must be short and must not wait.
pub type Admit<'a> = &'a mut (dyn FnMut(&mut Profile) + Send);

/// Keeps profiles.
///
/// On one node a cap is never exceeded, however parallel the requests: `admit` runs one caller
/// at a time for each visitor, over a profile that holds everything which earlier calls of this
/// node recorded. What was recorded survives the process: it is on disk, or with the store,
/// within a second.
#[async_trait]
pub trait ProfileStore: Send + Sync {
    /// Reads the visitor's profile (at most once, within `wait`), runs `admit` on it under the
    /// visitor's lock, and keeps what that recorded.
    ///
    /// # Errors
    /// [`StoreError`] when the profile cannot be known or what `admit` would record cannot be
    /// kept; `admit` has not run then.
    async fn admit(
        &self,
        visitor: VisitorKey,
        now_us: i64,
        wait: Duration,
        admit: Admit<'_>,
    ) -> Result<(), StoreError>;

    /// A copy of the visitor's profile; empty where there is none.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be known within `wait`.
    async fn read(&self, visitor: VisitorKey, wait: Duration) -> Result<Profile, StoreError>;

    /// Makes everything recorded so far durable.
    ///
    /// # Errors
    /// [`StoreError`] when the disk or the store refuses it.
    async fn flush(&self) -> Result<(), StoreError>;
}
