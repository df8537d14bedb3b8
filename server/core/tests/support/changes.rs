//! A catalogue as the store keeps it: plain maps that every change leaves consistent, and that
//! tell what changed as the store's feed does, each object once as it is now or as gone.

use std::collections::{BTreeMap, BTreeSet};

use slotwise_core::index::{Change, Index, Key};
use slotwise_core::model::{
    Account, AccountId, AccountSerial, Ad, AdSerial, AdUnitId, Blocks, Campaign, CampaignId,
    CampaignSerial, Cap, CapLevel, Flight, Keywords, Names, Placement, Price, Site, SiteId, Size,
    Status, Zone, ZoneId, ZoneSerial,
};

use crate::market::{DAY_US, HOUR_US, START_US};

const ACCOUNTS: [&str; 2] = ["net", "pub"];
pub(crate) const SITES: [&str; 3] = ["s0", "s1", "s2"];
pub(crate) const ZONES: [&str; 3] = ["z0", "z1", "z2"];
const CAMPAIGNS: [&str; 5] = ["x:1", "x:2", "x:3", "y:1", "y:2"];
const UNITS: [&str; 3] = ["u0", "u1", "u2"];

/// One step of a random history: what to do, and values to do it with.
pub(crate) type Step = (u8, u8, u8, u8, u16);

/// The catalogue.
#[derive(Default)]
pub(crate) struct Catalogue {
    accounts: BTreeMap<AccountId, Account>,
    sites: BTreeMap<SiteId, Site>,
    zones: BTreeMap<(SiteId, ZoneId), Zone>,
    campaigns: BTreeMap<CampaignId, Campaign>,
    ads: BTreeMap<(CampaignId, AdUnitId), Ad>,
    serials: u32,
    touched: BTreeSet<Key>,
}

fn pick<'n>(names: &[&'n str], by: u8) -> &'n str {
    names[usize::from(by) % names.len()]
}

impl Catalogue {
    pub(crate) fn step(&mut self, (what, a, b, c, value): Step) {
        let (account, site) = (pick(&ACCOUNTS, a).into(), pick(&SITES, b).into());
        let campaign = pick(&CAMPAIGNS, b).into();
        match what % 24 {
            0 | 1 => self.put_account(&account),
            2 | 3 => self.put_site(&account, &site, value),
            4..=6 => self.put_zone(&site, &pick(&ZONES, c).into(), value),
            7..=9 => self.put_campaign(&account, &campaign, c, value),
            10 | 11 => self.switch(&campaign),
            12..=17 => self.put_ad(&campaign, &pick(&UNITS, c).into(), a, value),
            18 => self.remove_ad(&campaign, &pick(&UNITS, c).into()),
            19 => self.remove_campaign(&campaign),
            20 => self.remove_zone(&site, &pick(&ZONES, c).into()),
            21 => self.remove_site(&site),
            // Gone and there again before anybody looks: another one under the old id.
            22 if value.is_multiple_of(2) => self.make_again(&account, &campaign, c, value),
            22 => {
                self.remove_zone(&site, &pick(&ZONES, c).into());
                self.put_zone(&site, &pick(&ZONES, c).into(), value);
            }
            _ if value.is_multiple_of(4) => self.remove_account(&account),
            _ => self.put_account(&account),
        }
    }

