//! `campaign`: list, show, delete.

use slotwise_proto::json;
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::price::Per;
use slotwise_proto::v1::{
    Campaign, CampaignStatus, CapLevel, DeleteCampaignRequest, FrequencyCap, GetCampaignRequest,
    ListCampaignsRequest, Pacing, Price, Targeting,
};

use super::{Context, campaign_put, campaign_switch};
use crate::ctl::accounts::{Accounts, Locale};
use crate::ctl::cli::campaign::CampaignCommand;
use crate::ctl::error::Error;
use crate::ctl::paging;
use crate::ctl::text::words;
use crate::ctl::time::format_span;

pub(super) async fn run(context: &mut Context, command: CampaignCommand) -> Result<(), Error> {
    match command {
        CampaignCommand::List { account, advertiser, limit } => {
            let (account_id, advertiser_id) =
                (account.unwrap_or_default(), advertiser.unwrap_or_default());
            list(context, account_id, advertiser_id, limit.limit).await
        }
        CampaignCommand::Show { id } => show(context, id).await,
        CampaignCommand::Put(args) => campaign_put::run(context, *args).await,
        CampaignCommand::Pause(args) => {
            campaign_switch::run(context, args, CampaignStatus::Paused).await
        }
        CampaignCommand::Activate(args) => {
            campaign_switch::run(context, args, CampaignStatus::Active).await
        }
        CampaignCommand::Delete { id, if_version } => {
            let request = DeleteCampaignRequest { campaign_id: id, if_version: if_version.wire() };
            let catalog = context.catalog().await?;
            let change = catalog.call(request, CatalogServiceClient::delete_campaign).await?;
            context.changed(&change)
        }
    }
}

async fn list(
    context: &mut Context,
    account_id: String,
    advertiser_id: String,
    limit: u32,
) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let campaigns = paging::collect(limit, async |page_size, page_token| {
        let request = ListCampaignsRequest {
            account_id: account_id.clone(),
            advertiser_id: advertiser_id.clone(),
            page_size,
            page_token,
        };
        let page = catalog.call(request, CatalogServiceClient::list_campaigns).await?;
        Ok((page.campaigns, page.next_page_token))
    })
    .await?;
    if context.out.is_json() {
        return campaigns.iter().try_for_each(|campaign| context.out.message(campaign));
    }
    let mut accounts = Accounts::default();
    let mut locales = Vec::with_capacity(campaigns.len());
    for campaign in &campaigns {
        locales.push(accounts.get_or_utc(&catalog, &campaign.account_id).await?);
    }
    let header = [
        "CAMPAIGN", "ACCOUNT", "STATUS", "START", "END", "TIER", "DAILY", "TOTAL", "PRICE", "CAPS",
        "VERSION",
    ];
    let mut locales = locales.iter();
    context.list("campaigns", &campaigns, &header, |campaign| match locales.next() {
        Some(locale) => row(campaign, locale),
        None => Vec::new(),
    })
}

fn row(campaign: &Campaign, locale: &Locale) -> Vec<String> {
    let money = |micros: Option<i64>| micros.map(|m| locale.money(m)).unwrap_or_default();
    let budget = campaign.budget.unwrap_or_default();
    vec![
        campaign.campaign_id.clone(),
        campaign.account_id.clone(),
        status(campaign.status()),
        locale.instant(campaign.start_time.as_ref()),
        locale.instant(campaign.end_time.as_ref()),
        campaign.tier.to_string(),
        money(budget.daily_micros),
        money(budget.total_micros),
        price(campaign.price.as_ref(), |micros| locale.money(micros)),
        caps(&campaign.caps),
        campaign.version.to_string(),
    ]
}

async fn show(context: &mut Context, campaign_id: String) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let request = GetCampaignRequest { campaign_id };
    let campaign = catalog.call(request, CatalogServiceClient::get_campaign).await?;
    if context.out.is_json() {
        return context.out.message(&campaign);
    }
    let mut accounts = Accounts::default();
    let locale = accounts.get_or_utc(&catalog, &campaign.account_id).await?;
    context.out.facts(facts(&campaign, &locale))
}

fn facts(campaign: &Campaign, locale: &Locale) -> Vec<(&'static str, String)> {
    let money = |micros: Option<i64>| micros.map(|m| locale.money(m)).unwrap_or_default();
    let yes = |set: bool| if set { "yes".to_owned() } else { String::new() };
    let budget = campaign.budget.unwrap_or_default();
    let pacing = match budget.pacing() {
        Pacing::Unspecified => String::new(),
        pacing => words(pacing.as_str_name(), "PACING_"),
    };
    let targeting = match &campaign.targeting {
        Some(targeting) if *targeting != Targeting::default() => json::to_string(targeting),
        _ => String::new(),
    };
    vec![
        ("campaign", campaign.campaign_id.clone()),
        ("account", campaign.account_id.clone()),
        ("status", status(campaign.status())),
        ("start", locale.instant(campaign.start_time.as_ref())),
        ("end", locale.instant(campaign.end_time.as_ref())),
        ("time zone", locale.zone.iana_name().unwrap_or("UTC").to_owned()),
        ("tier", campaign.tier.to_string()),
        ("daily budget", money(budget.daily_micros)),
        ("total budget", money(budget.total_micros)),
        ("pacing", pacing),
        ("price", price(campaign.price.as_ref(), |micros| locale.money(micros))),
        ("caps", caps(&campaign.caps)),
        ("strict caps", yes(campaign.strict_caps)),
        ("requires user", yes(campaign.requires_user)),
        ("targeting", targeting),
        ("categories", campaign.categories.join(", ")),
        ("domains", campaign.advertiser_domains.join(", ")),
        ("labels", campaign.competitive_labels.join(", ")),
        ("version", campaign.version.to_string()),
    ]
}

/// A status as people say it.
pub(super) fn status(status: CampaignStatus) -> String {
    words(status.as_str_name(), "CAMPAIGN_STATUS_")
}

/// What the advertiser pays for, such as `2.50 USD cpm`.
pub(super) fn price(price: Option<&Price>, money: impl Fn(i64) -> String) -> String {
    match price.and_then(|price| price.per) {
        None => String::new(),
        Some(Per::ThousandImpressionsMicros(micros)) => format!("{} cpm", money(micros)),
        Some(Per::ClickMicros(micros)) => format!("{} cpc", money(micros)),
        Some(Per::ConversionMicros(micros)) => format!("{} cpa", money(micros)),
    }
}

/// Caps as `--cap` takes them.
fn caps(caps: &[FrequencyCap]) -> String {
    let one = |cap: &FrequencyCap| {
        let level = words(CapLevel::as_str_name(&cap.level()), "CAP_LEVEL_");
        let window = cap.window.as_ref().map(format_span).unwrap_or_default();
        format!("{level}:{}/{window}", cap.impressions_max)
    };
    caps.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "campaign_tests.rs"]
mod tests;
