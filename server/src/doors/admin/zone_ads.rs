//! ListZoneAds: what this node has for one zone, in eCPM order.

use slotwise_core::index::{Entry, Key, ZoneBlock};
use slotwise_proto::v1::{Ad, ListZoneAdsRequest, ListZoneAdsResponse};

use super::Admin;
use crate::catalog::{CatalogError, decode_token, encode_token, page_size};

/// Separates the parts of a place; no id holds it.
const SEPARATOR: char = '\u{1f}';

/// Every candidate of the zone, also those of campaigns that are paused or out of their flight.
/// Each ad's `ecpm_micros` is what it is ranked by in this zone.
pub(super) async fn list(
    admin: &Admin,
    request: &ListZoneAdsRequest,
) -> Result<ListZoneAdsResponse, CatalogError> {
    let limit = page_size(request.page_size)?;
    let after = decode_token(&request.page_token)?;
    let block = admin.index.zone(&request.site_id, &request.zone_id).ok_or_else(|| {
        let id = format!("{}/{}", request.site_id, request.zone_id);
        CatalogError::NotFound { kind: "zone", id }
    })?;
    let catalog_version = admin.index.campaigns().version;
    let mut entries: Vec<&Entry> = block.entries.iter().collect();
    entries.sort_by_cached_key(|entry| place(&block, entry));
    // The token is the place of the last entry, which may be gone by now.
    let start = match parse(&after) {
        Some(last) => entries.partition_point(|entry| place(&block, entry) <= last),
        None => 0,
    };
    let page: Vec<&Entry> = entries.iter().skip(start).take(limit).copied().collect();
    let next_page_token = match page.last() {
        Some(last) if start + page.len() < entries.len() => encode_token(&render(&block, last)),
        _ => String::new(),
    };
    let keys = page.iter().map(|e| Key::Ad(e.ad.campaign.clone(), e.ad.unit.clone()));
    let mut ads: Vec<Ad> = admin.catalog.get_all(&keys.collect::<Vec<_>>()).await?;
    for ad in &mut ads {
        let of = |entry: &&&Entry| {
            entry.ad.campaign.as_str() == ad.campaign_id && entry.ad.unit.as_str() == ad.ad_unit_id
        };
        if let Some(entry) = page.iter().find(of) {
            ad.ecpm_micros = Some(block.ecpm_micros(entry));
        }
    }
    Ok(ListZoneAdsResponse { ads, next_page_token, catalog_version })
}

/// Highest eCPM first, then by id.
type Place = (std::cmp::Reverse<i64>, String, String);

fn place(block: &ZoneBlock, entry: &Entry) -> Place {
    let (campaign, unit) = (entry.ad.campaign.to_string(), entry.ad.unit.to_string());
    (std::cmp::Reverse(block.ecpm_micros(entry)), campaign, unit)
}

fn render(block: &ZoneBlock, entry: &Entry) -> String {
    let (ecpm, campaign, unit) = place(block, entry);
    format!("{}{SEPARATOR}{campaign}{SEPARATOR}{unit}", ecpm.0)
}

fn parse(place: &str) -> Option<Place> {
    let mut parts = place.split(SEPARATOR);
    let ecpm = parts.next()?.parse().ok()?;
    Some((std::cmp::Reverse(ecpm), parts.next()?.to_owned(), parts.next()?.to_owned()))
}
