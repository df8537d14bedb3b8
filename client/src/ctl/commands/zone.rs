//! `zone`: slots on a site, and the ads that compete for them.

use std::collections::{HashMap, HashSet};

use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::{
    Ad, GetCampaignRequest, ListCampaignsRequest, ListZoneAdsRequest, ListZonesRequest,
    PutZoneRequest, Size, Zone,
};
use tonic::Code;

use super::campaign::status as campaign_status;
use super::{Context, ad, field_mask};
use crate::ctl::cli::inventory::{ZoneCommand, ZoneName, ZonePut};
use crate::ctl::cli::values::Setting;
use crate::ctl::connect::Catalog;
use crate::ctl::error::Error;
use crate::ctl::money::format_micros;
use crate::ctl::paging;

pub(super) async fn run(context: &mut Context, command: ZoneCommand) -> Result<(), Error> {
    match command {
        ZoneCommand::List { site, limit } => list(context, site, limit.limit).await,
        ZoneCommand::Show { name, limit } => show(context, name, limit.limit).await,
        ZoneCommand::Put(args) => put(context, args).await,
    }
}

async fn zones_of(catalog: &Catalog, site_id: &str, limit: u32) -> Result<Vec<Zone>, Error> {
    paging::collect(limit, async |page_size, page_token| {
        let site_id = site_id.to_owned();
        let request = ListZonesRequest { site_id, page_size, page_token };
        let page = catalog.call(request, CatalogServiceClient::list_zones).await?;
        Ok((page.zones, page.next_page_token))
    })
    .await
}

async fn list(context: &mut Context, site_id: String, limit: u32) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let zones = zones_of(&catalog, &site_id, limit).await?;
    let header = ["SITE", "ZONE", "SIZES", "FLOOR", "VERSION"];
    context.list("zones", &zones, &header, |zone| {
        vec![
            zone.site_id.clone(),
            zone.zone_id.clone(),
            sizes(&zone.sizes),
            floor(zone),
            zone.version.to_string(),
        ]
    })
}

async fn show(context: &mut Context, name: ZoneName, limit: u32) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    // The contract has no call for one zone: it is looked for among its site's.
    let zones = zones_of(&catalog, &name.site, u32::MAX).await?;
    let Some(zone) = zones.into_iter().find(|zone| zone.zone_id == name.zone) else {
        return Err(Error::Input(format!("no zone {} on site {}", name.zone, name.site)));
    };
    let ads = paging::collect(limit, async |page_size, page_token| {
        let request = ListZoneAdsRequest {
            site_id: name.site.clone(),
            zone_id: name.zone.clone(),
            page_size,
            page_token,
        };
        let page = catalog.call(request, CatalogServiceClient::list_zone_ads).await?;
        Ok((page.ads, page.next_page_token))
    })
    .await?;
    if context.out.is_json() {
        context.out.message(&zone)?;
        return ads.iter().try_for_each(|ad| context.out.message(ad));
    }
    context.out.facts(vec![
        ("site", zone.site_id.clone()),
        ("zone", zone.zone_id.clone()),
        ("sizes", sizes(&zone.sizes)),
        ("floor", floor(&zone)),
        ("version", zone.version.to_string()),
    ])?;
    let statuses = statuses(&catalog, &ads).await?;
    context.out.line("")?;
    ad::table_with_status(context, &ads, &statuses)
}

/// The status of each ad's campaign, by its id. The ads of a zone are of one account: its campaigns
/// are listed, page by page, until all are found.
async fn statuses(catalog: &Catalog, ads: &[Ad]) -> Result<HashMap<String, String>, Error> {
    let mut wanted: HashSet<&str> = ads.iter().map(|ad| ad.campaign_id.as_str()).collect();
    let mut found = HashMap::new();
    let Some(first) = ads.first() else { return Ok(found) };
    let request = GetCampaignRequest { campaign_id: first.campaign_id.clone() };
    let campaign = match catalog.call(request, CatalogServiceClient::get_campaign).await {
        Ok(campaign) => campaign,
        // Deleted since the ads were listed: a zone without statuses is better than none.
        Err(e) if e.is_refusal(Code::NotFound) => return Ok(found),
        Err(e) => return Err(e),
    };
    let mut page_token = String::new();
    loop {
        let request = ListCampaignsRequest {
            account_id: campaign.account_id.clone(),
            page_size: paging::PAGE_SIZE_MAX,
            page_token,
            ..ListCampaignsRequest::default()
        };
        let page = catalog.call(request, CatalogServiceClient::list_campaigns).await?;
        for campaign in page.campaigns {
            if wanted.remove(campaign.campaign_id.as_str()) {
                let status = campaign_status(campaign.status());
                found.insert(campaign.campaign_id, status);
            }
        }
        page_token = page.next_page_token;
        if wanted.is_empty() || page_token.is_empty() {
            return Ok(found);
        }
    }
}

async fn put(context: &mut Context, args: ZonePut) -> Result<(), Error> {
    let named = [("sizes", !args.size.is_empty()), ("floor_ecpm_micros", args.floor.is_some())];
    let zone = Zone {
        site_id: args.name.site,
        zone_id: args.name.zone,
        sizes: args.size.into_iter().filter_map(Setting::value).collect(),
        floor_ecpm_micros: args.floor.and_then(Setting::value).unwrap_or(0),
        version: 0,
    };
    let request = PutZoneRequest {
        zone: Some(zone),
        update_mask: field_mask(named.iter().filter(|(_, given)| *given).map(|(path, _)| *path)),
        if_version: args.if_version.wire(),
    };
    let catalog = context.catalog().await?;
    let change = catalog.call(request, CatalogServiceClient::put_zone).await?;
    context.changed(&change)
}

fn sizes(sizes: &[Size]) -> String {
    match sizes {
        [] => "any".to_owned(),
        some => some.iter().map(ad::size).collect::<Vec<_>>().join(" "),
    }
}

fn floor(zone: &Zone) -> String {
    match zone.floor_ecpm_micros {
        0 => String::new(),
        micros => format_micros(micros),
    }
}