    /// What changed since the last call, as a feed tells it.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        let touched = std::mem::take(&mut self.touched);
        touched.iter().map(|key| self.now(key)).collect()
    }

    /// Everything that is there.
    pub(crate) fn everything(&self) -> Vec<Change> {
        let accounts = self.accounts.values().cloned().map(Change::Account);
        let sites = self.sites.values().cloned().map(Change::Site);
        let zones = self.zones.values().cloned().map(Change::Zone);
        let campaigns = self.campaigns.values().cloned().map(Change::Campaign);
        let ads = self.ads.values().cloned().map(Change::Ad);
        ads.chain(campaigns).chain(zones).chain(sites).chain(accounts).collect()
    }

    pub(crate) fn ads_len(&self) -> usize {
        self.ads.len()
    }

    /// Serials given so far.
    pub(crate) fn serials(&self) -> u32 {
        self.serials
    }

    fn now(&self, key: &Key) -> Change {
        let change = match key {
            Key::Account(id) => self.accounts.get(id).cloned().map(Change::Account),
            Key::Site(id) => self.sites.get(id).cloned().map(Change::Site),
            Key::Zone(site, id) => {
                self.zones.get(&(site.clone(), id.clone())).cloned().map(Change::Zone)
            }
            Key::Campaign(id) => self.campaigns.get(id).cloned().map(Change::Campaign),
            Key::Ad(campaign, id) => {
                self.ads.get(&(campaign.clone(), id.clone())).cloned().map(Change::Ad)
            }
        };
        change.unwrap_or_else(|| Change::Removed(key.clone()))
    }

    fn next_serial(&mut self) -> u32 {
        self.serials += 1;
        self.serials
    }

    fn put_account(&mut self, id: &AccountId) {
        let old = self.accounts.get(id).map(|account| account.serial);
        let serial = old.unwrap_or_else(|| AccountSerial(self.next_serial()));
        self.accounts.insert(id.clone(), Account { serial, id: id.clone(), time_zone: "".into() });
        self.touched.insert(Key::Account(id.clone()));
    }

    fn put_site(&mut self, account: &AccountId, id: &SiteId, value: u16) {
        // A site stays with its account.
        let account = self.sites.get(id).map_or(account, |site| &site.account).clone();
        if !self.accounts.contains_key(&account) {
            return;
        }
        let advertisers =
            if value.is_multiple_of(2) { Vec::new() } else { vec![format!("a{value}")] };
        let blocks = Blocks::new(advertisers.iter().map(String::as_str), [], []);
        self.sites.insert(id.clone(), Site { id: id.clone(), account, blocks });
        self.touched.insert(Key::Site(id.clone()));
    }

    fn put_zone(&mut self, site: &SiteId, id: &ZoneId, value: u16) {
        if !self.sites.contains_key(site) {
            return;
        }
        let key = (site.clone(), id.clone());
        let old = self.zones.get(&key).map(|zone| zone.serial);
        let zone = Zone {
            serial: old.unwrap_or_else(|| ZoneSerial(self.next_serial())),
            site: site.clone(),
            id: id.clone(),
            sizes: (0..value % 3).map(|n| Size { width: n.into(), height: value.into() }).collect(),
            floor_ecpm_micros: value.into(),
        };
        self.zones.insert(key, zone);
        self.touched.insert(Key::Zone(site.clone(), id.clone()));
    }

    fn put_campaign(&mut self, account: &AccountId, id: &CampaignId, tier: u8, value: u16) {
        let old = self.campaigns.get(id);
        // A campaign stays with its account.
        let account = old.map_or(account, |campaign| &campaign.account).clone();
        if !self.accounts.contains_key(&account) {
            return;
        }
        let (serial, status) = (old.map(|old| old.serial), old.map(|old| old.status));
        // A price that some ad lives by is changed, never taken away.
        let relies = |(of, ad): (&(CampaignId, AdUnitId), &Ad)| {
            of.0 == *id && ad.placements.iter().any(|place| place.ecpm_micros.is_none())
        };
        let has_price = !value.is_multiple_of(3) || self.ads.iter().any(relies);
        let levels = [CapLevel::Ad, CapLevel::Campaign, CapLevel::Advertiser];
        let window_us = if value.is_multiple_of(2) { HOUR_US } else { DAY_US };
        let cap = |n: u16| Cap {
            level: levels[usize::from(value + n) % 3],
            impressions_max: u32::from(n) + 1,
            window_us: window_us * (i64::from(n) + 1),
        };
        let campaign = Campaign {
            serial: serial.unwrap_or_else(|| CampaignSerial(self.next_serial())),
            id: id.clone(),
            account,
            advertiser: id.advertiser(),
            status: status.unwrap_or(Status::Active),
            flight: Flight { start_us: START_US - i64::from(value), end_us: i64::MAX },
            tier: i32::from(tier % 3) - 1,
            caps: (0..value % 3).map(cap).collect(),
            strict_caps: false,
            requires_user: value.is_multiple_of(5),
            has_budget: value.is_multiple_of(7),
            targeting: value.is_multiple_of(11).then(Box::default),
            competitive_labels: Names::default(),
            price: has_price.then_some(Price::ThousandImpressions(i64::from(value % 8))),
            categories: Vec::new(),
            advertiser_domains: Vec::new(),
        };
        self.campaigns.insert(id.clone(), campaign);
        self.touched.insert(Key::Campaign(id.clone()));
    }

    fn switch(&mut self, id: &CampaignId) {
        if let Some(campaign) = self.campaigns.get_mut(id) {
            campaign.status = match campaign.status {
                Status::Active => Status::Paused,
                Status::Paused => Status::Active,
            };
            self.touched.insert(Key::Campaign(id.clone()));
        }
    }

    /// Places the ad in some zones of its account: another set each time, so that ads move.
    fn put_ad(&mut self, campaign: &CampaignId, unit: &AdUnitId, zones: u8, value: u16) {
        let Some(of) = self.campaigns.get(campaign) else { return };
        let has_price = of.price.is_some();
        let own = |(site, _): &&(SiteId, ZoneId)| self.sites[site].account == of.account;
        let place = |(at, (site, zone)): (usize, &(SiteId, ZoneId))| Placement {
            site: site.clone(),
            zone: zone.clone(),
            ecpm_micros: (!has_price || (usize::from(value) + at) % 2 == 0)
                .then_some(i64::from(value % 8)),
        };
        let chosen = |(at, _): &(usize, _)| zones >> (at % 8) & 1 == 1;
        let placements: Box<[_]> =
            self.zones.keys().filter(own).enumerate().filter(chosen).map(place).collect();
        let key = (campaign.clone(), unit.clone());
        let old = self.ads.get(&key).map(|ad| ad.serial);
        let ad = Ad {
            serial: old.unwrap_or_else(|| AdSerial(self.next_serial())),
            campaign: campaign.clone(),
            unit: unit.clone(),
            placements,
            keywords: Keywords::new(
                [format!("k{}", value % 4), format!("k{}", value % 5)].iter().map(String::as_str),
            ),
            excluded_keywords: Keywords::default(),
            size: value.is_multiple_of(2).then_some(Size { width: value.into(), height: 1 }),
            zone_prices: [].into(),
        };
        self.ads.insert(key, ad);
        self.touched.insert(Key::Ad(campaign.clone(), unit.clone()));
    }

    fn remove_ad(&mut self, campaign: &CampaignId, unit: &AdUnitId) {
        if self.ads.remove(&(campaign.clone(), unit.clone())).is_some() {
            self.touched.insert(Key::Ad(campaign.clone(), unit.clone()));
        }
    }

    fn remove_campaign(&mut self, id: &CampaignId) {
        let ads: Vec<_> = self.ads.keys().filter(|(of, _)| of == id).cloned().collect();
        for (campaign, unit) in ads {
            self.remove_ad(&campaign, &unit);
        }
        if self.campaigns.remove(id).is_some() {
            self.touched.insert(Key::Campaign(id.clone()));
        }
    }

    /// The campaign, its first ad too, under its old id, perhaps in another account.
    fn make_again(&mut self, account: &AccountId, id: &CampaignId, tier: u8, value: u16) {
        self.remove_campaign(id);
        self.put_campaign(account, id, tier, value);
        self.put_ad(id, &pick(&UNITS, tier).into(), u8::MAX, value);
    }

    /// The ads leave a zone before it goes.
    fn remove_zone(&mut self, site: &SiteId, id: &ZoneId) {
        if self.zones.remove(&(site.clone(), id.clone())).is_none() {
            return;
        }
        self.touched.insert(Key::Zone(site.clone(), id.clone()));
        for ((campaign, unit), ad) in &mut self.ads {
            let stays = |place: &&Placement| place.site != *site || place.zone != *id;
            let staying: Box<[_]> = ad.placements.iter().filter(stays).cloned().collect();
            if staying.len() != ad.placements.len() {
                ad.placements = staying;
                self.touched.insert(Key::Ad(campaign.clone(), unit.clone()));
            }
        }
    }

    fn remove_site(&mut self, id: &SiteId) {
        for zone in ZONES {
            self.remove_zone(id, &zone.into());
        }
        if self.sites.remove(id).is_some() {
            self.touched.insert(Key::Site(id.clone()));
        }
    }

    fn remove_account(&mut self, id: &AccountId) {
        let sites = self.sites.values().filter(|site| site.account == *id);
        for site in sites.map(|site| site.id.clone()).collect::<Vec<_>>() {
            self.remove_site(&site);
        }
        let campaigns = self.campaigns.values().filter(|campaign| campaign.account == *id);
        for campaign in campaigns.map(|campaign| campaign.id.clone()).collect::<Vec<_>>() {
            self.remove_campaign(&campaign);
        }
        if self.accounts.remove(id).is_some() {
            self.touched.insert(Key::Account(id.clone()));
        }
    }
}

/// All that an index shows: each zone with its ads in order, and each campaign, in words.
pub(crate) fn shown(index: &Index, serials: u32) -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    for site in SITES {
        for zone in ZONES {
            if let Some(block) = index.zone(site, zone) {
                let head = format!("{:?} {:?} {:?}", block.zone, block.site, block.account);
                shown.insert(format!("zone {site}/{zone}"), head);
                for (at, entry) in block.entries.iter().enumerate() {
                    shown.insert(format!("zone {site}/{zone} ad {at:03}"), format!("{entry:?}"));
                }
            }
        }
    }
    let table = index.campaigns();
    shown.insert("version".to_owned(), table.version.to_string());
    for serial in 0..=serials {
        if let Some(row) = table.get(CampaignSerial(serial)) {
            shown.insert(format!("campaign {serial:05}"), format!("{row:?}"));
        }
    }
    shown
}
