//! What the placements of one page do to each other.

use hashbrown::{HashMap, HashSet};

use super::PageRules;
use crate::index::Entry;
use crate::model::{AdSerial, AdvertiserId, Campaign, CampaignSerial};

/// What a page holds.
#[derive(Default)]
pub(super) struct OnPage {
    ads: HashSet<AdSerial>,
    campaigns: HashMap<CampaignSerial, u32>,
    /// Each competitive label with the advertiser that has it here.
    labels: HashMap<Box<str>, AdvertiserId>,
}

/// Why a page does not take an ad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conflict<'a> {
    /// It is there.
    Ad,
    /// As many of its campaign are there as may be.
    Campaign,
    /// Another advertiser that has this label is there.
    Competitor(&'a str),
}

impl OnPage {
    pub(super) fn add(&mut self, entry: &Entry, campaign: &Campaign) {
        self.ads.insert(entry.serial);
        *self.campaigns.entry(entry.campaign).or_default() += 1;
        for label in campaign.competitive_labels.iter() {
            if !self.labels.contains_key(label) {
                self.labels.insert(label.into(), campaign.advertiser.clone());
            }
        }
    }

    /// Whether the page holds this ad.
    pub(super) fn has(&self, ad: AdSerial) -> bool {
        self.ads.contains(&ad)
    }

    /// Why the page does not take `entry`, if it does not.
    pub(super) fn conflict<'c>(
        &self,
        entry: &Entry,
        campaign: &'c Campaign,
        rules: PageRules,
    ) -> Option<Conflict<'c>> {
        if self.has(entry.serial) {
            return Some(Conflict::Ad);
        }
        let of_campaign = self.campaigns.get(&entry.campaign).copied().unwrap_or(0);
        if rules.campaign_max > 0 && of_campaign >= rules.campaign_max {
            return Some(Conflict::Campaign);
        }
        let is_rival = |label: &&str| {
            self.labels.get(*label).is_some_and(|holder| *holder != campaign.advertiser)
        };
        campaign.competitive_labels.iter().find(is_rival).map(Conflict::Competitor)
    }
}
