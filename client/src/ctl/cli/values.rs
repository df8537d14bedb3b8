//! Parsers of flag values: sizes, caps, zones, and values that can be taken away.

use std::time::Duration;

use slotwise_proto::json;
use slotwise_proto::v1::{AdZone, CapLevel, FrequencyCap, RequestContext, Size};

use crate::ctl::money::parse_micros;
use crate::ctl::time::parse_span;

/// A value to set, or `none`, which takes the present one away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting<T> {
    /// This one from now on.
    Set(T),
    /// None from now on.
    Remove,
}

impl<T> Setting<T> {
    /// The value to store.
    pub(crate) fn value(self) -> Option<T> {
        match self {
            Setting::Set(value) => Some(value),
            Setting::Remove => None,
        }
    }
}

/// An amount of money, or `none`.
pub(crate) fn money_setting(text: &str) -> Result<Setting<i64>, String> {
    setting(text, parse_micros)
}

/// A time, or `none`.
pub(crate) fn when_setting(text: &str) -> Result<Setting<crate::ctl::time::When>, String> {
    setting(text, str::parse)
}

fn setting<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Setting<T>, String> {
    match text {
        "none" => Ok(Setting::Remove),
        value => parse(value).map(Setting::Set),
    }
}

/// A deadline: longer than nothing.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match parse_span(text)? {
        Duration::ZERO => Err("no call is answered in no time".to_owned()),
        timeout => Ok(timeout),
    }
}

/// A size in pixels: `300x250`.
pub(crate) fn size(text: &str) -> Result<Size, String> {
    let bad = || "a size is WIDTHxHEIGHT, such as 300x250".to_owned();
    let (width, height) = text.split_once('x').ok_or_else(bad)?;
    let side = |text: &str| match text.parse::<u32>() {
        Ok(side) if side > 0 && !text.starts_with('+') => Ok(side),
        _ => Err(bad()),
    };
    Ok(Size { width: side(width)?, height: side(height)? })
}

/// What is known of a visit: `{"country":"AT"}`. In a box, as it is larger than all other flags.
pub(crate) fn context(text: &str) -> Result<Box<RequestContext>, String> {
    json::from_str(text).map(Box::new).map_err(|error| error.to_string())
}

/// A frequency cap: `campaign:3/24h` is at most three showings of the campaign in any 24 hours.
pub(crate) fn cap(text: &str) -> Result<FrequencyCap, String> {
    let bad = || "a cap is LEVEL:N/SPAN, such as campaign:3/24h".to_owned();
    let (level, rest) = text.split_once(':').ok_or_else(bad)?;
    let (impressions, window) = rest.split_once('/').ok_or_else(bad)?;
    let level = match level {
        "ad" => CapLevel::Ad,
        "campaign" => CapLevel::Campaign,
        "advertiser" => CapLevel::Advertiser,
        other => return Err(format!("\"{other}\" is not one of ad, campaign, advertiser")),
    };
    let impressions_max = match impressions.parse() {
        Ok(0) => return Err("a cap of 0 would never show the ad: pause it instead".to_owned()),
        Ok(impressions_max) if !impressions.starts_with('+') => impressions_max,
        _ => return Err(bad()),
    };
    let window = parse_span(window)?;
    if window.is_zero() {
        return Err("a cap's span is longer than nothing".to_owned());
    }
    let window = prost_types::Duration::try_from(window).map_err(|_| bad())?;
    Ok(FrequencyCap { level: level.into(), impressions_max, window: Some(window) })
}

/// A zone of an ad: `news/home-top`, or `news/home-top=2.50` with its own eCPM. The site ends at the first
/// slash; what follows the last equals sign is an eCPM only if it is an amount.
pub(crate) fn ad_zone(text: &str) -> Result<AdZone, String> {
    let (place, ecpm_micros) = match text.rsplit_once('=') {
        Some((place, amount)) if parse_micros(amount).is_ok() => (place, parse_micros(amount).ok()),
        _ => (text, None),
    };
    match place.split_once('/') {
        Some((site, zone)) if !site.is_empty() && !zone.is_empty() => {
            Ok(AdZone { site_id: site.into(), zone_id: zone.into(), ecpm_micros, price: None })
        }
        _ => Err("a zone is SITE/ZONE or SITE/ZONE=ECPM, such as news/home-top=2.50".to_owned()),
    }
}

