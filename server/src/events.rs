//! What happened to ads after they were chosen: events, as they go through the log.
//!
//! An [`Event`] carries what its token said, so that whoever counts it looks nothing up. Its
//! [`EventId`] is what it counts once by, and its [`Partition`] is where it lies in the log; both
//! follow from the token alone, so that repeats meet, whichever door they come in by. Events go
//! through the log in batches ([`batch`]).

pub mod batch;
mod id;
mod lives;
mod partition;
mod recorder;
mod spill;

pub use id::EventId;
pub use lives::Lives;
pub use partition::{HOT_SPREAD, HotAd, HotAds, PARTITIONS, Partition};
pub use recorder::LogRecorder;

use async_trait::async_trait;

use crate::tokens::{PriceKind, Showing};

/// What happened. A loss is none of these: it is settled at the door, and counted nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The ad was seen.
    Impression,
    /// It was clicked.
    Click,
    /// What the advertiser wants a click to lead to.
    Conversion,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// To which showing of which ad.
    pub showing: Showing,
    /// When, in microseconds of Unix time.
    pub at_us: i64,
    /// What tells this one from others of its kind and showing: a conversion's own id; a line of
    /// a replayed file. Empty for impressions and clicks, of which a showing has one each.
    pub tag: String,
    /// A conversion's value, in micros.
    pub value_micros: i64,
    /// Not a person's: which list of bots says so, with its version. Logged, and neither counted
    /// nor billed.
    pub filtered_by: Option<String>,
}

impl Event {
    /// What it counts once by.
    pub fn id(&self) -> EventId {
        EventId::of(self)
    }

    /// What it costs, in nanos of the account's currency.
    pub fn price_nanos(&self) -> i64 {
        let is_paid = match self.showing.price_kind {
            PriceKind::Free => false,
            PriceKind::Impression => self.kind == Kind::Impression,
            PriceKind::Click => self.kind == Kind::Click,
            PriceKind::Conversion => self.kind == Kind::Conversion,
        };
        if is_paid { self.showing.price_nanos } else { 0 }
    }
}

/// Neither the log nor this node's disk took the events: they are lost, and counted as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("events could not be made durable")]
pub struct Lost;

/// Makes events durable: what stands between the doors and the log.
#[async_trait]
pub trait Recorder: Send + Sync {
    /// Returns when every one of `events` is durable: in the log, or, while that is away, in a
    /// file on this node's disk from where it goes there later. Repeats are taken as they come.
    ///
    /// # Errors
    /// [`Lost`], for all of them; the loss is counted by then. What it takes away, it may have
    /// taken in part.
    async fn record(&self, events: Vec<Event>) -> Result<(), Lost>;
}

/// Settles what a decision holds until its impression, for showings that say so
/// ([`Showing::on_impression`]) and of a known visitor; the others are let pass.
#[async_trait]
pub trait Settling: Send + Sync {
    /// The ad was seen at `now_us`: the place that is held becomes an exposure for good, or is
    /// made anew where its time is over. Repeats change nothing.
    async fn seen(&self, showing: &Showing, now_us: i64);

    /// The exchange did not take it: what is still held is free again.
    async fn lost(&self, showing: &Showing, now_us: i64);
}

#[cfg(test)]
mod tests;
