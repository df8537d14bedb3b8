//! Campaigns: flight, money, caps, targeting.

use slotwise_core::model::{
    Campaign, CampaignId, CampaignSerial, Cap, CapLevel, Flight, Names, Status,
};
use slotwise_proto::v1::{self, Pacing, price};

use super::Checker;
use crate::limits::{
    BUDGET_MICROS_MAX, CAMPAIGN_VALUES_MAX, CAP_IMPRESSIONS_MAX, CAPS_MAX, HISTORY,
    TARGETING_VALUES_MAX,
};

const DEVICE_TYPES: [&str; 5] = ["phone", "tablet", "desktop", "tv", "other"];
const HOURS_OF_WEEK: u32 = 7 * 24;

pub(super) fn campaign(
    campaign: &v1::Campaign,
    serial: u32,
    status: Status,
    checker: &mut Checker,
) -> Campaign {
    checker.id("campaign_id", &campaign.campaign_id);
    let halves = campaign.campaign_id.split_once(':');
    if !halves.is_some_and(|(advertiser, name)| !advertiser.is_empty() && !name.is_empty()) {
        checker.refuse("campaign_id", "must read <advertiser>:<campaign>");
    }
    checker.id("account_id", &campaign.account_id);
    if v1::CampaignStatus::try_from(campaign.status).is_err() {
        checker.refuse("status", format!("{} is no status", campaign.status));
    }
    checker.names("categories", &campaign.categories, CAMPAIGN_VALUES_MAX);
    checker.names("advertiser_domains", &campaign.advertiser_domains, CAMPAIGN_VALUES_MAX);
    for (at, domain) in campaign.advertiser_domains.iter().enumerate() {
        if domain.contains(['/', ':', ' ', '@']) {
            let field = format!("advertiser_domains[{at}]");
            checker.refuse(field, "must be a bare domain, such as \"shop.example\"");
        }
    }
    checker.names("competitive_labels", &campaign.competitive_labels, CAMPAIGN_VALUES_MAX);
    let id = CampaignId::from(campaign.campaign_id.as_str());
    Campaign {
        serial: CampaignSerial(serial),
        account: campaign.account_id.as_str().into(),
        advertiser: id.advertiser(),
        id,
        status,
        flight: flight(campaign, checker),
        tier: campaign.tier,
        caps: caps(&campaign.caps, checker),
        strict_caps: campaign.strict_caps,
        requires_user: campaign.requires_user,
        has_budget: has_budget(campaign.budget.as_ref(), checker),
        targeting: has_targeting(campaign.targeting.as_ref(), checker).then(Box::default),
        competitive_labels: Names::new(campaign.competitive_labels.iter().map(String::as_str)),
        thousand_impressions_micros: price("price", campaign.price.as_ref(), checker),
        categories: campaign.categories.clone(),
        advertiser_domains: campaign.advertiser_domains.clone(),
    }
}

/// Checks a price; the micros per thousand impressions where it is one of those.
pub(super) fn price(field: &str, price: Option<&v1::Price>, checker: &mut Checker) -> Option<i64> {
    let (name, micros) = match price?.per? {
        price::Per::ThousandImpressionsMicros(micros) => ("thousand_impressions_micros", micros),
        price::Per::ClickMicros(micros) => ("click_micros", micros),
        price::Per::ConversionMicros(micros) => ("conversion_micros", micros),
    };
    checker.price_micros(&format!("{field}.{name}"), micros);
    (name == "thousand_impressions_micros").then_some(micros)
}

fn flight(campaign: &v1::Campaign, checker: &mut Checker) -> Flight {
    let start = checker.instant("start_time", campaign.start_time.as_ref());
    let end = checker.instant("end_time", campaign.end_time.as_ref());
    if let (Some(start), Some(end)) = (start, end) {
        checker.require(start < end, "end_time", "must be later than start_time");
    }
    let open = Flight::OPEN;
    Flight { start_us: start.unwrap_or(open.start_us), end_us: end.unwrap_or(open.end_us) }
}

