//! Where in the log an event lies.

use slotwise_core::model::AdSerial;

use crate::tokens::Showing;

/// Partitions of the log. Each is counted on its own, so this is how many counters can share the
/// work; and what a minute waits for is the slowest of them.
pub const PARTITIONS: u8 = 16;
/// Over how many partitions a hot ad is spread.
pub const HOT_SPREAD: u64 = 4;

/// One of the log's partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u8);

/// An ad with so many events that one partition is too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotAd {
    /// Which.
    pub ad: AdSerial,
    /// Showings issued from this instant on are spread, in milliseconds of Unix time. It lies
    /// ahead when the entry is made, so that every door knows it by then.
    pub from_ms: i64,
    /// Showings issued from this instant on are not; `i64::MAX`: not known yet.
    pub until_ms: i64,
}

/// The hot ads, past ones included: tokens of their time are still to come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotAds(Vec<HotAd>);

impl Partition {
    /// All of them.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..PARTITIONS).map(Self)
    }

    /// Where the events of an ad lie that is not hot.
    pub fn of_ad(ad: AdSerial) -> Self {
        Self::of_hash(mixed(ad.0.into()))
    }

    fn of_hash(hash: u64) -> Self {
        // Below PARTITIONS.
        #[allow(clippy::cast_possible_truncation)]
        let partition = (hash % u64::from(PARTITIONS)) as u8;
        Self(partition)
    }
}

impl HotAds {
    /// A list of any order.
    pub fn new(mut list: Vec<HotAd>) -> Self {
        list.sort_by_key(|hot| (hot.ad, hot.from_ms));
        Self(list)
    }

    /// Its entries.
    pub fn entries(&self) -> &[HotAd] {
        &self.0
    }

    /// Where events of this showing lie. It follows from the token and the list alone, so repeats
    /// meet in one partition.
    pub fn partition(&self, showing: &Showing) -> Partition {
        let first = self.0.partition_point(|hot| hot.ad < showing.ad);
        let entries = self.0[first..].iter().take_while(|hot| hot.ad == showing.ad);
        let is_hot = entries
            .into_iter()
            .any(|hot| (hot.from_ms..hot.until_ms).contains(&showing.issued_at_ms));
        let mut hash = mixed(showing.ad.0.into());
        if is_hot {
            let token = mixed(showing.decision ^ mixed(showing.slot.into()));
            hash = hash.wrapping_add(token % HOT_SPREAD);
        }
        Partition::of_hash(hash)
    }
}

/// Every bit of the result depends on every bit of `x`: the finalizer of SplitMix64 (Steele, Lea
/// and Flood, 2014). It is the same on every machine and in every release, as what lies in a log
/// must stay where it is.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
