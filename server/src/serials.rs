//! Who is meant by the serials in a token: names, landing URLs and markup, as this node knows
//! them. The refresher fills it; doors and reports read it, and ask the store for what is not
//! here any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use dashmap::DashMap;
use slotwise_core::model::{
    AccountId, AccountSerial, AdSerial, AdUnitId, CampaignId, SiteId, ZoneId, ZoneSerial,
};
use slotwise_proto::v1::catalog_record::Record;

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAccount {
    /// Its number.
    pub serial: AccountSerial,
    /// Its id.
    pub id: AccountId,
    /// The IANA zone that its days are cut in; empty: UTC.
    pub time_zone: Box<str>,
    /// ISO 4217.
    pub currency: Box<str>,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedZone {
    /// Its number.
    pub serial: ZoneSerial,
    /// The site it is on.
    pub site: SiteId,
    /// Its name there.
    pub id: ZoneId,
}

/// An ad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAd {
    /// Its number.
    pub serial: AdSerial,
    /// Its campaign.
    pub campaign: CampaignId,
    /// Its name there.
    pub unit: AdUnitId,
    /// Where a click on it leads, as it was written.
    pub landing_url: Box<str>,
    /// What a page shows; empty: the page makes its own.
    pub markup: Box<str>,
}

/// What a node knows by serial. Readers and the one writer hold a shard's lock for moments.
#[derive(Default)]
pub struct Serials {
    accounts: DashMap<AccountSerial, Arc<NamedAccount>>,
    zones: DashMap<ZoneSerial, Arc<NamedZone>>,
    ads: DashMap<AdSerial, Arc<NamedAd>>,
    /// By campaign: a name never changes, so an ad is never moved.
    ads_of: DashMap<CampaignId, BTreeSet<AdSerial>>,
}

impl Serials {
    /// The account of this number.
    pub fn account(&self, serial: AccountSerial) -> Option<Arc<NamedAccount>> {
        self.accounts.get(&serial).map(|named| Arc::clone(&named))
    }

    /// The zone of this number.
    pub fn zone(&self, serial: ZoneSerial) -> Option<Arc<NamedZone>> {
        self.zones.get(&serial).map(|named| Arc::clone(&named))
    }

    /// The ad of this number.
    pub fn ad(&self, serial: AdSerial) -> Option<Arc<NamedAd>> {
        self.ads.get(&serial).map(|named| Arc::clone(&named))
    }

    /// Takes in what the catalogue has under `serial`; sites and campaigns are in no token.
    pub fn put(&self, serial: u32, record: Record) {
        match record {
            Record::Account(account) => self.put_account(NamedAccount {
                serial: AccountSerial(serial),
                id: account.account_id.as_str().into(),
                time_zone: account.time_zone.into(),
                currency: account.currency.into(),
            }),
            Record::Zone(zone) => self.put_zone(NamedZone {
                serial: ZoneSerial(serial),
                site: zone.site_id.as_str().into(),
                id: zone.zone_id.as_str().into(),
            }),
            Record::Ad(ad) => self.put_ad(NamedAd {
                serial: AdSerial(serial),
                campaign: ad.campaign_id.as_str().into(),
                unit: ad.ad_unit_id.as_str().into(),
                landing_url: ad.landing_url.into(),
                markup: ad.markup.into(),
            }),
            Record::Site(_) | Record::Campaign(_) => {}
        }
    }

    /// The ads of `campaign`, all that ever bore its name; of one name where `unit` is given.
    pub fn ads_of(&self, campaign: &CampaignId, unit: Option<&str>) -> Vec<Arc<NamedAd>> {
        let serials = self.ads_of.get(campaign).map(|serials| serials.clone()).unwrap_or_default();
        let ads = serials.into_iter().filter_map(|serial| self.ad(serial));
        ads.filter(|ad| unit.is_none_or(|unit| ad.unit.as_str() == unit)).collect()
    }

    /// Takes an account in, or what became of it.
    pub fn put_account(&self, account: NamedAccount) {
        self.accounts.insert(account.serial, Arc::new(account));
    }

    /// Takes a zone in.
    pub fn put_zone(&self, zone: NamedZone) {
        self.zones.insert(zone.serial, Arc::new(zone));
    }

    /// Takes an ad in, or what became of it.
    pub fn put_ad(&self, mut ad: NamedAd) {
        let mut of_campaign = self.ads_of.entry(ad.campaign.clone()).or_default();
        of_campaign.insert(ad.serial);
        // One text for all ads of a campaign.
        ad.campaign.clone_from(of_campaign.key());
        drop(of_campaign);
        self.ads.insert(ad.serial, Arc::new(ad));
    }
}
