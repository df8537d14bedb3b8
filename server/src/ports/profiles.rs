//! The port to what visitors have been shown.

use std::time::Duration;

use async_trait::async_trait;
use slotwise_core::decide::{Strict, StrictAsk};
use slotwise_core::model::{AccountSerial, AdvertiserId, Exposure, Profile, Segment};
use tokio::sync::watch;

use super::StoreError;

/// A visitor of one account. The visitor's id itself is never stored: this is its keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VisitorKey {
    /// Profiles are kept apart by account.
    pub account: AccountSerial,
    /// Keyed hash of the visitor's id.
    pub visitor: u128,
}

/// What a decision does with a profile. Called under the visitor's lock; must be short and must
/// not wait.
pub trait Admission: Send {
    /// Chooses over `profile`, and records in it what it showed. Given [`Strict::Ask`], it may
    /// say instead which candidates the store has to admit first; it has recorded nothing then,
    /// and is called again with what the store granted.
    fn admit(&mut self, profile: &mut Profile, strict: Strict<'_>) -> Option<StrictAsk>;
}

/// One that never asks.
impl<F: FnMut(&mut Profile) + Send> Admission for F {
    fn admit(&mut self, profile: &mut Profile, _strict: Strict<'_>) -> Option<StrictAsk> {
        self(profile);
        None
    }
}

/// A profile, and how sure it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// What the visitor has been shown, as far as is known.
    pub profile: Profile,
    /// Whether the store has said so; else it is only what this node remembers.
    pub is_certain: bool,
    /// Whether the store is there, and did not say so in time: no decision is made over what is
    /// remembered then.
    pub is_late: bool,
}

/// Segments to add and to take away.
#[derive(Clone, Debug, Default)]
pub struct SegmentsChange {
    /// Added, or given a new life.
    pub add: Vec<Segment>,
    /// Names to remove.
    pub remove: Vec<String>,
}

/// What became of a request to forget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Whether anything was held.
    pub held_something: bool,
    /// Counts such requests: a node has forgotten when it reports this number or a higher one
    /// (see [`ProfileStore::forgets`]).
    pub number: u64,
}

/// Keeps profiles.
///
/// On one node a cap is never exceeded, however parallel the requests: `admit` runs one caller
/// at a time for each visitor, over a profile that holds everything which earlier calls of this
/// node recorded. What was recorded survives the process: it is on disk, or with the store,
/// within a second. Where the store is away, decisions go on over what the node remembers.
#[async_trait]
pub trait ProfileStore: Send + Sync {
    /// Reads the visitor's profile (at most once, within `wait`), runs `admission` on it under the
    /// visitor's lock, and keeps what that recorded. With the store away it runs on what the node
    /// remembers, with [`Strict::Withheld`].
    ///
    /// # Errors
    /// [`StoreError`] when the store is there and has not said in time what it knows, or when what
    /// `admission` would record cannot be kept; it has not run then.
    async fn admit(
        &self,
        visitor: VisitorKey,
        now_us: i64,
        wait: Duration,
        admission: &mut dyn Admission,
    ) -> Result<(), StoreError>;

    /// A copy of the visitor's profile; empty where there is none. Segments whose life is over
    /// at `now_us` are left out.
    ///
    /// # Errors
    /// [`StoreError`] when the node itself cannot.
    async fn read(
        &self,
        visitor: VisitorKey,
        now_us: i64,
        wait: Duration,
    ) -> Result<Known, StoreError>;

    /// Adds and removes segments; returns the profile as it is then. At most
    /// [`slotwise_core::model::SEGMENTS_IN_PROFILE_MAX`] stay.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there would be more, [`StoreError::Unavailable`] when it is not
    /// stored; nothing has changed then.
    async fn update_segments(
        &self,
        visitor: VisitorKey,
        now_us: i64,
        change: SegmentsChange,
    ) -> Result<Profile, StoreError>;

    /// Removes all that is held under this visitor's hash, in `account` or (nothing) in every
    /// one, here and in the store; and keeps what was shown until `now_us` from making it again,
    /// whenever it is reported. What is shown later is another visit.
    ///
    /// # Errors
    /// [`StoreError`] when the store was not told.
    async fn forget(
        &self,
        visitor: u128,
        account: Option<AccountSerial>,
        now_us: i64,
    ) -> Result<Forgotten, StoreError>;

    /// Records that the ad was seen: where `exposure`'s place is held (see [`Exposure::is_held`])
    /// it becomes an exposure for good, and where nothing is held any more it is added. Repeats
    /// change nothing. It is known to this node when this returns, and durable as what is
    /// admitted is; with the store away it is told later.
    ///
    /// Nothing comes of what was shown until a [`ProfileStore::forget`], nor of what finds a list
    /// full of exposures that still count.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be kept.
    async fn confirm(
        &self,
        visitor: VisitorKey,
        advertiser: &AdvertiserId,
        exposure: Exposure,
        now_us: i64,
    ) -> Result<(), StoreError>;

    /// Frees the place that `showing` (its decision and ad) holds, if it is still held; what has
    /// become an exposure for good stays.
    ///
    /// # Errors
    /// [`StoreError`] when the store was not told: to the other nodes the place is free when its
    /// time is over.
    async fn release(
        &self,
        visitor: VisitorKey,
        advertiser: &AdvertiserId,
        showing: Exposure,
        now_us: i64,
    ) -> Result<(), StoreError>;

    /// The last [`Forgotten::number`] that this node has followed.
    fn forgets(&self) -> watch::Receiver<u64>;

    /// What is wrong between this node and the profiles, in words; empty: nothing.
    fn degraded(&self) -> watch::Receiver<String>;

    /// Makes everything recorded so far durable.
    ///
    /// # Errors
    /// [`StoreError`] when the disk or the store refuses it.
    async fn flush(&self) -> Result<(), StoreError>;
}
