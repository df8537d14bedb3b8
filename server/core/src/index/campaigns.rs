//! The campaigns by serial, in chunks: a new table shares all chunks but the changed ones.

use std::collections::HashSet;
use std::sync::Arc;

use crate::model::{Campaign, CampaignId, CampaignSerial};

/// Rows of a chunk. A change copies one chunk and the list of chunks: at a million campaigns
/// 256 + 4,000 pointers, some microseconds.
const CHUNK_ROWS: usize = 256;

/// One campaign, with what depends on its advertiser's other campaigns.
#[derive(Clone, Debug)]
pub struct CampaignRow {
    /// The campaign.
    pub campaign: Campaign,
    /// For how long some cap may ask for a showing of it, its own or an advertiser-wide one of
    /// a sibling; 0: none does, and its showings are not recorded.
    pub exposure_life_us: i64,
}

type Chunk = Vec<Option<Arc<CampaignRow>>>;

/// All campaigns at one version of the catalogue.
#[derive(Clone, Debug, Default)]
pub struct CampaignTable {
    /// The catalogue version that this table, and every block published before it, is of.
    pub version: u64,
    chunks: Vec<Option<Arc<Chunk>>>,
}

impl CampaignTable {
    /// The campaign with this serial, where it still is.
    pub fn get(&self, serial: CampaignSerial) -> Option<&CampaignRow> {
        let (chunk, row) = position(serial);
        self.chunks.get(chunk)?.as_ref()?.get(row)?.as_deref()
    }

    pub(super) fn set(&mut self, serial: CampaignSerial, row: Option<CampaignRow>) {
        let (chunk, at) = position(serial);
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, None);
        }
        let rows = self.chunks[chunk].get_or_insert_with(|| Arc::new(vec![None; CHUNK_ROWS]));
        Arc::make_mut(rows)[at] = row.map(Arc::new);
    }
}

fn position(serial: CampaignSerial) -> (usize, usize) {
    let serial = serial.0 as usize;
    (serial / CHUNK_ROWS, serial % CHUNK_ROWS)
}

/// The campaigns as one decision sees them: the table, without those that were killed here.
#[derive(Clone, Debug)]
pub struct Campaigns {
    /// See [`CampaignTable::version`].
    pub version: u64,
    table: Arc<CampaignTable>,
    killed: Arc<HashSet<CampaignId>>,
}

impl Campaigns {
    pub(super) fn new(table: Arc<CampaignTable>, killed: Arc<HashSet<CampaignId>>) -> Self {
        Self { version: table.version, table, killed }
    }

    /// The table that lies under it.
    pub fn table(&self) -> &Arc<CampaignTable> {
        &self.table
    }

    /// Whether there is a campaign of this id, killed or not. Looks at every one.
    pub fn has(&self, campaign: &CampaignId) -> bool {
        let chunks = self.table.chunks.iter().flatten();
        chunks.flat_map(|chunk| chunk.iter().flatten()).any(|row| row.campaign.id == *campaign)
    }

    /// The campaign with this serial, where it still is and was not killed.
    pub fn get(&self, serial: CampaignSerial) -> Option<&CampaignRow> {
        let row = self.table.get(serial)?;
        let is_killed = !self.killed.is_empty() && self.killed.contains(&row.campaign.id);
        (!is_killed).then_some(row)
    }
}
