//! The one writer of the index: takes changes, rebuilds what they touch, publishes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;

mod families;
mod publish;

use families::{Family, FamilyKey, leave_family};
use publish::{ZoneEdit, touch};

use super::block::Newcomer;
use super::{CampaignRow, CampaignTable, Change, Index, Key, Rejected, Retired};
use crate::model::{
    Account, AccountId, Ad, AdUnitId, Campaign, CampaignId, CampaignSerial, Site, SiteId, Status,
    Zone, ZoneId, ZoneSerial,
};

struct SiteState {
    site: Arc<Site>,
    zones: HashMap<ZoneId, Arc<Zone>>,
}

struct CampaignState {
    row: CampaignRow,
    ads: BTreeMap<AdUnitId, Arc<Ad>>,
}

/// What the whole catalogue looks like to the writer; see [`Builder::apply`].
#[derive(Default)]
pub struct Builder {
    accounts: HashMap<AccountId, Arc<Account>>,
    sites: HashMap<SiteId, SiteState>,
    campaigns: HashMap<CampaignId, CampaignState>,
    advertisers: HashMap<FamilyKey, Family>,
    ads_len: usize,
    table: CampaignTable,
    edits: HashMap<ZoneSerial, ZoneEdit>,
    /// Campaigns whose number is to be published, or to be forgotten (nothing).
    renumbered: Vec<(CampaignId, Option<CampaignSerial>)>,
    retired: Vec<Retired>,
}

impl Builder {
    /// How many ads there are.
    pub fn ads_len(&self) -> usize {
        self.ads_len
    }

    /// The campaigns that are switched off.
    pub fn paused(&self) -> impl Iterator<Item = &CampaignId> {
        let is_paused = |state: &CampaignState| state.row.campaign.status == Status::Paused;
        self.campaigns.iter().filter(move |(_, state)| is_paused(state)).map(|(id, _)| id)
    }

    /// Takes `changes`, in any order, and publishes them in `index` as `version`: first the
    /// blocks, then the table of campaigns. Only what they touch is built anew. What names an
    /// object that is not there is left out and returned.
    ///
    /// `index` must be the one that this builder has always written to.
    pub fn apply(
        &mut self,
        mut changes: Vec<Change>,
        version: u64,
        index: &Index,
    ) -> Vec<Rejected> {
        changes.sort_by_key(Change::rank);
        let mut rejected = Vec::new();
        let mut unsettled = BTreeSet::new();
        for change in changes {
            match change {
                Change::Account(account) => self.put_account(account),
                Change::Site(site) => rejected.extend(self.put_site(site).err()),
                Change::Zone(zone) => rejected.extend(self.put_zone(zone).err()),
                Change::Campaign(campaign) => {
                    rejected.extend(self.put_campaign(campaign, &mut unsettled).err());
                }
                Change::Ad(ad) => rejected.extend(self.put_ad(ad).err()),
                Change::Removed(key) => self.remove(&key, &mut unsettled),
            }
        }
        for Rejected { key, .. } in &rejected {
            // What it was before must not be shown either.
            self.remove(key, &mut unsettled);
        }
        for family in &unsettled {
            self.settle_exposure_lives(family);
        }
        self.publish(version, index);
        rejected
    }

    /// Takes over what an [`Index::adopt`] took out of sight, to be freed by [`Builder::sweep`].
    pub fn retire(&mut self, retired: Vec<Retired>) {
        self.retired.extend(retired);
    }

    /// Frees what no decision reads any more, here rather than on a decision's thread.
    pub fn sweep(&mut self) {
        // A retired map still holds its blocks: those it shares with its successor live on, and
        // the others go with it. So the maps go first.
        let is_block = |retired: &Retired| matches!(retired, Retired::Block(_));
        self.retired.retain(|retired| is_block(retired) || retired.is_read());
        self.retired.retain(Retired::is_read);
    }

    fn put_account(&mut self, account: Account) {
        let account = Arc::new(account);
        let old = self.accounts.insert(account.id.clone(), Arc::clone(&account));
        // Blocks hold their account: one that was made again or got its time zone is another.
        let same =
            |old: Arc<Account>| old.serial == account.serial && old.time_zone == account.time_zone;
        if old.is_none_or(same) {
            return;
        }
        for state in self.sites.values().filter(|state| state.site.account == account.id) {
            for zone in state.zones.values() {
                touch(&mut self.edits, zone);
            }
        }
    }

