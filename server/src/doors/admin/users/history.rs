//! A profile as it is told: showings hold serials, which are turned back into ids.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use slotwise_core::index::Key;
use slotwise_core::model::{
    AdSerial, AdUnitId, AdvertiserId, CampaignId, CampaignSerial, Exposure, Profile, SiteId,
    ZoneId, ZoneSerial,
};
use slotwise_proto::v1;

use super::Admin;
use crate::doors::refusal::Refusal;
use crate::ports::{CatalogStore, ListQuery, StoreError};
use crate::time::timestamp;

/// Ads that are looked at together.
const PAGE: usize = 1_000;

/// The profile, or only what `advertiser` may see of it. An id is empty where what was shown is
/// no longer in the catalogue. A place that is only held was not shown to anybody yet.
pub(super) async fn told(
    admin: &Admin,
    profile: &Profile,
    advertiser: Option<&AdvertiserId>,
) -> Result<v1::Profile, Refusal> {
    let mut lists: Vec<_> = profile
        .lists()
        .filter(|(_, list)| list.iter().any(|shown| !shown.is_held))
        .filter(|(of, _)| advertiser.is_none_or(|only| only == *of))
        .collect();
    lists.sort_by_key(|(of, _)| of.as_str());
    let names = Names::of(admin, lists.iter().flat_map(|(_, list)| *list)).await?;
    let histories = lists.into_iter().map(|(of, list)| {
        let mut newest_first: Vec<&Exposure> =
            list.iter().rev().filter(|shown| !shown.is_held).collect();
        newest_first.sort_by_key(|shown| Reverse(shown.at_us));
        let seen = newest_first.into_iter().map(|shown| names.seen(shown)).collect();
        v1::AdvertiserHistory { advertiser_id: of.to_string(), seen }
    });
    let segments = profile.segments().iter().map(|segment| v1::Segment {
        name: segment.name.clone(),
        expires_at: Some(timestamp(segment.expires_us)),
    });
    Ok(v1::Profile { segments: segments.collect(), histories: histories.collect() })
}

/// The ids behind the serials of some showings.
#[derive(Default)]
struct Names {
    campaigns: HashMap<CampaignSerial, CampaignId>,
    ads: HashMap<AdSerial, AdUnitId>,
    zones: HashMap<ZoneSerial, (SiteId, ZoneId)>,
}

impl Names {
    /// Campaigns and zones are in the index, whole; of the ads it holds those only that are in a
    /// zone, so they are looked up in the store.
    async fn of(
        admin: &Admin,
        shown: impl Iterator<Item = &Exposure> + Clone,
    ) -> Result<Self, StoreError> {
        let mut names = Self::default();
        let mut ads: HashMap<CampaignSerial, HashSet<AdSerial>> = HashMap::new();
        for shown in shown.clone() {
            ads.entry(shown.campaign).or_default().insert(shown.ad);
        }
        let zones: HashSet<ZoneSerial> = shown.map(|shown| shown.zone).collect();
        if !zones.is_empty() {
            for block in admin.index.blocks().filter(|block| zones.contains(&block.zone.serial)) {
                let zone = &block.zone;
                names.zones.insert(zone.serial, (zone.site.clone(), zone.id.clone()));
            }
        }
        let campaigns = admin.index.campaigns();
        for (serial, ads) in ads {
            if let Some(row) = campaigns.table().get(serial) {
                let id = row.campaign.id.clone();
                names.find_ads(admin.catalog.store().as_ref(), &id, ads).await?;
                names.campaigns.insert(serial, id);
            }
        }
        Ok(names)
    }

    /// Looks through the campaign's ads until all of `wanted` are found.
    async fn find_ads(
        &mut self,
        store: &dyn CatalogStore,
        campaign: &CampaignId,
        mut wanted: HashSet<AdSerial>,
    ) -> Result<(), StoreError> {
        let mut after = Key::Ad(campaign.clone(), "".into());
        while !wanted.is_empty() {
            let (owner, id_prefix) = (String::new(), String::new());
            let query = ListQuery { after: after.clone(), owner, id_prefix, limit: PAGE };
            let page = store.list(&query).await?;
            for row in &page {
                let serial = AdSerial(row.serial);
                if let Key::Ad(_, unit) = &row.key
                    && wanted.remove(&serial)
                {
                    self.ads.insert(serial, unit.clone());
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = last.key.clone(),
                _ => break,
            }
        }
        Ok(())
    }

    fn seen(&self, shown: &Exposure) -> v1::SeenAd {
        let (site_id, zone_id) = match self.zones.get(&shown.zone) {
            Some((site, zone)) => (site.to_string(), zone.to_string()),
            None => (String::new(), String::new()),
        };
        let campaign = self.campaigns.get(&shown.campaign);
        let ad = self.ads.get(&shown.ad);
        v1::SeenAd {
            campaign_id: campaign.map(ToString::to_string).unwrap_or_default(),
            ad_unit_id: ad.map(ToString::to_string).unwrap_or_default(),
            site_id,
            zone_id,
            at: Some(timestamp(shown.at_us)),
            // Clicks are not counted yet.
            clicked: false,
        }
    }
}
