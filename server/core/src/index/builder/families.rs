//! Campaigns that count each other's showings.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::Builder;
use crate::model::{AccountId, AdvertiserId, CampaignId};

/// Names one family.
pub(super) type FamilyKey = (AccountId, AdvertiserId);

/// The campaigns of one advertiser in one account: an advertiser-wide cap of one concerns all.
#[derive(Default)]
pub(super) struct Family {
    pub(super) members: BTreeSet<CampaignId>,
    /// The longest window of any such cap, as of the last [`Builder::settle_exposure_lives`].
    pub(super) cap_window_us: i64,
}

impl Builder {
    /// An advertiser-wide cap counts every showing of the advertiser: so each of its campaigns
    /// is recorded for as long as any of them may ask.
    pub(super) fn settle_exposure_lives(&mut self, key: &FamilyKey) {
        let Some(family) = self.advertisers.get_mut(key) else { return };
        let rows = family.members.iter().filter_map(|id| self.campaigns.get(id));
        let wide = rows.map(|state| state.row.campaign.advertiser_cap_window_us()).max();
        family.cap_window_us = wide.unwrap_or(0);
        for id in &family.members {
            let Some(state) = self.campaigns.get_mut(id) else { continue };
            let life_us = state.row.campaign.cap_window_us().max(family.cap_window_us);
            if state.row.exposure_life_us != life_us {
                state.row.exposure_life_us = life_us;
                self.table.set(state.row.campaign.serial, Some(state.row.clone()));
            }
        }
    }
}

/// Takes `campaign` out of its family; an empty one is forgotten.
pub(super) fn leave_family(
    advertisers: &mut HashMap<FamilyKey, Family>,
    key: &FamilyKey,
    campaign: &CampaignId,
) {
    if let Some(family) = advertisers.get_mut(key) {
        family.members.remove(campaign);
        if family.members.is_empty() {
            advertisers.remove(key);
        }
    }
}
