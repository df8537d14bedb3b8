//! What one zone may show: an immutable list.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::model::{Account, Ad, CampaignSerial, Site, Zone};

/// One ad in one zone.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The ad, shared between its zones.
    pub ad: Arc<Ad>,
    /// Its campaign's row in the table.
    pub campaign: CampaignSerial,
    /// Its campaign's tier: in the block, as the order of the block depends on it.
    pub tier: i32,
    /// What it is ranked by in this zone.
    pub ecpm_micros: i64,
}

/// The ads of one zone, highest tier and eCPM first; among equals by id, so that the same
/// catalogue always makes the same block.
#[derive(Debug)]
pub struct ZoneBlock {
    /// The zone.
    pub zone: Arc<Zone>,
    /// Its site.
    pub site: Arc<Site>,
    /// The account that owns both.
    pub account: Arc<Account>,
    /// The ads.
    pub entries: Box<[Entry]>,
}

impl ZoneBlock {
    /// A block of `entries`, in any order.
    pub(super) fn new(
        zone: Arc<Zone>,
        site: Arc<Site>,
        account: Arc<Account>,
        mut entries: Vec<Entry>,
    ) -> Self {
        entries.sort_unstable_by(|a, b| {
            let key = |entry: &Entry| (Reverse(entry.tier), Reverse(entry.ecpm_micros));
            let (left, right) = (&a.ad, &b.ad);
            key(a)
                .cmp(&key(b))
                .then_with(|| left.campaign.cmp(&right.campaign))
                .then_with(|| left.unit.cmp(&right.unit))
        });
        Self { zone, site, account, entries: entries.into() }
    }

    pub(super) fn is_of(&self, site: &str, zone: &str) -> bool {
        self.zone.id.as_str() == zone && self.zone.site.as_str() == site
    }
}
