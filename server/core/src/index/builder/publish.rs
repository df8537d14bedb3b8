//! From edits to what decisions read.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::super::block::{Newcomer, Place};
use super::super::{Index, Retired, Shard, ZoneBlock, shard_of};
use super::Builder;
use crate::model::{AdSerial, SiteId, Zone, ZoneId, ZoneSerial};

/// What is to change in one zone's block.
#[derive(Default)]
pub(super) struct ZoneEdit {
    pub(super) key: Option<(SiteId, ZoneId)>,
    pub(super) removed: HashSet<AdSerial>,
    /// By number, which is mostly how ads lie in memory.
    pub(super) added: BTreeMap<AdSerial, Newcomer>,
}

impl Builder {
    /// Builds the touched blocks anew and shows them; then the table, as `version`.
    pub(super) fn publish(&mut self, version: u64, index: &Index) {
        let mut shards: HashMap<usize, Shard> = HashMap::new();
        for (_, edit) in std::mem::take(&mut self.edits) {
            let Some((site, zone)) = edit.key else { continue };
            let hash = index.hash(site.as_str(), zone.as_str());
            let shard = shards.entry(shard_of(hash));
            let shard = shard.or_insert_with_key(|&at| Shard::clone(&index.shards[at].load()));
            let is_it = |block: &Arc<ZoneBlock>| block.is_of(site.as_str(), zone.as_str());
            let old = match shard.find_entry(hash, is_it) {
                Ok(found) => Some(found.remove().0),
                Err(_) => None,
            };
            if let Some(block) = self.build_block(
                &site,
                &zone,
                old.as_deref(),
                edit.removed,
                edit.added.into_values().collect(),
            ) {
                shard.insert_unique(hash, Arc::new(block), |block| index.hash_block(block));
            }
            self.retired.extend(old.map(Retired::Block));
        }
        for (at, shard) in shards {
            self.retired.push(Retired::Shard(index.shards[at].swap(Arc::new(shard))));
        }
        self.table.version = version;
        let old = index.campaigns.swap(Arc::new(self.table.clone()));
        self.retired.push(Retired::Campaigns(old));
        if !self.renumbered.is_empty() {
            let mut numbers = index.numbers();
            for (campaign, serial) in self.renumbered.drain(..) {
                match serial {
                    Some(serial) => drop(numbers.insert(campaign, serial)),
                    None => drop(numbers.remove(&campaign)),
                }
            }
        }
    }

    fn build_block(
        &self,
        site: &SiteId,
        zone: &ZoneId,
        old: Option<&ZoneBlock>,
        removed: HashSet<AdSerial>,
        added: Vec<Newcomer>,
    ) -> Option<ZoneBlock> {
        let state = self.sites.get(site)?;
        let zone = Arc::clone(state.zones.get(zone)?);
        let account = Arc::clone(self.accounts.get(&state.site.account)?);
        let kept = old.filter(|old| old.zone.serial == zone.serial && !old.entries.is_empty());
        let place = Place { zone, site: Arc::clone(&state.site), account };
        Some(match kept {
            Some(old) => old.changed(place, &removed, added),
            None => ZoneBlock::new(place, added),
        })
    }
}

/// The edit of `zone`; with nothing in it, its block is built anew all the same.
pub(super) fn touch<'e>(
    edits: &'e mut HashMap<ZoneSerial, ZoneEdit>,
    zone: &Zone,
) -> &'e mut ZoneEdit {
    let edit = edits.entry(zone.serial).or_default();
    edit.key.get_or_insert_with(|| (zone.site.clone(), zone.id.clone()));
    edit
}
