//! The campaigns by serial, in chunks: a new table shares all chunks but the changed ones.

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::Guard;

use crate::model::{Campaign, CampaignId, CampaignSerial, Status};

/// Rows of a chunk. A change copies one chunk and the list of chunks: at a million campaigns
/// 10 KiB and 4,000 pointers, some microseconds.
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

impl CampaignRow {
    /// Whether what is known of the visitor can decide over its ads.
    pub fn asks_profile(&self) -> bool {
        let targeting = self.campaign.targeting.as_deref();
        self.exposure_life_us > 0 || targeting.is_some_and(|clauses| clauses.asks_segments())
    }
}

/// The part of a campaign that most of its candidates are turned down by, packed: a decision
/// reads one of these for each ad that it looks at, and the rest of the row for few.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub(crate) start_us: i64,
    pub(crate) end_us: i64,
    /// A bit for each country that it is for ([`crate::model::Country`]); all: for any, or not to
    /// be told from these.
    pub(crate) countries: u64,
    /// What else there is to ask, and to know of a winner, of the constants below.
    pub(crate) asks: u8,
}

impl Gate {
    /// It is switched off.
    pub(crate) const PAUSED: u8 = 1;
    /// It has a targeting clause.
    pub(crate) const TARGETING: u8 = 2;
    /// It wants a known visitor.
    pub(crate) const USER: u8 = 4;
    /// It has a budget.
    pub(crate) const BUDGET: u8 = 8;
    /// There is none.
    const GONE: u8 = 16;
    /// What is stored of the visitor can decide over its ads: see [`CampaignRow::asks_profile`].
    pub(crate) const PROFILE: u8 = 32;
    /// Only the store can say that its caps hold: see [`Campaign::asks_the_store`].
    pub(crate) const STRICT: u8 = 64;
    /// It has a competitive label.
    pub(crate) const LABELS: u8 = 128;
    /// All that may turn a candidate down.
    pub(crate) const TURNS_DOWN: u8 = Self::PAUSED | Self::TARGETING | Self::USER | Self::BUDGET;

    const NONE: Self = Self { start_us: 0, end_us: 0, countries: 0, asks: Self::GONE };

    fn of(row: &CampaignRow) -> Self {
        let campaign = &row.campaign;
        let asked = [
            (campaign.status == Status::Paused, Self::PAUSED),
            (campaign.targeting.is_some(), Self::TARGETING),
            (campaign.requires_user, Self::USER),
            (campaign.has_budget, Self::BUDGET),
            (row.asks_profile(), Self::PROFILE),
            (campaign.asks_the_store(), Self::STRICT),
            (!campaign.competitive_labels.is_empty(), Self::LABELS),
        ];
        Self {
            start_us: campaign.flight.start_us,
            end_us: campaign.flight.end_us,
            countries: campaign.targeting.as_deref().map_or(u64::MAX, |t| t.country_bits()),
            asks: asked.iter().filter(|(is_asked, _)| *is_asked).fold(0, |all, (_, one)| all | one),
        }
    }
}

#[derive(Clone, Debug)]
struct Chunk {
    /// In the chunk itself: one step less to each of them.
    gates: [Gate; CHUNK_ROWS],
    rows: Box<[Option<Arc<CampaignRow>>]>,
}

impl Chunk {
    fn empty() -> Self {
        Self { gates: [Gate::NONE; CHUNK_ROWS], rows: vec![None; CHUNK_ROWS].into() }
    }
}

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
        self.chunks.get(chunk)?.as_ref()?.rows[row].as_deref()
    }

    fn gate(&self, serial: CampaignSerial) -> Option<&Gate> {
        let (chunk, row) = position(serial);
        let gate = &self.chunks.get(chunk)?.as_ref()?.gates[row];
        (gate.asks & Gate::GONE == 0).then_some(gate)
    }

    pub(super) fn set(&mut self, serial: CampaignSerial, row: Option<CampaignRow>) {
        let (chunk, at) = position(serial);
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, None);
        }
        let chunk = self.chunks[chunk].get_or_insert_with(|| Arc::new(Chunk::empty()));
        let chunk = Arc::make_mut(chunk);
        chunk.gates[at] = row.as_ref().map_or(Gate::NONE, Gate::of);
        chunk.rows[at] = row.map(Arc::new);
    }
}

fn position(serial: CampaignSerial) -> (usize, usize) {
    let serial = serial.0 as usize;
    (serial / CHUNK_ROWS, serial % CHUNK_ROWS)
}

/// The campaigns as one decision sees them: the table, without those that were killed here.
///
/// Short-lived, as it is lent by the thread that loads it: no core writes a count that another one
/// writes, too. What waits, or lives longer, loads it anew.
#[derive(Debug)]
pub struct Campaigns {
    /// See [`CampaignTable::version`].
    pub version: u64,
    table: Guard<Arc<CampaignTable>>,
    killed: Guard<Arc<HashSet<CampaignId>>>,
    has_killed: bool,
}

impl Campaigns {
    pub(super) fn new(
        table: Guard<Arc<CampaignTable>>,
        killed: Guard<Arc<HashSet<CampaignId>>>,
    ) -> Self {
        let has_killed = !killed.is_empty();
        Self { version: table.version, table, killed, has_killed }
    }

    /// The table that lies under it.
    pub fn table(&self) -> &Arc<CampaignTable> {
        &self.table
    }

    /// Whether there is a campaign of this id, killed or not. Looks at every one.
    pub fn has(&self, campaign: &CampaignId) -> bool {
        let chunks = self.table.chunks.iter().flatten();
        chunks.flat_map(|chunk| chunk.rows.iter().flatten()).any(|row| row.campaign.id == *campaign)
    }

    /// The campaign with this serial, where it still is and was not killed.
    pub fn get(&self, serial: CampaignSerial) -> Option<&CampaignRow> {
        let row = self.table.get(serial)?;
        let is_killed = self.has_killed && self.killed.contains(&row.campaign.id);
        (!is_killed).then_some(row)
    }

    /// The gate of that campaign, under the same conditions.
    pub(crate) fn gate(&self, serial: CampaignSerial) -> Option<&Gate> {
        if self.has_killed {
            self.get(serial)?;
        }
        self.table.gate(serial)
    }
}
