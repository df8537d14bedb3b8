//! `campaign put`: changes exactly the fields that were named, by flags or by a file.

use std::path::Path;

use jiff::tz::TimeZone;
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::price::Per;
use slotwise_proto::v1::{
    Budget, Campaign, CampaignStatus, GetCampaignRequest, Pacing, Price, PutCampaignRequest,
};
use tonic::Code;

use super::{Context, field_mask, read_object, same_id, something_named};
use crate::ctl::accounts::Accounts;
use crate::ctl::cli::campaign::{CampaignFields, CampaignPut};
use crate::ctl::cli::values::{self, Setting};
use crate::ctl::connect::Catalog;
use crate::ctl::error::Error;
use crate::ctl::time::{When, to_wire};

pub(super) async fn run(context: &mut Context, args: CampaignPut) -> Result<(), Error> {
    let (mut campaign, paths) = match &args.from {
        Some(path) => from_file(path, args.replace, &args.id)?,
        None => from_flags(&args.fields),
    };
    something_named(&paths)?;
    let catalog = context.catalog().await?;
    if args.from.is_none() {
        let zone = flight_zone(&catalog, &args).await?;
        campaign.start_time = flight_time("--start", args.fields.start, &zone)?;
        campaign.end_time = flight_time("--end", args.fields.end, &zone)?;
    }
    campaign.campaign_id = args.id;
    let request = PutCampaignRequest {
        campaign: Some(campaign),
        update_mask: field_mask(paths),
        if_version: args.if_version.wire(),
    };
    let change = catalog.call(request, CatalogServiceClient::put_campaign).await?;
    context.changed(&change)
}

/// The campaign of a file. Its status counts only where it pauses: a file that is older than a
/// pause must not undo it.
fn from_file(path: &Path, replace: bool, id: &str) -> Result<(Campaign, Vec<String>), Error> {
    let (campaign, mut paths) = read_object::<Campaign>(path, replace)?;
    same_id(path, "campaignId", &campaign.campaign_id, id)?;
    let pauses = campaign.status() == CampaignStatus::Paused;
    paths.retain(|path| match path.as_str() {
        "campaign_id" | "version" => false,
        "status" => pauses,
        _ => true,
    });
    Ok((campaign, paths))
}

/// The campaign of the flags, but for its flight, which needs the account's time zone.
fn from_flags(fields: &CampaignFields) -> (Campaign, Vec<String>) {
    let price = fields.cpm.map(Per::ThousandImpressionsMicros);
    let price = price.or(fields.cpc.map(Per::ClickMicros));
    let price = price.or(fields.cpa.map(Per::ConversionMicros));
    let named = [
        ("account_id", fields.account.is_some()),
        ("start_time", fields.start.is_some()),
        ("end_time", fields.end.is_some()),
        ("tier", fields.tier.is_some()),
        ("budget.daily_micros", fields.daily.is_some()),
        ("budget.total_micros", fields.total.is_some()),
        ("budget.pacing", fields.pacing.is_some()),
        ("price", price.is_some()),
        ("caps", fields.no_caps || !fields.cap.is_empty()),
        ("strict_caps", fields.strict_caps.is_some()),
        ("requires_user", fields.requires_user.is_some()),
        ("categories", !fields.category.is_empty()),
        ("advertiser_domains", !fields.domain.is_empty()),
        ("competitive_labels", !fields.label.is_empty()),
    ];
    let budget = Budget {
        daily_micros: fields.daily.and_then(Setting::value),
        total_micros: fields.total.and_then(Setting::value),
        pacing: fields.pacing.map_or(Pacing::Unspecified, Pacing::from).into(),
    };
    let campaign = Campaign {
        account_id: fields.account.clone().unwrap_or_default(),
        tier: fields.tier.unwrap_or_default(),
        budget: (budget != Budget::default()).then_some(budget),
        price: price.map(|per| Price { per: Some(per) }),
        caps: fields.cap.clone(),
        strict_caps: fields.strict_caps.unwrap_or_default(),
        requires_user: fields.requires_user.unwrap_or_default(),
        categories: values::list(&fields.category),
        advertiser_domains: values::list(&fields.domain),
        competitive_labels: values::list(&fields.label),
        ..Campaign::default()
    };
    let paths = named.iter().filter(|(_, given)| *given).map(|(path, _)| (*path).to_owned());
    (campaign, paths.collect())
}

