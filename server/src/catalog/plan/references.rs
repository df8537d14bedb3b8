//! Whether each object fits what it names: that it is there, and belongs together.

use std::collections::{HashMap, HashSet};

use slotwise_core::index::{Index, Key};
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::{Account, Ad, AdZone, Campaign, price};

use super::Numbered;
use crate::catalog::object::{Object, key_of};
use crate::catalog::problem::Problem;
use crate::limits::ADS_IN_ZONE_MAX;
use crate::ports::Row;

/// The catalogue as it will be: the staged records over what stays of the stored ones.
pub(super) struct View<'p> {
    pub(super) records: &'p [Record],
    /// Each staged record's number, from 1.
    pub(super) staged: &'p HashMap<Key, u32>,
    /// What stays beside the staged records; nothing where they replace all.
    pub(super) stored: Option<&'p HashMap<Key, (Row, Record)>>,
    /// What is stored now under the keys that the records are or name.
    pub(super) before: &'p HashMap<Key, (Row, Record)>,
    pub(super) places: Places<'p>,
    pub(super) index: &'p Index,
}

/// The sites and zones as they will be, by borrowed ids: ads ask for them by the million.
#[derive(Default)]
pub(super) struct Places<'p> {
    owners: HashMap<&'p str, &'p str>,
    zones: HashSet<(&'p str, &'p str)>,
}

/// The keys of all objects that `records` are or name, each once.
pub(super) fn keys(records: &[Record]) -> Vec<Key> {
    let mut keys: HashSet<Key> = HashSet::with_capacity(records.len());
    // Ads name the same zones over and over: told apart before anything is copied.
    let (mut sites, mut zones) = (HashSet::new(), HashSet::new());
    for record in records {
        keys.insert(key_of(record));
        match record {
            Record::Account(_) => {}
            Record::Site(site) => drop(keys.insert(Key::Account(site.account_id.as_str().into()))),
            Record::Zone(zone) => drop(sites.insert(zone.site_id.as_str())),
            Record::Campaign(campaign) => {
                keys.insert(Key::Account(campaign.account_id.as_str().into()));
            }
            Record::Ad(ad) => {
                keys.insert(Key::Campaign(ad.campaign_id.as_str().into()));
                sites.extend(ad.zones.iter().map(|zone| zone.site_id.as_str()));
                zones.extend(ad.zones.iter().map(place));
            }
        }
    }
    keys.extend(sites.into_iter().map(|site| Key::Site(site.into())));
    keys.extend(zones.into_iter().map(|(site, zone)| Key::Zone(site.into(), zone.into())));
    keys.into_iter().collect()
}

/// A campaign's price per thousand impressions, where it has one.
pub(super) fn per_thousand(campaign: &Campaign) -> Option<i64> {
    match campaign.price?.per? {
        price::Per::ThousandImpressionsMicros(micros) => Some(micros),
        _ => None,
    }
}

