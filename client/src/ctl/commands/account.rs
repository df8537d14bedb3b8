//! `account`: tenants, each with its time zone and currency.

use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::{Account, ListAccountsRequest, PutAccountRequest};

use super::{Context, field_mask};
use crate::ctl::cli::inventory::{AccountCommand, AccountPut};
use crate::ctl::error::Error;
use crate::ctl::paging;

pub(super) async fn run(context: &mut Context, command: AccountCommand) -> Result<(), Error> {
    match command {
        AccountCommand::List { limit } => list(context, limit.limit).await,
        AccountCommand::Put(args) => put(context, args).await,
    }
}

async fn list(context: &mut Context, limit: u32) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let accounts = paging::collect(limit, async |page_size, page_token| {
        let request = ListAccountsRequest { page_size, page_token };
        let page = catalog.call(request, CatalogServiceClient::list_accounts).await?;
        Ok((page.accounts, page.next_page_token))
    })
    .await?;
    let header = ["ACCOUNT", "NAME", "TIME ZONE", "CURRENCY", "VERSION"];
    context.list("accounts", &accounts, &header, |account| {
        let zone = if account.time_zone.is_empty() { "UTC" } else { &account.time_zone };
        vec![
            account.account_id.clone(),
            account.display_name.clone(),
            zone.to_owned(),
            account.currency.clone(),
            account.version.to_string(),
        ]
    })
}

async fn put(context: &mut Context, args: AccountPut) -> Result<(), Error> {
    let named = [
        ("display_name", args.name.is_some()),
        ("time_zone", args.time_zone.is_some()),
        ("currency", args.currency.is_some()),
    ];
    let account = Account {
        account_id: args.id,
        display_name: args.name.unwrap_or_default(),
        time_zone: args.time_zone.unwrap_or_default(),
        currency: args.currency.unwrap_or_default(),
        version: 0,
    };
    let request = PutAccountRequest {
        account: Some(account),
        update_mask: field_mask(named.iter().filter(|(_, given)| *given).map(|(path, _)| *path)),
        if_version: args.if_version.wire(),
    };
    let catalog = context.catalog().await?;
    let change = catalog.call(request, CatalogServiceClient::put_account).await?;
    context.changed(&change)
}
