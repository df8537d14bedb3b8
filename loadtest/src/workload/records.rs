//! The catalogue as records of the contract, in the order in which they are imported.

use prost_types::Duration;
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::price::Per;
use slotwise_proto::v1::{
    Account, Ad, AdZone, Campaign, CapLevel, CatalogRecord, FrequencyCap, Price, Site, Size, Zone,
};

use super::{ACCOUNT, Catalogue, ad_unit, campaign, is_capped, landing_url, site, word, zone};

/// What every campaign pays for a thousand impressions, in micros. What an ad is ranked by is its
/// own.
const PRICE_MICROS: i64 = 2_000_000;
/// A day.
const CAP_WINDOW_S: i64 = 86_400;
const SIZE: Size = Size { width: 300, height: 250 };

/// All records: account, sites, zones, campaigns, ads.
pub(crate) fn records(catalogue: &Catalogue) -> impl Iterator<Item = CatalogRecord> + '_ {
    let shape = &catalogue.shape;
    let account = Account {
        account_id: ACCOUNT.to_owned(),
        currency: "EUR".to_owned(),
        ..Account::default()
    };
    let sites = (0..shape.sites).map(|number| Site {
        site_id: site(shape, number),
        account_id: ACCOUNT.to_owned(),
        ..Site::default()
    });
    let zones = (0..shape.zones).map(|number| Zone {
        site_id: site(shape, number),
        zone_id: zone(number),
        sizes: vec![SIZE],
        ..Zone::default()
    });
    let campaigns = (0..shape.campaigns).map(|number| campaign_of(shape.cap, number));
    let ads = (0..shape.zones).flat_map(move |zone| {
        (0..shape.ads).filter_map(move |number| ad_of(catalogue, zone, number))
    });
    std::iter::once(Record::Account(account))
        .chain(sites.map(Record::Site))
        .chain(zones.map(Record::Zone))
        .chain(campaigns.map(Record::Campaign))
        .chain(ads.map(Record::Ad))
        .map(|record| CatalogRecord { record: Some(record) })
}

fn campaign_of(cap: u32, number: u32) -> Campaign {
    let cap = FrequencyCap {
        level: CapLevel::Campaign.into(),
        impressions_max: cap,
        window: Some(Duration { seconds: CAP_WINDOW_S, nanos: 0 }),
    };
    Campaign {
        campaign_id: campaign(number),
        account_id: ACCOUNT.to_owned(),
        price: Some(Price { per: Some(Per::ThousandImpressionsMicros(PRICE_MICROS)) }),
        caps: if is_capped(number) { vec![cap] } else { Vec::new() },
        ..Campaign::default()
    }
}

fn ad_of(catalogue: &Catalogue, zone_number: u32, number: u32) -> Option<Ad> {
    let ad = catalogue.ad(zone_number, number)?;
    let (campaign_id, ad_unit_id) = (campaign(ad.campaign), ad_unit(zone_number, number));
    let words = catalogue.words(zone_number, number);
    Some(Ad {
        zones: vec![AdZone {
            site_id: site(&catalogue.shape, zone_number),
            zone_id: zone(zone_number),
            ..AdZone::default()
        }],
        ecpm_micros: Some(ad.ecpm_micros),
        keywords: words.iter().map(|number| word(u32::from(*number))).collect(),
        landing_url: landing_url(&campaign_id, &ad_unit_id, "{click_token}"),
        size: Some(SIZE),
        campaign_id,
        ad_unit_id,
        ..Ad::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::shape;

    #[test]
    fn the_records_are_what_the_shape_says() {
        let catalogue = Catalogue::new(&shape()).unwrap();
        let mut counts = [0_u32; 5];
        let mut capped = 0;
        for record in records(&catalogue) {
            match record.record.unwrap() {
                Record::Account(_) => counts[0] += 1,
                Record::Site(_) => counts[1] += 1,
                Record::Zone(_) => counts[2] += 1,
                Record::Campaign(campaign) => {
                    counts[3] += 1;
                    capped += u32::from(!campaign.caps.is_empty());
                }
                Record::Ad(ad) => {
                    counts[4] += 1;
                    assert_eq!(ad.keywords.len(), 3);
                }
            }
        }
        assert_eq!((counts, capped), ([1, 2, 5, 40, 1_000], 20));
    }
}
