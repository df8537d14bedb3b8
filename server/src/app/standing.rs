//! Kills of this node that the store does not know yet are written to it once it is back.

use std::sync::Arc;
use std::time::Duration;

use slotwise_core::index::Key;
use slotwise_core::model::{CampaignId, Status};
use tokio::task::JoinHandle;

use crate::catalog::CatalogError;
use crate::doors::Admin;
use crate::refresh::wait_for_change;

/// How often it is tried.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// How long a stored pause may take to be served; it is looked at again afterwards.
const SERVED_MAX: Duration = Duration::from_secs(10);
/// Who the audit log says it was; the call itself was written to the node's log.
const ACTOR: &str = "kill switch";

/// Writes them for as long as the process runs.
pub(super) fn write_back(admin: Arc<Admin>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut count = admin.kills.count();
        // An error: nobody holds the kills any more.
        while count.wait_for(|count| *count > 0).await.is_ok() {
            for campaign in admin.kills.held() {
                write(&admin, &campaign).await;
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
    })
}

async fn write(admin: &Admin, campaign: &CampaignId) {
    let _not_with_an_activation = admin.switching.lock().await;
    if !admin.kills.holds(campaign) {
        return;
    }
    let key = Key::Campaign(campaign.clone());
    let before = admin.served.borrow().version;
    match admin.catalog.set_status(&key, Status::Paused, ACTOR).await {
        Ok(change) => {
            let mut served = admin.served.clone();
            if wait_for_change(&mut served, before, change, SERVED_MAX).await {
                tracing::info!(%campaign, version = change.version, "a kill of this node is stored");
                admin.kills.release(&admin.index, campaign);
            }
        }
        // Nothing is left that could be shown.
        Err(CatalogError::NotFound { .. }) => admin.kills.release(&admin.index, campaign),
        Err(error) => tracing::debug!(%error, %campaign, "a kill of this node is not stored yet"),
    }
}
