//! `changes`: the audit log, and with `--follow` each change as it comes.

use std::time::Duration;

use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::{CatalogChange, ChangeRecord, ListChangesRequest, WatchChangesRequest};
use tonic::Code;

use super::Context;
use crate::ctl::cli::bulk::Changes;
use crate::ctl::connect::Catalog;
use crate::ctl::error::Error;
use crate::ctl::output::note;
use crate::ctl::{paging, time};

/// The newest changes that `--follow` begins with.
const FOLLOW_FIRST: u32 = 10;
/// Waits between attempts to reconnect: short for a restart, long enough to leave a server alone.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

pub(super) async fn run(context: &mut Context, args: Changes) -> Result<(), Error> {
    let id = args.id.unwrap_or_default();
    let catalog = context.catalog().await?;
    if args.follow {
        return follow(context, &catalog, &id).await;
    }
    let changes = list(&catalog, &id, args.limit.limit).await?;
    let header = ["VERSION", "AT", "KIND", "ID", "WHAT", "WHO"];
    context.list("changes", &changes, &header, |record| {
        record.change.as_ref().map(columns).unwrap_or_default()
    })
}

async fn list(catalog: &Catalog, id: &str, limit: u32) -> Result<Vec<ChangeRecord>, Error> {
    paging::collect(limit, async |page_size, page_token| {
        page(catalog, id, page_size, page_token).await
    })
    .await
}

async fn page(
    catalog: &Catalog,
    id: &str,
    page_size: u32,
    page_token: String,
) -> Result<(Vec<ChangeRecord>, String), Error> {
    let request = ListChangesRequest { id: id.to_owned(), page_size, page_token };
    let page = catalog.call(request, CatalogServiceClient::list_changes).await?;
    Ok((page.changes, page.next_page_token))
}

/// The version of the newest change of all: where watching begins.
async fn newest_version(catalog: &Catalog) -> Result<u64, Error> {
    let (newest, _) = page(catalog, "", 1, String::new()).await?;
    Ok(newest.first().and_then(|record| record.change.as_ref()).map_or(0, |c| c.catalog_version))
}

async fn follow(context: &mut Context, catalog: &Catalog, id: &str) -> Result<(), Error> {
    // The end of the past first: what comes while the past is read, is watched and not listed.
    let mut after_version = newest_version(catalog).await?;
    let (recent, _) = page(catalog, id, FOLLOW_FIRST, String::new()).await?;
    let recent = recent.into_iter().rev().filter_map(|record| record.change);
    for change in recent.filter(|change| change.catalog_version <= after_version) {
        print(context, &change)?;
    }
    let mut wait = BACKOFF_MIN;
    loop {
        let before = after_version;
        let why = match watch(context, catalog, id, &mut after_version).await {
            Ok(()) => "the server ended the stream".to_owned(),
            Err(e) if e.is_passing() => e.to_string(),
            Err(e) if e.is_refusal(Code::OutOfRange) => {
                note(&format!(
                    "changes after version {after_version} are no longer kept: some \
                               may be missing here"
                ));
                after_version = newest_version(catalog).await?;
                continue;
            }
            Err(e) => return Err(e),
        };
        if after_version > before {
            wait = BACKOFF_MIN;
        }
        note(&format!("{why}; reconnecting after version {after_version} in {wait:?}"));
        tokio::time::sleep(wait).await;
        wait = BACKOFF_MAX.min(wait * 2);
    }
}

/// Prints changes until the stream ends; `after_version` follows.
async fn watch(
    context: &mut Context,
    catalog: &Catalog,
    id: &str,
    after_version: &mut u64,
) -> Result<(), Error> {
    let request = WatchChangesRequest { after_version: *after_version };
    let mut changes = catalog.open(request, CatalogServiceClient::watch_changes).await?;
    while let Some(change) = changes.message().await.map_err(|e| catalog.failure(e))? {
        *after_version = change.catalog_version.max(*after_version);
        if id.is_empty() || change.id == id {
            print(context, &change)?;
        }
    }
    Ok(())
}

fn print(context: &mut Context, change: &CatalogChange) -> Result<(), Error> {
    match context.out.is_json() {
        true => context.out.message(change)?,
        false => context.out.line(&columns(change).join("  "))?,
    }
    context.out.flush()
}

/// A change in columns; instants in UTC, as changes of several accounts stand side by side.
fn columns(change: &CatalogChange) -> Vec<String> {
    let at = change.changed_at.as_ref().and_then(time::from_wire);
    vec![
        change.catalog_version.to_string(),
        at.map(|at| at.to_string()).unwrap_or_default(),
        change.kind.clone(),
        change.id.clone(),
        change.summary.clone(),
        change.actor.clone(),
    ]
}