impl View<'_> {
    /// What does not fit, record by record.
    pub(super) fn problems(&self) -> Vec<Numbered> {
        let mut problems = Vec::new();
        for (record_number, record) in (1..).zip(self.records) {
            let found = match record {
                Record::Account(account) => self.account(account),
                Record::Site(site) => {
                    let stays = |before: &Record| match before {
                        Record::Site(before) => Some(before.account_id.clone()),
                        _ => None,
                    };
                    self.in_account(record, &site.account_id, stays)
                }
                Record::Zone(zone) => {
                    self.exists(Key::Site(zone.site_id.as_str().into()), "site_id")
                }
                Record::Campaign(campaign) => self.campaign(record, campaign),
                Record::Ad(ad) => self.ad(ad),
            };
            problems.extend(found.into_iter().map(|problem| Numbered { record_number, problem }));
        }
        problems.extend(self.full_zones());
        problems
    }

    fn find(&self, key: &Key) -> Option<&Record> {
        if let Some(number) = self.staged.get(key) {
            return self.records.get(*number as usize - 1);
        }
        self.stored?.get(key).map(|(_, record)| record)
    }

    fn exists(&self, key: Key, field: &str) -> Vec<Problem> {
        match self.find(&key) {
            Some(_) => Vec::new(),
            None => vec![missing(&key, field)],
        }
    }

    fn account(&self, account: &Account) -> Vec<Problem> {
        let Some((_, Record::Account(before))) = self.before.get(&account.key()) else {
            return Vec::new();
        };
        let fixed = [
            ("time_zone", &before.time_zone, &account.time_zone),
            ("currency", &before.currency, &account.currency),
        ];
        let changes = |(field, before, after): (&str, &String, &String)| {
            (!before.is_empty() && before != after).then(|| {
                Problem::precondition(field, format!("is {before} and never changes once set"))
            })
        };
        fixed.into_iter().filter_map(changes).collect()
    }

    /// The account is there, and is the one that the object has always been of.
    fn in_account(
        &self,
        record: &Record,
        account_id: &str,
        account_before: impl Fn(&Record) -> Option<String>,
    ) -> Vec<Problem> {
        let mut problems = self.exists(Key::Account(account_id.into()), "account_id");
        let before =
            self.before.get(&key_of(record)).and_then(|(_, record)| account_before(record));
        if let Some(before) = before.filter(|before| before != account_id) {
            let message = format!("is {before} and never changes");
            problems.push(Problem::precondition("account_id", message));
        }
        problems
    }

    fn campaign(&self, record: &Record, campaign: &Campaign) -> Vec<Problem> {
        let stays = |before: &Record| match before {
            Record::Campaign(before) => Some(before.account_id.clone()),
            _ => None,
        };
        let mut problems = self.in_account(record, &campaign.account_id, stays);
        if let (Some(stored), None) = (self.stored, per_thousand(campaign)) {
            let ads = super::ads_of(stored, &campaign.campaign_id);
            let left = ads.filter(|ad| !self.staged.contains_key(&ad.key()));
            if let Some(ad) = left.into_iter().find(|ad| ranks_by_campaign(ad)) {
                let message = format!(
                    "must stay per thousand impressions: ad {} has no ecpm_micros of its own",
                    ad.ad_unit_id
                );
                problems.push(Problem::precondition("price", message));
            }
        }
        problems
    }

    fn ad(&self, ad: &Ad) -> Vec<Problem> {
        let key = Key::Campaign(ad.campaign_id.as_str().into());
        let Some(Record::Campaign(campaign)) = self.find(&key) else {
            return vec![missing(&key, "campaign_id")];
        };
        let mut problems = Vec::new();
        if ranks_by_campaign(ad) && per_thousand(campaign).is_none() {
            let message = "is missing, and its campaign has no price per thousand impressions";
            problems.push(Problem::invalid("ecpm_micros", message));
        }
        for (at, zone) in ad.zones.iter().enumerate() {
            let (field, (site_id, zone_id)) = (format!("zones[{at}].zone_id"), place(zone));
            if !self.places.zones.contains(&(site_id, zone_id)) {
                let message = format!("there is no zone {site_id}/{zone_id}");
                problems.push(Problem::precondition(field, message));
                continue;
            }
            let owner = self.places.owners.get(site_id).copied().unwrap_or("no account");
            if owner != campaign.account_id {
                let message = format!(
                    "{site_id}/{zone_id} is a zone of {owner}; the campaign is of {}",
                    campaign.account_id
                );
                problems.push(Problem::precondition(field, message));
            }
        }
        problems
    }

    /// Zones that would hold too many ads. What the index shows may lag by one change; the
    /// limit guards the memory of the nodes, not an invariant.
    fn full_zones(&self) -> Vec<Numbered> {
        let mut new_ads: HashMap<(&str, &str), (usize, u32)> = HashMap::new();
        for (record_number, record) in (1..).zip(self.records) {
            let Record::Ad(ad) = record else { continue };
            let before: HashSet<_> = match self.stored.and_then(|stored| stored.get(&ad.key())) {
                Some((_, Record::Ad(before))) => before.zones.iter().map(place).collect(),
                _ => HashSet::new(),
            };
            for zone in ad.zones.iter().map(place).filter(|zone| !before.contains(zone)) {
                let (len, last) = new_ads.entry(zone).or_default();
                (*len, *last) = (*len + 1, record_number);
            }
        }
        let over = |((site, zone), (new, record_number)): ((&str, &str), (usize, u32))| {
            let now = self.stored.and_then(|_| self.index.zone(site, zone));
            let len = now.map_or(0, |block| block.entries.len()) + new;
            (len > ADS_IN_ZONE_MAX).then(|| {
                let message =
                    format!("{site}/{zone} would hold {len} ads; the limit is {ADS_IN_ZONE_MAX}");
                Numbered { record_number, problem: Problem::precondition("zones", message) }
            })
        };
        new_ads.into_iter().filter_map(over).collect()
    }
}

impl<'p> Places<'p> {
    /// Of what is stored and stays, and of the staged records over it.
    pub(super) fn new(
        records: &'p [Record],
        stored: Option<&'p HashMap<Key, (Row, Record)>>,
    ) -> Self {
        let mut places = Self::default();
        let stored = stored.into_iter().flat_map(HashMap::values).map(|(_, record)| record);
        for record in stored.chain(records) {
            match record {
                Record::Site(site) => {
                    places.owners.insert(&site.site_id, &site.account_id);
                }
                Record::Zone(zone) => {
                    places.zones.insert((&zone.site_id, &zone.zone_id));
                }
                _ => {}
            }
        }
        places
    }
}

/// Whether the ad's rank anywhere is its campaign's price per thousand.
fn ranks_by_campaign(ad: &Ad) -> bool {
    let has_price = |zone: &AdZone| zone.price.is_some_and(|price| price.per.is_some());
    let by_campaign = |zone: &AdZone| zone.ecpm_micros.is_none() && !has_price(zone);
    ad.ecpm_micros.is_none() && (ad.zones.is_empty() || ad.zones.iter().any(by_campaign))
}

fn place(zone: &AdZone) -> (&str, &str) {
    (&zone.site_id, &zone.zone_id)
}

fn missing(key: &Key, field: &str) -> Problem {
    Problem::precondition(field, format!("there is no {} {key}", key.kind()))
}
