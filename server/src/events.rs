//! What happened to ads after they were chosen: events, as they go through the log.
//!
//! An [`Event`] carries what its token said, so that whoever counts it looks nothing up. Its
//! [`EventId`] is what it counts once by, and its [`Partition`] is where it lies in the log; both
//! follow from the token alone, so that repeats meet, whichever door they come in by. Events go
//! through the log in batches ([`batch`]).

pub mod batch;
mod id;
mod partition;

pub use id::EventId;
pub use partition::{HotAd, HotAds, PARTITIONS, Partition};

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

#[cfg(test)]
mod tests;
