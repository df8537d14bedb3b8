//! Ads: where they serve, what they are ranked by, and where a click leads.

use std::collections::HashSet;

use slotwise_core::model::{Ad, AdSerial, Placement, Price, SiteId, ZoneId, ZonePrice};
use slotwise_proto::v1;
use url::Url;

use super::Checker;
use super::campaign;
use crate::limits::{LANDING_URL_BYTES_MAX, MARKUP_BYTES_MAX, ZONES_OF_AD_MAX};

/// Stands in a landing URL for the click's own token.
const CLICK_TOKEN: &str = "{click_token}";

pub(super) fn ad(ad: &v1::Ad, serial: u32, checker: &mut Checker) -> Ad {
    checker.id("campaign_id", &ad.campaign_id);
    checker.id("ad_unit_id", &ad.ad_unit_id);
    if let Some(micros) = ad.ecpm_micros {
        checker.price_micros("ecpm_micros", micros);
    }
    if let Err(why) = landing_url(&ad.landing_url) {
        checker.refuse("landing_url", why);
    }
    if ad.markup.len() > MARKUP_BYTES_MAX {
        let len = ad.markup.len();
        checker.refuse("markup", format!("has {len} bytes; the limit is {MARKUP_BYTES_MAX}"));
    }
    let (placements, zone_prices) = placements(ad, checker);
    Ad {
        serial: AdSerial(serial),
        campaign: ad.campaign_id.as_str().into(),
        unit: ad.ad_unit_id.as_str().into(),
        placements,
        keywords: checker.keywords("keywords", &ad.keywords),
        excluded_keywords: checker.keywords("excluded_keywords", &ad.excluded_keywords),
        size: ad.size.as_ref().map(|size| checker.size("size", size)),
        zone_prices,
    }
}

/// Where it serves, and the prices that zones have of their own.
///
/// Of what it is ranked by the first that is set decides: the zone's own eCPM, the ad's, the zone's
/// own price per thousand; and then the campaign's, which the index looks up.
fn placements(ad: &v1::Ad, checker: &mut Checker) -> (Box<[Placement]>, Box<[ZonePrice]>) {
    checker.len("zones", ad.zones.len(), ZONES_OF_AD_MAX);
    let mut seen = HashSet::with_capacity(ad.zones.len());
    let mut placements = Vec::with_capacity(ad.zones.len());
    let mut prices = Vec::new();
    for (at, zone) in ad.zones.iter().enumerate() {
        let field = format!("zones[{at}]");
        checker.id(&format!("{field}.site_id"), &zone.site_id);
        checker.id(&format!("{field}.zone_id"), &zone.zone_id);
        if !seen.insert((&zone.site_id, &zone.zone_id)) {
            checker.refuse(format!("{field}.zone_id"), "is named twice");
        }
        if let Some(micros) = zone.ecpm_micros {
            checker.price_micros(&format!("{field}.ecpm_micros"), micros);
        }
        let own_price = campaign::price(&format!("{field}.price"), zone.price.as_ref(), checker);
        let per_thousand = own_price.and_then(Price::thousand_impressions_micros);
        let ecpm_micros = zone.ecpm_micros.or(ad.ecpm_micros).or(per_thousand);
        if ecpm_micros.is_none() && own_price.is_some() {
            checker.refuse(
                format!("{field}.ecpm_micros"),
                "is missing: neither the ad has one nor is its price here per thousand",
            );
        }
        let (site, id) = (SiteId::from(&*zone.site_id), ZoneId::from(&*zone.zone_id));
        let (of, zone_id) = (site.clone(), id.clone());
        prices.extend(own_price.map(|price| ZonePrice { site: of, zone: zone_id, price }));
        placements.push(Placement { site, zone: id, ecpm_micros });
    }
    prices.sort_unstable_by(|a, b| (&a.site, &a.zone).cmp(&(&b.site, &b.zone)));
    (placements.into(), prices.into())
}

/// Whether a click may be sent to `url`, byte for byte as it stands.
///
/// Stricter than browsers are: they also follow `https:/x`, `//x` and backslashes, to places
/// that the reader of the catalogue did not see.
fn landing_url(url: &str) -> Result<(), String> {
    if url.is_empty() {
        return Err("must not be empty".to_owned());
    }
    if url.len() > LANDING_URL_BYTES_MAX {
        return Err(format!("has {} bytes; the limit is {LANDING_URL_BYTES_MAX}", url.len()));
    }
    if let Some(bad) = url.chars().find(|c| !c.is_ascii_graphic()) {
        return Err(format!("holds {bad:?}: percent-encode it"));
    }
    if url.contains('\\') {
        return Err("holds a backslash".to_owned());
    }
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| url.get(..scheme.len()).filter(|s| s.eq_ignore_ascii_case(scheme)))
        .map(|scheme| &url[scheme.len()..])
        .ok_or("must begin with http:// or https://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains(['@', '{', '}']) {
        return Err("must name its host right after the scheme, without a user".to_owned());
    }
    let parsed = Url::parse(&url.replace(CLICK_TOKEN, "t"))
        .map_err(|error| format!("is no URL: {error}"))?;
    parsed.has_host().then_some(()).ok_or_else(|| "names no host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::landing_url;

    #[test]
    fn only_plain_web_addresses_are_landing_urls() {
        let good = [
            "https://shop.example/",
            "http://shop.example:8080/a?b=c#d",
            "HTTPS://shop.example",
            "https://shop.example/?t={click_token}",
            "https://xn--mller-kva.example/%20",
            "http://[2001:db8::1]/x",
        ];
        for url in good {
            assert_eq!(landing_url(url), Ok(()), "{url}");
        }
        let bad = [
            "",
            "//evil.example",
            "https:/evil.example",
            "https:///evil.example",
            "https:evil.example",
            "javascript:alert(1)",
            "data:text/html,x",
            "ftp://shop.example/",
            "https://shop.example\\@evil.example",
            "https:\\\\evil.example",
            "https://shop.example/\r\nSet-Cookie: a=b",
            "https://shop.example/\n",
            " https://shop.example/",
            "https://shop.example/a b",
            "https://shop.example@evil.example/",
            "https://{click_token}.example/",
            "https://?x",
            "https://shop.exämple/",
            "https://shop.example:99999/",
            "http://",
        ];
        for url in bad {
            assert!(landing_url(url).is_err(), "{url:?}");
        }
        assert!(landing_url(&format!("https://a.example/{}", "x".repeat(2_100))).is_err());
    }
}
