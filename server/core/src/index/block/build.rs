//! A block from its ads, in any order.

use std::cmp::Reverse;
use std::sync::Arc;

use super::postings::PostingsBuilder;
use super::{Entry, Level, NO_SIZE, Newcomer, SIZE_CODES, Tier, ZoneBlock};
use crate::model::{Account, AdSerial, Site, Size, Zone};

/// What a block is of.
pub(in super::super) struct Place {
    pub(in super::super) zone: Arc<Zone>,
    pub(in super::super) site: Arc<Site>,
    pub(in super::super) account: Arc<Account>,
}

/// Where an ad stands among the others: best first.
pub(super) type Rank = (Reverse<i32>, Reverse<i64>, AdSerial);

impl Newcomer {
    pub(super) fn rank(&self) -> Rank {
        (Reverse(self.tier), Reverse(self.ecpm_micros), self.serial)
    }
}

impl ZoneBlock {
    /// A block of `newcomers`, in any order; no ad twice.
    pub(in super::super) fn new(place: Place, newcomers: Vec<Newcomer>) -> Self {
        let mut postings = PostingsBuilder::new(newcomers.len());
        let mut ranks = Vec::with_capacity(newcomers.len());
        let mut drafts = Vec::with_capacity(newcomers.len());
        // Ads that come one after another mostly lie so in memory, too: so each is looked at now,
        // and not again once they are in order.
        for (at, newcomer) in (0..).zip(newcomers) {
            postings.push(&newcomer.ad.keywords);
            ranks.push((newcomer.rank(), at));
            drafts.push(Some(Draft::from(newcomer)));
        }
        ranks.sort_unstable();
        let order: Vec<u32> = ranks.into_iter().map(|(_, at)| at).collect();
        let mut rows = Rows::with_capacity(order.len());
        for draft in order.iter().filter_map(|at| drafts[*at as usize].take()) {
            rows.push(draft);
        }
        rows.finish(place, postings.finish(&order))
    }
}

/// A newcomer with what an entry has to know of its ad.
pub(super) struct Draft {
    newcomer: Newcomer,
    size: Option<Size>,
    excludes: bool,
}

impl From<Newcomer> for Draft {
    fn from(newcomer: Newcomer) -> Self {
        let (size, excludes) = (newcomer.ad.size, !newcomer.ad.excluded_keywords.is_empty());
        Self { newcomer, size, excludes }
    }
}

/// Entries in order of their positions, with the levels, tiers and sizes that follow from them.
pub(super) struct Rows {
    entries: Vec<Entry>,
    levels: Vec<Level>,
    tiers: Vec<Tier>,
    sizes: Vec<Size>,
}

impl Rows {
    pub(super) fn with_capacity(ads: usize) -> Self {
        Self {
            entries: Vec::with_capacity(ads),
            levels: Vec::new(),
            tiers: Vec::new(),
            sizes: Vec::new(),
        }
    }

    /// Adds what comes next in order.
    pub(super) fn push(&mut self, draft: Draft) {
        let Draft { newcomer, size, excludes } = draft;
        let Newcomer { ad, campaign, serial, tier, ecpm_micros } = newcomer;
        let (level, size) = (self.level(tier, ecpm_micros), self.size(size));
        self.entries.push(Entry { ad, campaign, serial, level, size, excludes });
    }

    /// Adds what comes next in order and stood in `block` before.
    pub(super) fn push_old(&mut self, block: &ZoneBlock, old: &Entry) {
        let Level { tier, ecpm_micros, .. } = block.levels[old.level as usize];
        let (level, size) = (self.level(tier, ecpm_micros), self.size_again(block, old));
        self.entries.push(Entry { level, size, ..old.clone() });
    }

    pub(super) fn finish(mut self, place: Place, postings: super::Postings) -> ZoneBlock {
        let behind = Level {
            start: position(self.entries.len()),
            tier: i32::MIN,
            ecpm_micros: 0,
            ecpm: 0.0,
        };
        self.levels.push(behind);
        let Place { zone, site, account } = place;
        ZoneBlock {
            zone,
            site,
            account,
            entries: self.entries.into(),
            levels: self.levels.into(),
            tiers: self.tiers.into(),
            postings,
            sizes: self.sizes.into(),
        }
    }

    fn level(&mut self, tier: i32, ecpm_micros: i64) -> u32 {
        let same = |last: &Level| (last.tier, last.ecpm_micros) == (tier, ecpm_micros);
        if !self.levels.last().is_some_and(same) {
            // Below 2^53 by the limit on prices, so nothing is lost.
            let ecpm = ecpm_micros as f64 / 1e6;
            self.levels.push(Level {
                start: position(self.entries.len()),
                tier,
                ecpm_micros,
                ecpm,
            });
            let end = position(self.levels.len());
            match self.tiers.last_mut() {
                Some(last) if last.tier == tier => last.levels.end = end,
                _ => self.tiers.push(Tier { tier, levels: end - 1..end }),
            }
        }
        position(self.levels.len() - 1)
    }

    fn size(&mut self, size: Option<Size>) -> u8 {
        let Some(size) = size else { return NO_SIZE };
        let known = self.sizes.iter().position(|known| *known == size);
        let at = known.unwrap_or_else(|| {
            // The last code is for all further sizes.
            if self.sizes.len() < SIZE_CODES - 2 {
                self.sizes.push(size);
                self.sizes.len() - 1
            } else {
                SIZE_CODES - 2
            }
        });
        u8::try_from(at + 1).unwrap_or(u8::MAX)
    }

    /// The code of an old entry's size, without a look at its ad where that can be helped.
    fn size_again(&mut self, block: &ZoneBlock, old: &Entry) -> u8 {
        if old.size == NO_SIZE {
            return NO_SIZE;
        }
        let size = block.sizes.get(usize::from(old.size) - 1);
        match size.and_then(|size| self.sizes.iter().position(|known| known == size)) {
            Some(at) => u8::try_from(at + 1).unwrap_or(u8::MAX),
            None => self.size(old.ad.size),
        }
    }
}

/// A million ads fit a u32.
pub(super) fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
