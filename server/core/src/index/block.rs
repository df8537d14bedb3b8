//! What one zone may show: an immutable list, numbered so that its best ads come first.
//!
//! An ad's number in its zone is its *position*: highest tier first, in it highest eCPM, among
//! equals by serial. So the ads that have a keyword, in order of their positions, are in order of
//! what they are worth as well: the search ([`crate::decide::Search`]) stands on that.

mod build;
mod merge;
mod postings;

use std::ops::Range;
use std::sync::Arc;

pub(super) use build::Place;
pub(crate) use postings::{Cursor, NO_POSITION, Postings};

use crate::model::{Account, Ad, AdSerial, CampaignSerial, Site, Size, Zone};

/// Size codes below this name one of [`ZoneBlock::sizes`]; the last one means "ask the ad".
pub(crate) const SIZE_CODES: usize = 64;
/// The code of an ad without a size.
pub(crate) const NO_SIZE: u8 = 0;

/// One ad in one zone: 24 bytes, as there may be a million.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The ad, shared between its zones.
    pub ad: Arc<Ad>,
    /// Its campaign's row in the table.
    pub campaign: CampaignSerial,
    /// The ad's number, so that nobody has to look at the ad for it.
    pub(crate) serial: AdSerial,
    /// What it is worth here: its place in [`ZoneBlock::levels`].
    pub(crate) level: u32,
    /// Its size: a place in [`ZoneBlock::sizes`], see [`SIZE_CODES`].
    pub(crate) size: u8,
    /// Whether there are keywords that it must not stand beside.
    pub(crate) excludes: bool,
}

/// Ads of one worth: they stand next to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// The position of the first of them.
    pub(crate) start: u32,
    pub(crate) tier: i32,
    pub(crate) ecpm_micros: i64,
    /// In whole units of currency: what a score is made of.
    pub(crate) ecpm: f64,
}

/// Levels of one tier.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tier {
    pub(crate) tier: i32,
    pub(crate) levels: Range<u32>,
}

/// An ad on its way into a block.
#[derive(Clone, Debug)]
pub(super) struct Newcomer {
    pub(super) ad: Arc<Ad>,
    pub(super) campaign: CampaignSerial,
    /// The ad's number.
    pub(super) serial: AdSerial,
    pub(super) tier: i32,
    pub(super) ecpm_micros: i64,
}

/// The ads of one zone. The same catalogue always makes the same block.
#[derive(Debug)]
pub struct ZoneBlock {
    /// The zone.
    pub zone: Arc<Zone>,
    /// Its site.
    pub site: Arc<Site>,
    /// The account that owns both.
    pub account: Arc<Account>,
    /// The ads by their positions.
    pub entries: Box<[Entry]>,
    /// What ads are worth here, best first, and a last one that is behind every ad.
    pub(crate) levels: Box<[Level]>,
    /// The levels by tiers, best first.
    pub(crate) tiers: Box<[Tier]>,
    /// Which ads have which keyword.
    pub(crate) postings: Postings,
    /// The first sizes that its ads have; the code 0 is none.
    pub(crate) sizes: Box<[Size]>,
}

impl ZoneBlock {
    /// What `entry` is ranked by in this zone, in micros per 1,000 impressions.
    pub fn ecpm_micros(&self, entry: &Entry) -> i64 {
        self.levels[entry.level as usize].ecpm_micros
    }

    /// The tier of its campaign.
    pub fn tier(&self, entry: &Entry) -> i32 {
        self.levels[entry.level as usize].tier
    }

    /// Bytes that decisions read here: all but the ads themselves, which belong to all of their
    /// zones.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.entries)
            + size_of_val(&*self.levels)
            + size_of_val(&*self.tiers)
            + size_of_val(&*self.sizes)
            + self.postings.memory_bytes()
    }

    pub(crate) fn level_at(&self, position: u32) -> &Level {
        &self.levels[self.entries[position as usize].level as usize]
    }

    /// The positions of a level's ads.
    pub(crate) fn level_range(&self, level: u32) -> Range<u32> {
        self.levels[level as usize].start..self.levels[level as usize + 1].start
    }

    pub(super) fn is_of(&self, site: &str, zone: &str) -> bool {
        self.zone.id.as_str() == zone && self.zone.site.as_str() == site
    }
}

/// The codes of some sizes in a block; nothing: every size fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeCodes(Option<u64>);

impl ZoneBlock {
    /// The codes of `sizes`; empty: every size fits, and none.
    pub(crate) fn size_codes(&self, sizes: &[Size]) -> SizeCodes {
        let fits = |(_, size): &(usize, &Size)| sizes.contains(size);
        let bits =
            || (1..).zip(&self.sizes).filter(fits).fold(0, |bits, (code, _)| bits | 1 << code);
        SizeCodes((!sizes.is_empty()).then(bits))
    }
}

impl SizeCodes {
    /// Whether `entry`, of the same block, has one of `sizes`, which these are the codes of.
    pub(crate) fn fit(self, entry: &Entry, sizes: &[Size]) -> bool {
        let Some(codes) = self.0 else { return true };
        match usize::from(entry.size) {
            // One of the many that have no code of their own.
            code if code >= SIZE_CODES - 1 => {
                entry.ad.size.is_some_and(|size| sizes.contains(&size))
            }
            code => codes >> code & 1 == 1,
        }
    }
}
