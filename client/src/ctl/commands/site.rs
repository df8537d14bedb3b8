//! `site`: where an account shows ads, and what it never shows.

use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::{ListSitesRequest, PutSiteRequest, Site};

use super::{Context, field_mask};
use crate::ctl::cli::inventory::{SiteCommand, SitePut};
use crate::ctl::cli::values;
use crate::ctl::error::Error;
use crate::ctl::paging;

pub(super) async fn run(context: &mut Context, command: SiteCommand) -> Result<(), Error> {
    match command {
        SiteCommand::List { account, limit } => list(context, account, limit.limit).await,
        SiteCommand::Put(args) => put(context, args).await,
    }
}

async fn list(context: &mut Context, account: Option<String>, limit: u32) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let account_id = account.unwrap_or_default();
    let sites = paging::collect(limit, async |page_size, page_token| {
        let request = ListSitesRequest { account_id: account_id.clone(), page_size, page_token };
        let page = catalog.call(request, CatalogServiceClient::list_sites).await?;
        Ok((page.sites, page.next_page_token))
    })
    .await?;
    let header = ["SITE", "ACCOUNT", "BLOCKED", "VERSION"];
    context.list("sites", &sites, &header, |site| {
        let blocked = [&site.blocked_advertisers, &site.blocked_categories, &site.blocked_domains];
        vec![
            site.site_id.clone(),
            site.account_id.clone(),
            blocked.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", "),
            site.version.to_string(),
        ]
    })
}

async fn put(context: &mut Context, args: SitePut) -> Result<(), Error> {
    let named = [
        ("account_id", args.account.is_some()),
        ("blocked_advertisers", !args.block_advertiser.is_empty()),
        ("blocked_categories", !args.block_category.is_empty()),
        ("blocked_domains", !args.block_domain.is_empty()),
    ];
    let site = Site {
        site_id: args.id,
        account_id: args.account.unwrap_or_default(),
        blocked_advertisers: values::list(&args.block_advertiser),
        blocked_categories: values::list(&args.block_category),
        blocked_domains: values::list(&args.block_domain),
        version: 0,
    };
    let request = PutSiteRequest {
        site: Some(site),
        update_mask: field_mask(named.iter().filter(|(_, given)| *given).map(|(path, _)| *path)),
        if_version: args.if_version.wire(),
    };
    let catalog = context.catalog().await?;
    let change = catalog.call(request, CatalogServiceClient::put_site).await?;
    context.changed(&change)
}
