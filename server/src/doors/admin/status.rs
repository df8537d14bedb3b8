//! SetCampaignStatus: stopped here, stored, and then waited for until every node serves it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slotwise_core::index::Key;
use slotwise_core::model::{CampaignId, Status};
use slotwise_proto::v1::{SetCampaignStatusRequest, SetCampaignStatusResponse};

use super::Admin;
use crate::catalog::{CatalogError, STATUS_WANTED, StatusChange, status_from};
use crate::doors::refusal::Refusal;
use crate::limits::{ANSWER_PATIENCE, STATUS_WAIT_DEFAULT, STATUS_WAIT_MAX};
use crate::ports::{NodeReport, StoreError};
use crate::refresh::wait_for_change;

/// A store that is silent for longer leaves the campaign killed until it is switched again.
const LIFT_WAIT_MAX: Duration = Duration::from_secs(86_400);

/// How a switch is told of before it is stored.
const NOT_STORED: u64 = 0;

pub(super) async fn set(
    admin: &Admin,
    request: &SetCampaignStatusRequest,
    actor: &str,
) -> Result<SetCampaignStatusResponse, Refusal> {
    let began = Instant::now();
    let wait = wait(request)?;
    let status =
        status_from(request.status).ok_or_else(|| Refusal::invalid("status", STATUS_WANTED))?;
    let campaign = CampaignId::from(request.campaign_id.as_str());
    let key = Key::Campaign(campaign.clone());
    let before = admin.served.borrow().version;
    let change = match status {
        Status::Paused => pause(admin, &key, &campaign, actor).await?,
        Status::Active => {
            let _not_with_an_old_kill = admin.switching.lock().await;
            let change = admin.catalog.set_status(&key, status, actor).await?;
            // What was stopped here while the store was away is meant to be shown again.
            admin.kills.release(&admin.index, &campaign);
            Some(change)
        }
    };
    let left = || wait.saturating_sub(began.elapsed());
    let version = change.map_or(NOT_STORED, |change| change.version);
    if let Some(change) = change {
        let mut served = admin.served.clone();
        let is_served = wait_for_change(&mut served, before, change, left()).await;
        if is_served {
            // The table says it now.
            admin.kills.lift(&admin.index, &campaign);
        } else {
            lift_once_served(admin, campaign.clone(), before, change);
        }
    }
    let is_stopped_here = admin.index.is_killed(&campaign);
    let own = admin.fleet.node_id();
    let is_done = |node: &NodeReport| {
        let is_served = change.is_some_and(|change| node.catalog_version >= change.version);
        is_served || (is_stopped_here && node.node_id == own)
    };
    // Nobody else will do what is not stored.
    let others = if change.is_some() { left() } else { Duration::ZERO };
    let tally = admin.fleet.wait(others, is_done).await;
    let elapsed = began.elapsed();
    let (ads, zones) = reach(admin, &key, change).await;
    tracing::info!(
        campaign = %key,
        version,
        ?tally,
        elapsed_ms = elapsed.as_secs_f64() * 1e3,
        "campaign status set"
    );
    Ok(SetCampaignStatusResponse {
        catalog_version: version,
        ads_changed: u32::try_from(ads).unwrap_or(u32::MAX),
        zones_changed: u32::try_from(zones).unwrap_or(u32::MAX),
        nodes_live: tally.live,
        nodes_applied: tally.applied,
        nodes_silent: tally.silent,
        elapsed: prost_types::Duration::try_from(elapsed).ok(),
    })
}

/// Stops the campaign on this node, and then stores that; nothing where the store is away: it is
/// stored once that is back (see [`crate::kills`]), as nobody who asked for a pause wants the
/// campaign back because of a store.
async fn pause(
    admin: &Admin,
    key: &Key,
    campaign: &CampaignId,
    actor: &str,
) -> Result<Option<StatusChange>, Refusal> {
    kill_here(admin, key, campaign).await?;
    match admin.catalog.set_status(key, Status::Paused, actor).await {
        Ok(change) => Ok(Some(change)),
        Err(CatalogError::Store(StoreError::Unavailable(why))) => {
            tracing::warn!(campaign = %key, why, "stopped on this node; to be stored later");
            admin.kills.hold(&admin.index, campaign);
            Ok(None)
        }
        Err(error) => {
            if let CatalogError::NotFound { .. } = error {
                // It went a moment ago. Another one under its name is not to be stopped.
                admin.kills.release(&admin.index, campaign);
            }
            Err(error.into())
        }
    }
}

/// Stops the campaign on this node before anything is stored, so that a slow disk or a large
/// import before us holds up the answer, and not the stop.
async fn kill_here(admin: &Admin, key: &Key, campaign: &CampaignId) -> Result<(), Refusal> {
    // A campaign that is not there must not be remembered. One that is not served may be there: it
    // is new, or its row is damaged, and its switch lies outside of that row.
    if !admin.index.campaigns().has(campaign) {
        admin.catalog.expect(key).await?;
    }
    admin.index.kill(campaign);
    let in_flight = Arc::clone(&admin.in_flight);
    let settled = tokio::task::spawn_blocking(move || in_flight.settle(ANSWER_PATIENCE)).await;
    settled.map_err(|error| Refusal::unavailable(error.to_string()))
}

/// Nobody waits for it any more, but the kill must not outlive the pause: the table decides again
/// once it has the change.
fn lift_once_served(admin: &Admin, campaign: CampaignId, before: u64, change: StatusChange) {
    let (index, kills, mut served) =
        (Arc::clone(&admin.index), Arc::clone(&admin.kills), admin.served.clone());
    tokio::spawn(async move {
        if wait_for_change(&mut served, before, change, LIFT_WAIT_MAX).await {
            kills.lift(&index, &campaign);
        }
    });
}

/// How many ads in how many zones the switch concerns. Only for people: what is stored and served
/// does not fail for want of a count.
async fn reach(admin: &Admin, key: &Key, change: Option<StatusChange>) -> (usize, usize) {
    if !change.is_some_and(|change| change.is_new) {
        return (0, 0);
    }
    admin.catalog.reach(key).await.unwrap_or_else(|error| {
        tracing::warn!(%error, campaign = %key, "its ads could not be counted");
        (0, 0)
    })
}

fn wait(request: &SetCampaignStatusRequest) -> Result<Duration, Refusal> {
    let Some(wait) = request.wait else { return Ok(STATUS_WAIT_DEFAULT) };
    let wait = Duration::try_from(wait).ok().filter(|wait| *wait <= STATUS_WAIT_MAX);
    wait.ok_or_else(|| {
        let limit = STATUS_WAIT_MAX.as_secs();
        Refusal::invalid("wait", format!("is not between 0 s and the limit of {limit} s"))
    })
}
