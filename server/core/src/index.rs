//! The catalogue in memory: what the decision reads, without a lock and without waiting.
//!
//! Two things are published apart, because they change apart. What a zone may show is an
//! immutable [`ZoneBlock`] behind the arc-swap of its shard; what holds for a whole campaign
//! (status, flight, caps) is a row of the [`CampaignTable`], so that a pause touches one row and
//! not the five hundred zones the campaign is in. Blocks name campaigns by serial, which are
//! never reused: a block and a table of different moments can disagree on whether a campaign is
//! there, never on which one it is.

mod block;
mod builder;
mod campaigns;
mod change;

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use arc_swap::ArcSwap;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

pub(crate) use block::{Cursor, NO_POSITION, SizeCodes, Tier};
pub use block::{Entry, ZoneBlock};
pub use builder::Builder;
pub(crate) use campaigns::Gate;
pub use campaigns::{CampaignRow, CampaignTable, Campaigns};
pub use change::{Change, Key, Rejected};

use crate::model::{CampaignId, CampaignSerial};

/// Shards of the zones. A change copies the map of one shard: at 100,000 zones some hundred
/// pointers.
const SHARDS: usize = 1_024;

type Shard = HashTable<Arc<ZoneBlock>>;

/// The published catalogue. One writer (the [`Builder`]), any number of readers.
pub struct Index {
    hasher: DefaultHashBuilder,
    shards: Box<[ArcSwap<Shard>]>,
    campaigns: ArcSwap<CampaignTable>,
    /// Campaigns that this node must not show, whatever the table says.
    killed: ArcSwap<HashSet<CampaignId>>,
    /// The campaigns' numbers, for what comes back by name; no decision asks for them.
    numbers: RwLock<HashMap<CampaignId, CampaignSerial>>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: (0..SHARDS).map(|_| ArcSwap::from_pointee(Shard::new())).collect(),
            campaigns: ArcSwap::from_pointee(CampaignTable::default()),
            killed: ArcSwap::default(),
            numbers: RwLock::default(),
        }
    }
}

impl Index {
    /// What `zone` of `site` may show; nothing where there is no such zone.
    pub fn zone(&self, site: &str, zone: &str) -> Option<Arc<ZoneBlock>> {
        let hash = self.hash(site, zone);
        let shard = self.shards[shard_of(hash)].load();
        shard.find(hash, |block| block.is_of(site, zone)).cloned()
    }

    /// Every zone's block, each as it is when it is reached: for questions of people, as it walks
    /// over all of them.
    pub fn blocks(&self) -> impl Iterator<Item = Arc<ZoneBlock>> {
        self.shards.iter().flat_map(|shard| shard.load().iter().cloned().collect::<Vec<_>>())
    }

    /// The campaigns as they are now. Loaded once for a decision, and again after each wait.
    pub fn campaigns(&self) -> Campaigns {
        Campaigns::new(self.campaigns.load(), self.killed.load())
    }

    /// The number of the campaign that has this id now.
    pub fn campaign_serial(&self, campaign: &CampaignId) -> Option<CampaignSerial> {
        self.numbers.read().unwrap_or_else(PoisonError::into_inner).get(campaign).copied()
    }

    fn numbers(&self) -> RwLockWriteGuard<'_, HashMap<CampaignId, CampaignSerial>> {
        self.numbers.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the campaign is not shown here, whatever the table says, until it is lifted:
    /// the kill switch's first step, which waits for no store.
    pub fn kill(&self, campaign: &CampaignId) {
        self.killed.rcu(|killed| {
            let mut killed = HashSet::clone(killed);
            killed.insert(campaign.clone());
            killed
        });
    }

    /// The table decides again.
    pub fn lift(&self, campaign: &CampaignId) {
        if self.is_killed(campaign) {
            self.killed.rcu(|killed| {
                let mut killed = HashSet::clone(killed);
                killed.remove(campaign);
                killed
            });
        }
    }

    /// Whether the campaign was killed here and not lifted.
    pub fn is_killed(&self, campaign: &CampaignId) -> bool {
        self.killed.load().contains(campaign)
    }

    /// Shows everything that `other` shows instead. Returns what was shown, to be freed by the
    /// caller rather than by the last decision that reads it.
    #[must_use]
    pub fn adopt(&self, other: &Self) -> Vec<Retired> {
        // The blocks of `other` are found by its hash; ours is another one.
        let mut tables: Vec<Shard> = (0..SHARDS).map(|_| Shard::new()).collect();
        for shard in &other.shards {
            for block in shard.load().iter() {
                let hash = self.hash_block(block);
                tables[shard_of(hash)]
                    .insert_unique(hash, Arc::clone(block), |block| self.hash_block(block));
            }
        }
        let mut retired = Vec::with_capacity(SHARDS + 1);
        for (shard, table) in self.shards.iter().zip(tables) {
            let old = shard.swap(Arc::new(table));
            retired.extend(old.iter().cloned().map(Retired::Block));
            retired.push(Retired::Shard(old));
        }
        retired.push(Retired::Campaigns(self.campaigns.swap(other.campaigns.load_full())));
        let numbers = std::mem::take(&mut *other.numbers());
        *self.numbers() = numbers;
        retired
    }

    fn hash(&self, site: &str, zone: &str) -> u64 {
        self.hasher.hash_one((site, zone))
    }

    fn hash_block(&self, block: &ZoneBlock) -> u64 {
        self.hash(block.zone.site.as_str(), block.zone.id.as_str())
    }
}

/// Shards go by the high bits, as the tables inside them use the low ones.
fn shard_of(hash: u64) -> usize {
    const SHIFT: u32 = u64::BITS - SHARDS.ilog2();
    const _: () = assert!(SHARDS.is_power_of_two());
    // Ten bits fit a usize everywhere.
    #[allow(clippy::cast_possible_truncation)]
    let shard = (hash >> SHIFT) as usize;
    shard
}

/// What is no longer shown, kept until no decision reads it any more: see [`Builder::sweep`].
pub enum Retired {
    /// A map of blocks.
    Shard(Arc<HashTable<Arc<ZoneBlock>>>),
    /// A table of campaigns.
    Campaigns(Arc<CampaignTable>),
    /// A zone's block.
    Block(Arc<ZoneBlock>),
}

impl Retired {
    fn is_read(&self) -> bool {
        match self {
            Self::Shard(shard) => Arc::strong_count(shard) > 1,
            Self::Campaigns(table) => Arc::strong_count(table) > 1,
            Self::Block(block) => Arc::strong_count(block) > 1,
        }
    }
}
