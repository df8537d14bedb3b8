//! The one writer of the index: takes changes, rebuilds what they touch, publishes it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::{CampaignRow, CampaignTable, Entry, Index, Retired, Shard, ZoneBlock, shard_of};
use crate::model::{
    Account, AccountId, Ad, AdSerial, AdUnitId, AdvertiserId, Campaign, CampaignId, Site, SiteId,
    Zone, ZoneId, ZoneSerial,
};

/// Names one object of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// An account.
    Account(AccountId),
    /// A site.
    Site(SiteId),
    /// A zone of a site.
    Zone(SiteId, ZoneId),
    /// A campaign.
    Campaign(CampaignId),
    /// An ad of a campaign.
    Ad(CampaignId, AdUnitId),
}

impl Key {
    /// The kind of object, as the contract spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Account(_) => "account",
            Self::Site(_) => "site",
            Self::Zone(..) => "zone",
            Self::Campaign(_) => "campaign",
            Self::Ad(..) => "ad",
        }
    }

    /// What the object's id is unique in (a zone's site, an ad's campaign; else empty), and the
    /// id itself.
    pub fn parts(&self) -> (&str, &str) {
        match self {
            Self::Account(id) => ("", id.as_str()),
            Self::Site(id) => ("", id.as_str()),
            Self::Zone(site, id) => (site.as_str(), id.as_str()),
            Self::Campaign(id) => ("", id.as_str()),
            Self::Ad(campaign, id) => (campaign.as_str(), id.as_str()),
        }
    }
}

/// The id as people write it: `site/zone`, `campaign/ad`.
impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.parts() {
            ("", id) => f.write_str(id),
            (parent, id) => write!(f, "{parent}/{id}"),
        }
    }
}

/// One change of the catalogue: an object as it is now, or that it is gone.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new or changed account.
    Account(Account),
    /// A new or changed site.
    Site(Site),
    /// A new or changed zone.
    Zone(Zone),
    /// A new or changed campaign.
    Campaign(Campaign),
    /// A new or changed ad.
    Ad(Ad),
    /// The object is no more.
    Removed(Key),
}

impl Change {
    /// Objects come after what they name, removals last and in the other direction.
    fn rank(&self) -> u8 {
        match self {
            Self::Account(_) => 0,
            Self::Site(_) => 1,
            Self::Zone(_) => 2,
            Self::Campaign(_) => 3,
            Self::Ad(_) => 4,
            Self::Removed(Key::Ad(..)) => 5,
            Self::Removed(Key::Campaign(_)) => 6,
            Self::Removed(Key::Zone(..)) => 7,
            Self::Removed(Key::Site(_)) => 8,
            Self::Removed(Key::Account(_)) => 9,
        }
    }
}

/// An object that names what is not there, and is therefore not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Which.
    pub key: Key,
    /// Why, in words.
    pub why: String,
}

struct SiteState {
    site: Arc<Site>,
    zones: HashMap<ZoneId, Arc<Zone>>,
}

struct CampaignState {
    row: CampaignRow,
    ads: BTreeMap<AdUnitId, Arc<Ad>>,
}

type FamilyKey = (AccountId, AdvertiserId);

/// The campaigns of one advertiser in one account: an advertiser-wide cap of one concerns all.
#[derive(Default)]
struct Family {
    members: BTreeSet<CampaignId>,
    /// The longest window of any such cap, as of the last [`Builder::settle_exposure_lives`].
    cap_window_us: i64,
}

#[derive(Default)]
struct ZoneEdit {
    key: Option<(SiteId, ZoneId)>,
    removed: HashSet<AdSerial>,
    added: Vec<Entry>,
}

/// What the whole catalogue looks like to the writer; see [`Builder::apply`].
#[derive(Default)]
pub struct Builder {
    accounts: HashMap<AccountId, Account>,
    sites: HashMap<SiteId, SiteState>,
    campaigns: HashMap<CampaignId, CampaignState>,
    advertisers: HashMap<FamilyKey, Family>,
    ads_len: usize,
    table: CampaignTable,
    edits: HashMap<ZoneSerial, ZoneEdit>,
    retired: Vec<Retired>,
}