fn caps(caps: &[v1::FrequencyCap], checker: &mut Checker) -> Box<[Cap]> {
    checker.len("caps", caps.len(), CAPS_MAX);
    let history_s = i64::try_from(HISTORY.as_secs()).unwrap_or(i64::MAX);
    let check = |(at, cap): (usize, &v1::FrequencyCap)| {
        let level = match v1::CapLevel::try_from(cap.level) {
            Ok(v1::CapLevel::Ad) => CapLevel::Ad,
            Ok(v1::CapLevel::Campaign) => CapLevel::Campaign,
            Ok(v1::CapLevel::Advertiser) => CapLevel::Advertiser,
            Ok(v1::CapLevel::Unspecified) | Err(_) => {
                checker.refuse(format!("caps[{at}].level"), "must be AD, CAMPAIGN or ADVERTISER");
                CapLevel::Ad
            }
        };
        let max = cap.impressions_max;
        if max == 0 || max as usize > CAP_IMPRESSIONS_MAX {
            checker.refuse(
                format!("caps[{at}].impressions_max"),
                format!("is {max}; 1 to {CAP_IMPRESSIONS_MAX} would do"),
            );
        }
        let window = format!("caps[{at}].window");
        let window_us = checker.seconds(&window, cap.window.as_ref(), history_s);
        Cap { level, impressions_max: max, window_us }
    };
    caps.iter().enumerate().map(check).collect()
}

fn has_budget(budget: Option<&v1::Budget>, checker: &mut Checker) -> bool {
    let Some(budget) = budget else { return false };
    let amounts = [
        ("budget.daily_micros", budget.daily_micros),
        ("budget.total_micros", budget.total_micros),
    ];
    for (field, micros) in amounts {
        if let Some(micros) = micros {
            checker.micros(field, micros, BUDGET_MICROS_MAX);
        }
    }
    if Pacing::try_from(budget.pacing).is_err() {
        checker.refuse("budget.pacing", format!("{} is no pacing", budget.pacing));
    }
    budget.daily_micros.is_some() || budget.total_micros.is_some()
}

fn has_targeting(targeting: Option<&v1::Targeting>, checker: &mut Checker) -> bool {
    let Some(clauses) = targeting else { return false };
    let lists = [
        ("countries", &clauses.countries),
        ("regions", &clauses.regions),
        ("device_types", &clauses.device_types),
        ("languages", &clauses.languages),
        ("segments_any", &clauses.segments_any),
        ("segments_none", &clauses.segments_none),
    ];
    for (name, values) in lists {
        let field = format!("targeting.{name}");
        checker.names(&field, values, TARGETING_VALUES_MAX);
        for (at, value) in values.iter().enumerate() {
            if let Some(would_do) = unlike(name, value) {
                checker.refuse(format!("{field}[{at}]"), format!("{value:?} {would_do}"));
            }
        }
    }
    for (at, hour) in clauses.hours_of_week.iter().enumerate() {
        if *hour >= HOURS_OF_WEEK {
            let last = HOURS_OF_WEEK - 1;
            let field = format!("targeting.hours_of_week[{at}]");
            checker.refuse(field, format!("is {hour}; 0 (Monday 00:00) to {last} would do"));
        }
    }
    checker.len("targeting.hours_of_week", clauses.hours_of_week.len(), HOURS_OF_WEEK as usize);
    checker.require(
        clauses.expression.is_empty(),
        "targeting.expression",
        "expressions are not supported by this version",
    );
    *clauses != v1::Targeting::default()
}

/// What is wrong with a value of the clause `name`, if anything is.
fn unlike(name: &str, value: &str) -> Option<&'static str> {
    let is_upper =
        |value: &str| value.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    let is_tag = |value: &str| {
        value.split('-').all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
        })
    };
    match name {
        "countries" if value.len() != 2 || !value.bytes().all(|b| b.is_ascii_uppercase()) => {
            Some("is no ISO 3166-1 alpha-2 code; \"AT\" would be one")
        }
        "regions" if !(1..=3).contains(&value.len()) || !is_upper(value) => {
            Some("is no ISO 3166-2 code without its country; \"CA\" would be one")
        }
        "device_types" if !DEVICE_TYPES.contains(&value) => {
            Some("is no device type; phone, tablet, desktop, tv or other would do")
        }
        "languages" if !is_tag(value) => Some("is no BCP 47 tag; \"de-AT\" would be one"),
        _ => None,
    }
}