    fn put_site(&mut self, site: Site) -> Result<(), Rejected> {
        if !self.accounts.contains_key(&site.account) {
            let why = format!("its account {} is not there", site.account);
            return Err(Rejected { key: Key::Site(site.id), why });
        }
        let site = Arc::new(site);
        let state = self
            .sites
            .entry(site.id.clone())
            .or_insert_with(|| SiteState { site: Arc::clone(&site), zones: HashMap::new() });
        state.site = site;
        for zone in state.zones.values() {
            touch(&mut self.edits, zone);
        }
        Ok(())
    }

    fn put_zone(&mut self, mut zone: Zone) -> Result<(), Rejected> {
        let Some(state) = self.sites.get_mut(&zone.site) else {
            let why = format!("its site {} is not there", zone.site);
            return Err(Rejected { key: Key::Zone(zone.site, zone.id), why });
        };
        zone.site.clone_from(&state.site.id);
        let zone = Arc::new(zone);
        touch(&mut self.edits, &zone);
        state.zones.insert(zone.id.clone(), zone);
        Ok(())
    }

    fn put_campaign(
        &mut self,
        campaign: Campaign,
        unsettled: &mut BTreeSet<FamilyKey>,
    ) -> Result<(), Rejected> {
        if !self.accounts.contains_key(&campaign.account) {
            let why = format!("its account {} is not there", campaign.account);
            return Err(Rejected { key: Key::Campaign(campaign.id), why });
        }
        let key = (campaign.account.clone(), campaign.advertiser.clone());
        let family = self.advertisers.entry(key.clone()).or_default();
        family.members.insert(campaign.id.clone());
        let rank = |campaign: &Campaign| {
            (campaign.serial, campaign.tier, campaign.thousand_impressions_micros())
        };
        let (id, new_rank) = (campaign.id.clone(), rank(&campaign));
        let cap_window_us = campaign.advertiser_cap_window_us();
        let exposure_life_us = campaign.cap_window_us().max(family.cap_window_us);
        let row = CampaignRow { campaign, exposure_life_us };
        self.table.set(new_rank.0, Some(row.clone()));
        if self.campaigns.get(&id).is_none_or(|state| state.row.campaign.serial != new_rank.0) {
            self.renumbered.push((id.clone(), Some(new_rank.0)));
        }
        let Some(state) = self.campaigns.get_mut(&id) else {
            self.campaigns.insert(id, CampaignState { row, ads: BTreeMap::new() });
            if cap_window_us > 0 {
                unsettled.insert(key);
            }
            return Ok(());
        };
        let old = std::mem::replace(&mut state.row, row);
        if old.campaign.serial != new_rank.0 {
            self.table.set(old.campaign.serial, None);
        }
        if old.campaign.advertiser_cap_window_us() != cap_window_us {
            unsettled.insert(key.clone());
        }
        let old_key = (old.campaign.account.clone(), old.campaign.advertiser.clone());
        if old_key != key {
            // Made again in another account: its old siblings no longer answer for it.
            leave_family(&mut self.advertisers, &old_key, &id);
            unsettled.extend([key, old_key]);
        }
        if rank(&old.campaign) != new_rank {
            let ads: Vec<_> = state.ads.values().cloned().collect();
            for ad in ads {
                self.leave_zones(&ad);
                self.enter_zones(&ad);
            }
        }
        Ok(())
    }