/// The time zone that local times of the flags are in: only asked for when one is local.
async fn flight_zone(catalog: &Catalog, args: &CampaignPut) -> Result<TimeZone, Error> {
    let local = |setting: Option<Setting<When>>| {
        matches!(setting.and_then(Setting::value), Some(When::Day(_) | When::Local(_)))
    };
    if !local(args.fields.start) && !local(args.fields.end) {
        return Ok(TimeZone::UTC);
    }
    let account_id = match &args.fields.account {
        Some(account_id) => account_id.clone(),
        None => account_of(catalog, &args.id).await?,
    };
    Ok(Accounts::default().get(catalog, &account_id).await?.zone)
}

async fn account_of(catalog: &Catalog, campaign_id: &str) -> Result<String, Error> {
    let request = GetCampaignRequest { campaign_id: campaign_id.to_owned() };
    match catalog.call(request, CatalogServiceClient::get_campaign).await {
        Ok(campaign) => Ok(campaign.account_id),
        Err(e) if e.is_refusal(Code::NotFound) => Err(Error::Input(format!(
            "campaign {campaign_id} is new: --account says in which time zone its days are"
        ))),
        Err(e) => Err(e),
    }
}

fn flight_time(
    flag: &str,
    setting: Option<Setting<When>>,
    zone: &TimeZone,
) -> Result<Option<prost_types::Timestamp>, Error> {
    let Some(when) = setting.and_then(Setting::value) else { return Ok(None) };
    let instant = when.resolve(zone).map_err(|e| Error::Usage(format!("{flag}: {e}")))?;
    Ok(Some(to_wire(instant)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::cli::{Cli, Command, campaign::CampaignCommand};
    use clap::Parser;

    fn parse(flags: &str) -> (Campaign, Vec<String>) {
        let line = format!("slotwisectl campaign put 7:summer {flags}");
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Command::Campaign(CampaignCommand::Put(args)) => from_flags(&args.fields),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_mask_names_exactly_what_was_given() {
        let (campaign, paths) = parse("--daily 5.25");
        assert_eq!(campaign.budget.unwrap().daily_micros, Some(5_250_000));
        assert_eq!(paths, ["budget.daily_micros"]);
        let (campaign, paths) = parse("--total none --strict-caps=false --no-caps --tier -1");
        assert_eq!((campaign.budget, campaign.tier), (None, -1));
        assert_eq!(paths, ["tier", "budget.total_micros", "caps", "strict_caps"]);
        let (campaign, paths) = parse("--cpc 0.45 --requires-user --category= --pacing even");
        assert_eq!(campaign.price.unwrap().per, Some(Per::ClickMicros(450_000)));
        assert!(campaign.requires_user && campaign.categories.is_empty());
        assert_eq!(paths, ["budget.pacing", "price", "requires_user", "categories"]);
        assert!(parse("").1.is_empty());
    }

    #[test]
    fn a_file_can_pause_a_campaign_but_not_wake_it() {
        let mask = |text: &str, replace| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            from_file(file.path(), replace, "7:summer").map(|(_, paths)| paths)
        };
        let paused = r#"{"campaignId":"7:summer","status":"CAMPAIGN_STATUS_PAUSED","version":"3"}"#;
        assert_eq!(mask(paused, false).unwrap(), ["status"]);
        let active = r#"{"status":"CAMPAIGN_STATUS_ACTIVE","tier":0}"#;
        assert_eq!(mask(active, false).unwrap(), ["tier"]);
        let all = mask(active, true).unwrap();
        assert!(all.contains(&"budget".to_owned()) && !all.contains(&"status".to_owned()));
        assert!(mask(r#"{"campaignId":"7:winter"}"#, false).is_err());
    }
}
