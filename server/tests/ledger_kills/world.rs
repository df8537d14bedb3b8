//! What is advertised: three zones of two sites, four campaigns that pay for different things, and
//! three ads of each of them in every zone. What an event costs is said here a second time, for
//! the sender's book.

use slotwise_proto::v1::EventKind;

/// Site and zone.
pub const ZONES: [(&str, &str); 3] = [("s", "top"), ("s", "side"), ("t", "top")];
pub const CAMPAIGNS: [&str; 4] = ["seen:1", "clicked:1", "bought:1", "free:1"];
pub const UNITS: [&str; 3] = ["a", "b", "c"];
pub const LANDING_URL: &str = "https://x.example/";

/// Where an ad was shown: the lowest level of the stats.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub site: String,
    pub zone: String,
    pub campaign: String,
    pub unit: String,
}

/// The catalogue, a JSON record for each object.
pub fn records() -> Vec<String> {
    let mut records = vec![r#"{"account":{"accountId":"a","currency":"EUR"}}"#.to_owned()];
    for site in ["s", "t"] {
        records.push(format!(r#"{{"site":{{"siteId":"{site}","accountId":"a"}}}}"#));
    }
    for (site, zone) in ZONES {
        records.push(format!(r#"{{"zone":{{"siteId":"{site}","zoneId":"{zone}"}}}}"#));
    }
    for (campaign, price) in CAMPAIGNS.into_iter().zip([
        r#","price":{"thousandImpressionsMicros":"2000000"}"#,
        r#","price":{"clickMicros":"350000"}"#,
        r#","price":{"conversionMicros":"5000000"}"#,
        "",
    ]) {
        records.push(format!(
            r#"{{"campaign":{{"campaignId":"{campaign}","accountId":"a"{price}}}}}"#
        ));
        for unit in UNITS {
            records.push(ad(campaign, unit));
        }
    }
    records
}

/// In the second site a click is cheaper.
fn ad(campaign: &str, unit: &str) -> String {
    let zone = |(site, zone): (&str, &str)| {
        let is_cheaper = campaign == "clicked:1" && site == "t";
        let price = if is_cheaper { r#","price":{"clickMicros":"90000"}"# } else { "" };
        format!(r#"{{"siteId":"{site}","zoneId":"{zone}"{price}}}"#)
    };
    let zones = ZONES.map(zone).join(",");
    format!(
        r#"{{"ad":{{"campaignId":"{campaign}","adUnitId":"{unit}","zones":[{zones}],"ecpmMicros":"1000000","landingUrl":"{LANDING_URL}"}}}}"#
    )
}

/// What an event costs, in nanos.
pub fn price_nanos(cell: &Cell, kind: EventKind) -> i64 {
    match (cell.campaign.as_str(), kind) {
        // A thousandth of what a thousand cost.
        ("seen:1", EventKind::Impression) => 2_000_000,
        ("clicked:1", EventKind::Click) if cell.site == "t" => 90_000_000,
        ("clicked:1", EventKind::Click) => 350_000_000,
        ("bought:1", EventKind::Conversion) => 5_000_000_000,
        _ => 0,
    }
}
