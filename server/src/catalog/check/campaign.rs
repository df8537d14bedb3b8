//! Campaigns: flight, money, caps.

use slotwise_core::model::{
    Campaign, CampaignId, CampaignSerial, Cap, CapLevel, Flight, Names, Price, Status,
};
use slotwise_proto::v1::{self, Pacing, price};

use super::Checker;
use super::targeting::targeting;
use crate::limits::{
    BUDGET_MICROS_MAX, CAMPAIGN_VALUES_MAX, CAP_IMPRESSIONS_MAX, CAPS_MAX, HISTORY,
};

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
        targeting: targeting(campaign.targeting.as_ref(), checker),
        competitive_labels: Names::new(campaign.competitive_labels.iter().map(String::as_str)),
        price: price("price", campaign.price.as_ref(), checker),
        categories: campaign.categories.clone(),
        advertiser_domains: campaign.advertiser_domains.clone(),
    }
}

/// Checks a price.
pub(super) fn price(
    field: &str,
    price: Option<&v1::Price>,
    checker: &mut Checker,
) -> Option<Price> {
    let (name, price, micros) = match price?.per? {
        price::Per::ThousandImpressionsMicros(micros) => {
            ("thousand_impressions_micros", Price::ThousandImpressions(micros), micros)
        }
        price::Per::ClickMicros(micros) => ("click_micros", Price::Click(micros), micros),
        price::Per::ConversionMicros(micros) => {
            ("conversion_micros", Price::Conversion(micros), micros)
        }
    };
    checker.price_micros(&format!("{field}.{name}"), micros);
    Some(price)
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
