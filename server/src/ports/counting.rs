//! The port to where counts are kept, for whoever counts.

use async_trait::async_trait;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::{CountReader, Position, StoreError};
use crate::events::{EventId, HotAd, HotAds, Kind, Partition};

/// A partition that a counter may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which.
    pub partition: Partition,
    /// Grows with each change of hands: who comes with an older one is turned away.
    pub epoch: i64,
}

/// How far a partition is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The last batch that was counted; the default: none.
    pub position: Position,
    /// Events from before this instant are late, in microseconds of Unix time; `i64::MIN`: none
    /// are.
    pub promised_us: i64,
}

/// How long it is remembered that an event was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdLife {
    /// [`crate::limits::IDS_KEPT`]
    Short,
    /// [`crate::limits::CONVERSION_IDS_KEPT`]
    Conversion,
    /// A line of a replayed file: it may be replayed again at any time.
    ForGood,
}

/// One event, as far as counting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// What it counts once by.
    pub id: EventId,
    /// How long that is remembered.
    pub life: IdLife,
    /// What happened.
    pub kind: Kind,
    /// Whose it is.
    pub account: AccountSerial,
    /// Where.
    pub zone: ZoneSerial,
    /// Which ad.
    pub ad: AdSerial,
    /// When, in minutes of Unix time.
    pub minute: i64,
    /// What it costs.
    pub price_nanos: i64,
    /// Whether it came after its partition had promised that nothing would.
    pub is_late: bool,
}

/// A stretch of a partition's log, to be counted as a whole or not at all.
#[derive(Clone, Debug)]
pub struct Step {
    /// By which right.
    pub claim: Claim,
    /// Where the counter believes the partition to be.
    pub from: Position,
    /// How far it is counted, and what it promises, afterwards.
    pub to: Place,
    /// What is to be counted, in the order of the log; repeats are in it. Of two with one id the
    /// first counts.
    pub tallies: Vec<Tally>,
    /// The clock's time, from which ids are kept.
    pub now_us: i64,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Events that were counted, late ones included.
    pub new: u64,
    /// How many of them were late.
    pub late: u64,
    /// Events that had been counted before.
    pub repeats: u64,
}

/// Why a step was not counted: nothing of it was.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CountError {
    /// The partition is not where the step begins: it was counted already.
    #[error("the partition has been counted from there already")]
    Moved,
    /// The partition is another counter's now.
    #[error("another counter has the partition now")]
    Fenced,
    /// A sum would not fit 64 bits: no store will ever take it.
    #[error("a sum of counts or money does not fit 64 bits")]
    Overflow,
    /// The store did not answer: the step may be counted all the same.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where a sweep of old ids stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepAt {
    /// Whose ids.
    pub partition: Partition,
    /// Which: those of [`IdLife::ForGood`] are kept, and looked at in vain.
    pub life: IdLife,
    /// The last that was looked at; nothing: none yet.
    pub after: Option<EventId>,
}

/// What a step of a sweep found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Ids that are forgotten now.
    pub gone: u64,
    /// Where it goes on; nothing: it is over.
    pub next: Option<EventId>,
}

/// Keeps counts, and how far they are counted: both change in one transaction.
#[async_trait]
pub trait CountStore: CountReader {
    /// Says that `counter` lives, and returns the partitions that it has now, with where each
    /// stands. Counters that live share them evenly: one with too many lets go of some, one with
    /// too few takes those that nobody has or whose counter has not called for
    /// [`crate::limits::CLAIM_LIFE`], each under a new epoch. What it had keeps its epoch.
    /// `now_us` is the clock's; a store with one of its own goes by that.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; so for every call below.
    async fn claim(&self, counter: &str, now_us: i64) -> Result<Vec<(Claim, Place)>, StoreError>;

    /// `counter` stops: others may have its partitions at once.
    async fn release(&self, counter: &str) -> Result<(), StoreError>;

    /// Where a partition stands.
    async fn place(&self, partition: Partition) -> Result<Place, StoreError>;

    /// Counts `step` in one transaction: ids that are new, what they add to minutes, late rows
    /// and quarters, and the partition's place. It is never called off half way, whatever becomes
    /// of the caller.
    ///
    /// # Errors
    /// [`CountError`]; nothing has changed then, but see [`CountError::Store`].
    async fn count(&self, step: Step) -> Result<Counted, CountError>;

    /// Forgets ids that were counted too long before `now_us`: looks at most at `rows_max`.
    async fn sweep(&self, at: SweepAt, now_us: i64, rows_max: usize) -> Result<Swept, StoreError>;

    /// The hot ads, past ones included as long as their tokens live.
    async fn hot_ads(&self) -> Result<HotAds, StoreError>;

    /// Writes an entry of the hot list, over the one of the same ad and beginning, and drops
    /// those that ended before `ended_before_ms`.
    async fn put_hot_ad(&self, hot: HotAd, ended_before_ms: i64) -> Result<(), StoreError>;
}
