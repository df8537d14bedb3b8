//! WatchChanges and ListChanges: what changed, as it happens and afterwards.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream::{self, Stream};
use slotwise_proto::v1::{CatalogChange, ListChangesRequest, ListChangesResponse};
use tonic::Status;

use super::Admin;
use crate::catalog::{CatalogError, Problem, decode_token, encode_token, page_size};
use crate::doors::listener::Drain;
use crate::doors::refusal::Refusal;
use crate::ports::{AuditQuery, CatalogStore};
use crate::refresh::Served;

/// Changes that are read at once.
const CHANGES_PAGE: usize = 1_000;

/// Every change after `after_version`, each once this node serves it.
pub(super) async fn watch(
    admin: &Arc<Admin>,
    after_version: u64,
    drain: Drain,
) -> Result<impl Stream<Item = Result<CatalogChange, Status>> + use<>, CatalogError> {
    let store = Arc::clone(admin.catalog.store());
    let head = store.head().await?.version;
    if after_version > head {
        let message = format!("after_version is {after_version}, but the newest is {head}");
        return Err(CatalogError::OutOfRange(message));
    }
    // Only to say at once, and not on the stream, that they are no longer kept.
    store.changes(after_version, 1).await?;
    let watcher = Watcher {
        store,
        served: admin.served.clone(),
        drain,
        last: after_version,
        ready: VecDeque::new(),
    };
    Ok(stream::try_unfold(watcher, |mut watcher| async move {
        let next = watcher.next().await?;
        Ok(next.map(|change| (change, watcher)))
    }))
}

struct Watcher {
    store: Arc<dyn CatalogStore>,
    served: tokio::sync::watch::Receiver<Served>,
    drain: Drain,
    last: u64,
    ready: VecDeque<CatalogChange>,
}

impl Watcher {
    async fn next(&mut self) -> Result<Option<CatalogChange>, Status> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                self.last = change.catalog_version;
                return Ok(Some(change));
            }
            let last = self.last;
            let served = tokio::select! {
                served = self.served.wait_for(|served| served.version > last) => {
                    served.map(|served| served.version)
                }
                () = self.drain.begun() => return Ok(None),
            };
            // An error: the refresher has stopped, and so does the stream.
            let Ok(served) = served else { return Ok(None) };
            let found = self.store.changes(last, CHANGES_PAGE).await.map_err(Refusal::from)?;
            self.ready = found.into_iter().filter(|c| c.catalog_version <= served).collect();
            if self.ready.is_empty() {
                return Err(Status::internal("the feed lacks the change that is served"));
            }
        }
    }
}

/// A page of the audit log, newest first.
pub(super) async fn list(
    admin: &Admin,
    request: &ListChangesRequest,
) -> Result<ListChangesResponse, CatalogError> {
    let query = AuditQuery {
        id: request.id.clone(),
        before: place(&request.page_token)?,
        limit: page_size(request.page_size)?,
    };
    let page = admin.catalog.store().audit(&query).await?;
    let token = |(version, line)| encode_token(&format!("{version}.{line}"));
    Ok(ListChangesResponse {
        changes: page.records,
        next_page_token: page.next_before.map(token).unwrap_or_default(),
    })
}

fn place(token: &str) -> Result<Option<(u64, u64)>, CatalogError> {
    let place = decode_token(token)?;
    if place.is_empty() {
        return Ok(None);
    }
    let pair = place.split_once('.').and_then(|(version, line)| {
        Some((version.parse::<u64>().ok()?, line.parse::<u64>().ok()?))
    });
    let is_ours = pair.filter(|(version, line)| i64::try_from(*version.max(line)).is_ok());
    let unknown = || CatalogError::refused(Problem::invalid("page_token", "is none of this call"));
    is_ours.map(Some).ok_or_else(unknown)
}
