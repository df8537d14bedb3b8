//! SetCampaignStatus: stored, and then waited for until it is served.

use std::time::{Duration, Instant};

use slotwise_core::index::Key;
use slotwise_proto::v1::{SetCampaignStatusRequest, SetCampaignStatusResponse};

use super::{ACTOR, Admin};
use crate::doors::refusal::Refusal;
use crate::limits::{STATUS_WAIT_DEFAULT, STATUS_WAIT_MAX};
use crate::refresh::wait_for_version;

/// This node alone.
const NODES_LIVE: u32 = 1;

pub(super) async fn set(
    admin: &Admin,
    request: &SetCampaignStatusRequest,
) -> Result<SetCampaignStatusResponse, Refusal> {
    let began = Instant::now();
    let wait = wait(request)?;
    let key = Key::Campaign(request.campaign_id.as_str().into());
    let change = admin.catalog.set_status(&key, request.status, ACTOR).await?;
    let left = wait.saturating_sub(began.elapsed());
    let is_applied = wait_for_version(&mut admin.served.clone(), change.version, left).await;
    let elapsed = began.elapsed();
    tracing::info!(
        campaign = %key,
        version = change.version,
        is_applied,
        elapsed_ms = elapsed.as_secs_f64() * 1e3,
        "campaign status set"
    );
    Ok(SetCampaignStatusResponse {
        catalog_version: change.version,
        ads_changed: u32::try_from(change.ads).unwrap_or(u32::MAX),
        zones_changed: u32::try_from(change.zones).unwrap_or(u32::MAX),
        nodes_live: NODES_LIVE,
        nodes_applied: u32::from(is_applied),
        nodes_silent: 0,
        elapsed: prost_types::Duration::try_from(elapsed).ok(),
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