/// A zone of a page, and how many ads it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) site: String,
    pub(crate) zone: String,
    pub(crate) count: u32,
}

/// A zone of a page: `news/home-top`, or `news/home-top=3` for three ads. The site ends at the
/// first slash; what follows the last equals sign is a count only if it is a number.
pub(crate) fn place(text: &str) -> Result<Place, String> {
    let counted = text.rsplit_once('=').and_then(|(place, n)| Some((place, n.parse().ok()?)));
    let (place, count) = counted.unwrap_or((text, 1));
    match place.split_once('/') {
        Some((site, zone)) if !site.is_empty() && !zone.is_empty() => {
            Ok(Place { site: site.into(), zone: zone.into(), count })
        }
        _ => Err("a zone is SITE/ZONE or SITE/ZONE=COUNT, such as news/home-top=3".to_owned()),
    }
}

/// A value with its name: `section=sport`. The name ends at the first equals sign.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a value is NAME=VALUE, such as section=sport".to_owned()),
    }
}

/// A repeated flag's values; an empty value stands for none, so that a list can be emptied.
pub(crate) fn list(values: &[String]) -> Vec<String> {
    values.iter().filter(|value| !value.is_empty()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_have_level_number_and_span() {
        let window_s = |text| cap(text).map(|c| c.window.unwrap().seconds);
        let parsed = cap("campaign:3/24h").unwrap();
        assert_eq!((parsed.level(), parsed.impressions_max), (CapLevel::Campaign, 3));
        assert_eq!(window_s("campaign:3/24h"), Ok(86_400));
        assert_eq!(window_s("ad:1/1d"), Ok(86_400));
        assert_eq!(window_s("advertiser:20/1h"), Ok(3_600));
        assert!(cap("site:1/1d").unwrap_err().contains("advertiser"));
        for bad in ["", "ad", "ad:1", "ad:0/1d", "ad:x/1d", "ad:+1/1d", "ad:1/0s", "ad:1/24", "1/d"]
        {
            assert!(cap(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_zone_may_have_its_own_ecpm() {
        let parts =
            |text| ad_zone(text).map(|zone: AdZone| (zone.site_id, zone.zone_id, zone.ecpm_micros));
        let expected = |site: &str, zone: &str, ecpm| Ok((site.into(), zone.into(), ecpm));
        assert_eq!(parts("news/top"), expected("news", "top", None));
        assert_eq!(parts("news/top=2.5"), expected("news", "top", Some(2_500_000)));
        assert_eq!(parts("news/a/b=0"), expected("news", "a/b", Some(0)));
        assert_eq!(parts("news/=1+1"), expected("news", "=1+1", None));
        for bad in ["", "news", "news/", "/top", "=1"] {
            assert!(parts(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_zone_of_a_page_may_have_a_count() {
        let parts = |text| place(text).map(|place| (place.site, place.zone, place.count));
        let expected = |site: &str, zone: &str, count| Ok((site.into(), zone.into(), count));
        assert_eq!(parts("news/top"), expected("news", "top", 1));
        assert_eq!(parts("news/top=3"), expected("news", "top", 3));
        assert_eq!(parts("news/a/b=c"), expected("news", "a/b=c", 1));
        for bad in ["", "news", "news/", "/top", "=1"] {
            assert!(place(bad).is_err(), "{bad}");
        }
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(pair("a="), Ok(("a".into(), String::new())));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }

    #[test]
    fn a_context_is_json_of_the_contract() {
        let parsed = context(r#"{"country":"AT","values":{"section":"sport"}}"#).unwrap();
        assert_eq!((parsed.country.as_str(), parsed.values["section"].as_str()), ("AT", "sport"));
        assert!(context(r#"{"contry":"AT"}"#).unwrap_err().contains("contry"));
        assert!(context("AT").is_err());
    }

    #[test]
    fn sizes_settings_and_lists() {
        assert_eq!(size("300x250"), Ok(Size { width: 300, height: 250 }));
        for bad in ["", "300", "0x250", "300x", "-1x1", "+1x1", "300X250", "1x2x3"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(money_setting("none"), Ok(Setting::Remove));
        assert_eq!(money_setting("5.25"), Ok(Setting::Set(5_250_000)));
        assert!(money_setting("nothing").is_err());
        assert_eq!(list(&[String::new()]), Vec::<String>::new());
        assert!(timeout("0s").is_err());
    }
}
