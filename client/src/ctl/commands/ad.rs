//! `ad`: what is shown, and where.

use std::collections::HashMap;
use std::path::Path;

use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::{
    Ad, AdZone, DeleteAdRequest, GetAdRequest, ListAdsRequest, PutAdRequest, Size,
};

use super::campaign::price;
use super::{Context, field_mask, read_object, same_id, something_named};
use crate::ctl::cli::ad::{AdCommand, AdName, AdPut};
use crate::ctl::cli::values::{self, Setting};
use crate::ctl::error::Error;
use crate::ctl::money::format_micros;
use crate::ctl::{input, paging, text};

/// Zones that `ad show` lists one by one.
const ZONES_SHOWN_MAX: usize = 20;

pub(super) async fn run(context: &mut Context, command: AdCommand) -> Result<(), Error> {
    match command {
        AdCommand::List { campaign, limit } => list(context, campaign, limit.limit).await,
        AdCommand::Show(name) => show(context, name).await,
        AdCommand::Put(args) => put(context, *args).await,
        AdCommand::Delete { name, if_version } => {
            let request = DeleteAdRequest {
                campaign_id: name.campaign,
                ad_unit_id: name.ad,
                if_version: if_version.wire(),
            };
            let catalog = context.catalog().await?;
            let change = catalog.call(request, CatalogServiceClient::delete_ad).await?;
            context.changed(&change)
        }
    }
}

async fn list(context: &mut Context, campaign_id: String, limit: u32) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let ads = paging::collect(limit, async |page_size, page_token| {
        let request = ListAdsRequest { campaign_id: campaign_id.clone(), page_size, page_token };
        let page = catalog.call(request, CatalogServiceClient::list_ads).await?;
        Ok((page.ads, page.next_page_token))
    })
    .await?;
    table(context, &ads)
}

/// Ads, one a line.
fn table(context: &mut Context, ads: &[Ad]) -> Result<(), Error> {
    table_with_status(context, ads, &HashMap::new())
}

/// Ads, one a line, each with the status of its campaign where `statuses` has it.
pub(super) fn table_with_status(
    context: &mut Context,
    ads: &[Ad],
    statuses: &HashMap<String, String>,
) -> Result<(), Error> {
    let header = ["CAMPAIGN", "AD", "STATUS", "ECPM", "SIZE", "ZONES", "KEYWORDS", "VERSION"];
    context.list("ads", ads, &header, |ad| {
        vec![
            ad.campaign_id.clone(),
            ad.ad_unit_id.clone(),
            statuses.get(&ad.campaign_id).cloned().unwrap_or_default(),
            ecpm(ad),
            ad.size.as_ref().map(size).unwrap_or_default(),
            ad.zones.len().to_string(),
            text::excerpt(&ad.keywords.join(", ")),
            ad.version.to_string(),
        ]
    })
}

async fn show(context: &mut Context, name: AdName) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let request = GetAdRequest { campaign_id: name.campaign, ad_unit_id: name.ad };
    let ad = catalog.call(request, CatalogServiceClient::get_ad).await?;
    if context.out.is_json() {
        return context.out.message(&ad);
    }
    context.out.facts(vec![
        ("campaign", ad.campaign_id.clone()),
        ("ad", ad.ad_unit_id.clone()),
        ("ecpm", ecpm(&ad)),
        ("size", ad.size.as_ref().map(size).unwrap_or_default()),
        ("keywords", ad.keywords.join(", ")),
        ("excluded keywords", ad.excluded_keywords.join(", ")),
        ("landing url", ad.landing_url.clone()),
        ("markup", text::excerpt(&ad.markup)),
        ("zones", ad.zones.len().to_string()),
        ("version", ad.version.to_string()),
    ])?;
    let shown = &ad.zones[..ad.zones.len().min(ZONES_SHOWN_MAX)];
    if !shown.is_empty() {
        context.out.line("")?;
        let rows = shown.iter().map(zone_row).collect();
        context.out.table(&["SITE", "ZONE", "ECPM", "PRICE"], rows)?;
    }
    match ad.zones.len() - shown.len() {
        0 => Ok(()),
        more => context.out.line(&format!("and {more} more: --json shows all")),
    }
}

fn zone_row(zone: &AdZone) -> Vec<String> {
    vec![
        zone.site_id.clone(),
        zone.zone_id.clone(),
        zone.ecpm_micros.map(format_micros).unwrap_or_default(),
        price(zone.price.as_ref(), format_micros),
    ]
}

async fn put(context: &mut Context, args: AdPut) -> Result<(), Error> {
    let AdName { campaign, ad: unit } = &args.name;
    let (mut ad, paths) = match &args.from {
        Some(path) => from_file(path, args.replace, campaign, unit)?,
        None => from_flags(&args)?,
    };
    something_named(&paths)?;
    (ad.campaign_id, ad.ad_unit_id) = (campaign.clone(), unit.clone());
    let request = PutAdRequest {
        ad: Some(ad),
        update_mask: field_mask(paths),
        if_version: args.if_version.wire(),
    };
    let catalog = context.catalog().await?;
    let change = catalog.call(request, CatalogServiceClient::put_ad).await?;
    context.changed(&change)
}

fn from_file(
    path: &Path,
    replace: bool,
    campaign: &str,
    unit: &str,
) -> Result<(Ad, Vec<String>), Error> {
    let (ad, mut paths) = read_object::<Ad>(path, replace)?;
    same_id(path, "campaignId", &ad.campaign_id, campaign)?;
    same_id(path, "adUnitId", &ad.ad_unit_id, unit)?;
    paths.retain(|path| !["campaign_id", "ad_unit_id", "version"].contains(&path.as_str()));
    Ok((ad, paths))
}

fn from_flags(args: &AdPut) -> Result<(Ad, Vec<String>), Error> {
    let fields = &args.fields;
    let named = [
        ("zones", !fields.zone.is_empty()),
        ("ecpm_micros", fields.ecpm.is_some()),
        ("keywords", !fields.keyword.is_empty()),
        ("excluded_keywords", !fields.excluded_keyword.is_empty()),
        ("landing_url", fields.landing_url.is_some()),
        ("markup", fields.markup_file.is_some()),
        ("size", fields.size.is_some()),
    ];
    let markup = fields.markup_file.as_deref().map(input::read_text).transpose()?;
    let ad = Ad {
        zones: fields.zone.clone(),
        ecpm_micros: fields.ecpm.and_then(Setting::value),
        keywords: values::list(&fields.keyword),
        excluded_keywords: values::list(&fields.excluded_keyword),
        landing_url: fields.landing_url.clone().unwrap_or_default(),
        markup: markup.unwrap_or_default(),
        size: fields.size,
        ..Ad::default()
    };
    let paths = named.iter().filter(|(_, given)| *given).map(|(path, _)| (*path).to_owned());
    Ok((ad, paths.collect()))
}

/// A size as people write it.
pub(super) fn size(size: &Size) -> String {
    format!("{}x{}", size.width, size.height)
}

/// What an ad is ranked by; without its own, its campaign's price per thousand.
fn ecpm(ad: &Ad) -> String {
    ad.ecpm_micros.map_or("campaign's".to_owned(), format_micros)
}