    /// An ad's ids become those of the objects that they name: there are millions of ads, and each
    /// brings a text of its own for each of them.
    fn put_ad(&mut self, mut ad: Ad) -> Result<(), Rejected> {
        let reject =
            |ad: &Ad, why| Rejected { key: Key::Ad(ad.campaign.clone(), ad.unit.clone()), why };
        let Some(state) = self.campaigns.get(&ad.campaign) else {
            return Err(reject(&ad, format!("its campaign {} is not there", ad.campaign)));
        };
        let campaign = &state.row.campaign;
        // Where a zone is missing the ad serves in its others, as when the zone is removed later.
        let (mut missing, mut found) = (None, false);
        for place in &ad.placements {
            let why = match self.sites.get(&place.site) {
                Some(site) if site.site.account != campaign.account => "is another account's",
                Some(site) if site.zones.contains_key(&place.zone) => {
                    if place.ecpm_micros.or(campaign.thousand_impressions_micros()).is_some() {
                        found = true;
                        continue;
                    }
                    "gives it no eCPM, and neither do the ad and its campaign"
                }
                _ => {
                    missing.get_or_insert(place);
                    continue;
                }
            };
            return Err(reject(&ad, format!("its zone {}/{} {why}", place.site, place.zone)));
        }
        if let (Some(place), false) = (missing, found) {
            let why = format!("its zone {}/{} is not there", place.site, place.zone);
            return Err(reject(&ad, why));
        }
        ad.campaign.clone_from(&campaign.id);
        for place in &mut ad.placements {
            if let Some(zone) = find_zone(&self.sites, &place.site, &place.zone) {
                place.site.clone_from(&zone.site);
                place.zone.clone_from(&zone.id);
            }
        }
        let ad = Arc::new(ad);
        let old = self
            .campaigns
            .get_mut(&ad.campaign)
            .and_then(|state| state.ads.insert(ad.unit.clone(), Arc::clone(&ad)));
        match old {
            Some(old) => self.leave_zones(&old),
            None => self.ads_len += 1,
        }
        self.enter_zones(&ad);
        Ok(())
    }

    fn remove(&mut self, key: &Key, unsettled: &mut BTreeSet<FamilyKey>) {
        match key {
            Key::Account(id) => drop(self.accounts.remove(id)),
            Key::Site(id) => {
                for zone in self.sites.remove(id).into_iter().flat_map(|state| state.zones) {
                    touch(&mut self.edits, &zone.1);
                }
            }
            Key::Zone(site, zone) => {
                let state = self.sites.get_mut(site);
                if let Some(zone) = state.and_then(|state| state.zones.remove(zone)) {
                    touch(&mut self.edits, &zone);
                }
            }
            Key::Campaign(id) => {
                let Some(state) = self.campaigns.remove(id) else { return };
                for ad in state.ads.values() {
                    self.ads_len -= 1;
                    self.leave_zones(ad);
                }
                let campaign = state.row.campaign;
                self.table.set(campaign.serial, None);
                self.renumbered.push((id.clone(), None));
                let family = (campaign.account, campaign.advertiser);
                leave_family(&mut self.advertisers, &family, id);
                unsettled.insert(family);
            }
            Key::Ad(campaign, unit) => {
                let state = self.campaigns.get_mut(campaign);
                if let Some(ad) = state.and_then(|state| state.ads.remove(unit)) {
                    self.ads_len -= 1;
                    self.leave_zones(&ad);
                }
            }
        }
    }

    fn leave_zones(&mut self, ad: &Ad) {
        for place in &ad.placements {
            let Some(zone) = find_zone(&self.sites, &place.site, &place.zone) else { continue };
            let edit = touch(&mut self.edits, &zone);
            edit.added.remove(&ad.serial);
            edit.removed.insert(ad.serial);
        }
    }

    fn enter_zones(&mut self, ad: &Arc<Ad>) {
        let Some(state) = self.campaigns.get(&ad.campaign) else { return };
        let campaign = &state.row.campaign;
        for place in &ad.placements {
            let ecpm = place.ecpm_micros.or(campaign.thousand_impressions_micros());
            let zone = find_zone(&self.sites, &place.site, &place.zone);
            let (Some(ecpm_micros), Some(zone)) = (ecpm, zone) else { continue };
            let newcomer = Newcomer {
                ad: Arc::clone(ad),
                campaign: campaign.serial,
                serial: ad.serial,
                tier: campaign.tier,
                ecpm_micros,
            };
            touch(&mut self.edits, &zone).added.insert(ad.serial, newcomer);
        }
    }
}

fn find_zone(
    sites: &HashMap<SiteId, SiteState>,
    site: &SiteId,
    zone: &ZoneId,
) -> Option<Arc<Zone>> {
    sites.get(site)?.zones.get(zone).cloned()
}
