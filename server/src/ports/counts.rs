//! The port to what was counted.

use std::collections::BTreeMap;

use async_trait::async_trait;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::StoreError;

/// How many events, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ads seen.
    pub impressions: u64,
    /// Ads clicked.
    pub clicks: u64,
    /// Conversions.
    pub conversions: u64,
    /// In nanos of the account's currency.
    pub spend_nanos: i64,
}

/// Which minutes to give.
#[derive(Clone, Debug)]
pub struct MinuteQuery {
    /// Whose.
    pub account: AccountSerial,
    /// Of these ads; nothing: of all together.
    pub ads: Option<Vec<AdSerial>>,
    /// The first, in minutes of Unix time.
    pub from_min: i64,
    /// The first that is not meant.
    pub until_min: i64,
}

/// A minute in which something happened: the sum over what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinuteRow {
    /// Which, in minutes of Unix time.
    pub minute: i64,
    /// What came in time.
    pub counts: Counts,
    /// What came after its partition had promised that nothing would.
    pub late: Counts,
}

/// Where an ad had events, and how many, late ones included, in some stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairRow {
    /// Where.
    pub zone: ZoneSerial,
    /// Which ad.
    pub ad: AdSerial,
    /// How many.
    pub counts: Counts,
}

/// Reads what was counted.
#[async_trait]
pub trait CountReader: Send + Sync {
    /// Minutes with any event, in order; ads on several partitions are joined.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; so for every call below.
    async fn minutes(&self, query: &MinuteQuery) -> Result<Vec<MinuteRow>, StoreError>;

    /// What each ad of `account` had in each zone from `from_min` on and before `until_min`, both
    /// whole quarters of an hour in minutes of Unix time: every time zone's days are cut there.
    /// In order of zone and ad.
    async fn pairs(
        &self,
        account: AccountSerial,
        from_min: i64,
        until_min: i64,
    ) -> Result<Vec<PairRow>, StoreError>;

    /// The instant before which no partition takes an event in time any more, in microseconds of
    /// Unix time: minutes that ended by then are closed.
    async fn promised_us(&self) -> Result<i64, StoreError>;
}

impl Counts {
    /// The sum; a sum that does not fit stays at the largest that does.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            impressions: self.impressions.saturating_add(other.impressions),
            clicks: self.clicks.saturating_add(other.clicks),
            conversions: self.conversions.saturating_add(other.conversions),
            spend_nanos: self.spend_nanos.saturating_add(other.spend_nanos),
        }
    }
}

impl MinuteRow {
    /// Sums of minutes, from wherever they come, as rows in order. Each is a minute, whether it
    /// is of late events, and a sum.
    pub fn joined(sums: impl IntoIterator<Item = (i64, bool, Counts)>) -> Vec<Self> {
        let mut rows = BTreeMap::new();
        for (minute, is_late, counts) in sums {
            let row = rows.entry(minute).or_insert(Self {
                minute,
                counts: Counts::default(),
                late: Counts::default(),
            });
            let sum = if is_late { &mut row.late } else { &mut row.counts };
            *sum = sum.plus(counts);
        }
        rows.into_values().collect()
    }
}
