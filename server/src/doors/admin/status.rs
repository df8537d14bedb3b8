//! SetCampaignStatus: stopped here, stored, and then waited for until it is served.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slotwise_core::index::Key;
use slotwise_core::model::{CampaignId, Status};
use slotwise_proto::v1::{SetCampaignStatusRequest, SetCampaignStatusResponse};

use super::Admin;
use crate::catalog::{STATUS_WANTED, status_from};
use crate::doors::refusal::Refusal;
use crate::limits::{ANSWER_PATIENCE, STATUS_WAIT_DEFAULT, STATUS_WAIT_MAX};
use crate::refresh::wait_for_version;

/// A store that is silent for longer leaves the campaign killed until it is switched again.
const LIFT_WAIT_MAX: Duration = Duration::from_secs(86_400);

/// This node alone.
const NODES_LIVE: u32 = 1;

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
    if status == Status::Paused {
        kill_here(admin, &key, &campaign).await?;
    }
    // Where this fails after a kill, the campaign stays killed on this node: nobody who asked for
    // a pause wants it back because a disk is full.
    let change = admin.catalog.set_status(&key, status, actor).await?;
    let left = wait.saturating_sub(began.elapsed());
    let is_served = wait_for_version(&mut admin.served.clone(), change.version, left).await;
    let is_applied = is_served || admin.index.is_killed(&campaign);
    if is_served {
        // The table says it now.
        admin.index.lift(&campaign);
    } else {
        lift_once_served(admin, campaign, change.version);
    }
    let elapsed = began.elapsed();
    // Only for people: what is stored and served does not fail for want of a count.
    let reach = if change.is_new { admin.catalog.reach(&key).await } else { Ok((0, 0)) };
    let (ads, zones) = reach.unwrap_or_else(|error| {
        tracing::warn!(%error, campaign = %key, "its ads could not be counted");
        (0, 0)
    });
    tracing::info!(
        campaign = %key,
        version = change.version,
        is_applied,
        elapsed_ms = elapsed.as_secs_f64() * 1e3,
        "campaign status set"
    );
    Ok(SetCampaignStatusResponse {
        catalog_version: change.version,
        ads_changed: u32::try_from(ads).unwrap_or(u32::MAX),
        zones_changed: u32::try_from(zones).unwrap_or(u32::MAX),
        nodes_live: NODES_LIVE,
        nodes_applied: u32::from(is_applied),
        nodes_silent: 0,
        elapsed: prost_types::Duration::try_from(elapsed).ok(),
    })
}

/// Stops the campaign on this node before anything is stored, so that a slow disk or a large
/// import before us holds up the answer, and not the stop.
async fn kill_here(admin: &Admin, key: &Key, campaign: &CampaignId) -> Result<(), Refusal> {
    // A campaign that is not there must not be remembered. One whose row is damaged is there: its
    // switch lies outside of that row.
    admin.catalog.expect(key).await?;
    admin.index.kill(campaign);
    let in_flight = Arc::clone(&admin.in_flight);
    let settled = tokio::task::spawn_blocking(move || in_flight.settle(ANSWER_PATIENCE)).await;
    settled.map_err(|error| Refusal::unavailable(error.to_string()))
}

/// Nobody waits for it any more, but the kill must not outlive the pause: the table decides again
/// once it has the change.
fn lift_once_served(admin: &Admin, campaign: CampaignId, version: u64) {
    let (index, mut served) = (Arc::clone(&admin.index), admin.served.clone());
    tokio::spawn(async move {
        if wait_for_version(&mut served, version, LIFT_WAIT_MAX).await {
            index.lift(&campaign);
        }
    });
}

fn wait(request: &SetCampaignStatusRequest) -> Result<Duration, Refusal> {
    let Some(wait) = request.wait else { return Ok(STATUS_WAIT_DEFAULT) };
    let wait = Duration::try_from(wait).ok().filter(|wait| *wait <= STATUS_WAIT_MAX);
    wait.ok_or_else(|| {
        let limit = STATUS_WAIT_MAX.as_secs();
        Refusal::invalid("wait", format!("is not between 0 s and the limit of {limit} s"))
    })
}