impl Builder {
    /// How many ads there are.
    pub fn ads_len(&self) -> usize {
        self.ads_len
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
                Change::Account(account) => {
                    self.accounts.insert(account.id.clone(), account);
                }
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

    fn put_zone(&mut self, zone: Zone) -> Result<(), Rejected> {
        let Some(state) = self.sites.get_mut(&zone.site) else {
            let why = format!("its site {} is not there", zone.site);
            return Err(Rejected { key: Key::Zone(zone.site, zone.id), why });
        };
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
            (campaign.serial, campaign.tier, campaign.thousand_impressions_micros)
        };
        let (id, new_rank) = (campaign.id.clone(), rank(&campaign));
        let cap_window_us = campaign.advertiser_cap_window_us();
        let exposure_life_us = campaign.cap_window_us().max(family.cap_window_us);
        let row = CampaignRow { campaign, exposure_life_us };
        self.table.set(new_rank.0, Some(row.clone()));
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

    fn put_ad(&mut self, ad: Ad) -> Result<(), Rejected> {
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
                    if place.ecpm_micros.or(campaign.thousand_impressions_micros).is_some() {
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
            edit.added.retain(|entry| entry.ad.serial != ad.serial);
            edit.removed.insert(ad.serial);
        }
    }

    fn enter_zones(&mut self, ad: &Arc<Ad>) {
        let Some(state) = self.campaigns.get(&ad.campaign) else { return };
        let campaign = &state.row.campaign;
        for place in &ad.placements {
            let ecpm = place.ecpm_micros.or(campaign.thousand_impressions_micros);
            let zone = find_zone(&self.sites, &place.site, &place.zone);
            let (Some(ecpm_micros), Some(zone)) = (ecpm, zone) else { continue };
            touch(&mut self.edits, &zone).added.push(Entry {
                ad: Arc::clone(ad),
                campaign: campaign.serial,
                tier: campaign.tier,
                ecpm_micros,
            });
        }
    }

    /// An advertiser-wide cap counts every showing of the advertiser: so each of its campaigns
    /// is recorded for as long as any of them may ask.
    fn settle_exposure_lives(&mut self, key: &FamilyKey) {
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

    fn publish(&mut self, version: u64, index: &Index) {
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
            if let Some(block) =
                self.build_block(&site, &zone, old.as_deref(), edit.removed, edit.added)
            {
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
    }

    fn build_block(
        &self,
        site: &SiteId,
        zone: &ZoneId,
        old: Option<&ZoneBlock>,
        removed: HashSet<AdSerial>,
        added: Vec<Entry>,
    ) -> Option<ZoneBlock> {
        let state = self.sites.get(site)?;
        let zone = Arc::clone(state.zones.get(zone)?);
        let account = self.accounts.get(&state.site.account)?.serial;
        let kept = old.filter(|old| old.zone.serial == zone.serial);
        let kept = kept.into_iter().flat_map(|old| old.entries.iter());
        let mut entries = added;
        entries.extend(kept.filter(|entry| !removed.contains(&entry.ad.serial)).cloned());
        Some(ZoneBlock::new(zone, Arc::clone(&state.site), account, entries))
    }
}

fn leave_family(
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

fn find_zone(
    sites: &HashMap<SiteId, SiteState>,
    site: &SiteId,
    zone: &ZoneId,
) -> Option<Arc<Zone>> {
    sites.get(site)?.zones.get(zone).cloned()
}

fn touch<'e>(edits: &'e mut HashMap<ZoneSerial, ZoneEdit>, zone: &Zone) -> &'e mut ZoneEdit {
    let edit = edits.entry(zone.serial).or_default();
    edit.key.get_or_insert_with(|| (zone.site.clone(), zone.id.clone()));
    edit
}
