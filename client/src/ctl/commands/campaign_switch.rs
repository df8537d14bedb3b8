//! `campaign pause` and `activate`: the kill switch, and its way back.

use slotwise_proto::v1::{CampaignStatus, SetCampaignStatusRequest, SetCampaignStatusResponse};

use super::{Context, wire_span};
use crate::ctl::cli::campaign::Switch;
use crate::ctl::error::Error;
use crate::ctl::text::count;
use crate::ctl::time::format_elapsed;
use crate::stubs::CatalogServiceClient;

pub(super) async fn run(
    context: &mut Context,
    args: Switch,
    status: CampaignStatus,
) -> Result<(), Error> {
    let request = SetCampaignStatusRequest {
        campaign_id: args.id.clone(),
        status: status.into(),
        wait: args.wait.map(wire_span),
    };
    let mut catalog = context.catalog().await?;
    catalog.allow(args.wait.unwrap_or_default());
    let answer = catalog.call(request, CatalogServiceClient::set_campaign_status).await?;
    let told = match context.out.is_json() {
        true => context.out.message(&answer),
        false => context.out.line(&sentence(&args.id, status, &answer)),
    };
    match missing(status, &answer) {
        // A closed pipe must not hide that the campaign may still be shown.
        Some(missing) => Err(Error::NotApplied(missing)),
        None => told,
    }
}

fn verbs(status: CampaignStatus) -> (&'static str, &'static str) {
    match status {
        CampaignStatus::Paused => ("paused", "stopped"),
        _ => ("activated", "started"),
    }
}

/// Whether the change waits for a store that is away: no version holds it yet.
fn is_unstored(answer: &SetCampaignStatusResponse) -> bool {
    answer.catalog_version == 0
}

/// What a switch did, in one sentence.
fn sentence(id: &str, status: CampaignStatus, answer: &SetCampaignStatusResponse) -> String {
    let (done, ended) = verbs(status);
    let nodes = match is_unstored(answer) {
        true => "this node".to_owned(),
        false => format!("{} of {}", answer.nodes_applied, count(answer.nodes_live, "node")),
    };
    let elapsed = answer.elapsed.as_ref().map(format_elapsed).unwrap_or_default();
    if answer.ads_changed == 0 && answer.zones_changed == 0 {
        return format!(
            "nothing changed: {id} was {done} before, or none of its ads is in a zone; \
             confirmed by {nodes}"
        );
    }
    let (ads, zones) = (count(answer.ads_changed, "ad"), count(answer.zones_changed, "zone"));
    format!("{done} {id}: {ads} in {zones} {ended} on {nodes} in {elapsed}")
}

/// Where it may still be as before; none when every known node follows.
fn missing(status: CampaignStatus, answer: &SetCampaignStatusResponse) -> Option<String> {
    if is_unstored(answer) {
        let (_, ended) = verbs(status);
        return Some(format!(
            "not stored yet: {ended} on this node only; it will be stored when the store is back; \
             for the other nodes ask each one's own admin door"
        ));
    }
    let behind = answer.nodes_live.saturating_sub(answer.nodes_applied);
    let mut parts = Vec::new();
    if behind > 0 {
        parts.push(format!("{} did not confirm in time", count(behind, "live node")));
    }
    let still = match status {
        CampaignStatus::Paused => "may still serve it",
        _ => "may not serve it yet",
    };
    match answer.nodes_silent {
        0 => {}
        1 => parts.push(format!("1 node has not been heard of and {still}")),
        n => parts.push(format!("{n} nodes have not been heard of and {still}")),
    }
    if parts.is_empty() {
        return None;
    }
    Some(format!("not applied everywhere: {} (asked again, it waits again)", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(ads_changed: u32, nodes: [u32; 3]) -> SetCampaignStatusResponse {
        SetCampaignStatusResponse {
            catalog_version: 12,
            ads_changed,
            zones_changed: if ads_changed == 0 { 0 } else { 5 },
            nodes_live: nodes[0],
            nodes_applied: nodes[1],
            nodes_silent: nodes[2],
            elapsed: Some(prost_types::Duration { seconds: 0, nanos: 2_400_000 }),
        }
    }

    #[test]
    fn a_pause_says_how_much_stopped_and_where() {
        assert_eq!(
            sentence("7:summer", CampaignStatus::Paused, &answer(3, [3, 3, 0])),
            "paused 7:summer: 3 ads in 5 zones stopped on 3 of 3 nodes in 2.4 ms"
        );
        assert_eq!(
            sentence("7:summer", CampaignStatus::Active, &answer(1, [2, 1, 0])),
            "activated 7:summer: 1 ad in 5 zones started on 1 of 2 nodes in 2.4 ms"
        );
        let repeat = sentence("7:summer", CampaignStatus::Paused, &answer(0, [1, 1, 0]));
        assert!(repeat.starts_with("nothing changed: 7:summer was paused"), "{repeat}");
    }

    #[test]
    fn nodes_that_may_still_serve_are_said() {
        let missing = |answer| missing(CampaignStatus::Paused, &answer);
        assert_eq!(missing(answer(12, [3, 3, 0])), None);
        let behind = missing(answer(12, [3, 1, 0])).unwrap();
        assert!(behind.contains("2 live nodes did not confirm"), "{behind}");
        // A repeat too: nothing changed, but it may still be shown somewhere.
        let silent = missing(answer(0, [1, 1, 1])).unwrap();
        assert!(silent.contains("1 node has not been heard of and may still serve it"), "{silent}");
        let silent = missing(answer(1, [2, 1, 2])).unwrap();
        assert!(silent.contains("1 live node did not confirm"), "{silent}");
        assert!(silent.contains("2 nodes have not been heard of"), "{silent}");
    }

    #[test]
    fn what_is_not_stored_is_never_called_done() {
        let unstored = SetCampaignStatusResponse { catalog_version: 0, ..answer(3, [1, 1, 0]) };
        assert_eq!(
            sentence("7:summer", CampaignStatus::Paused, &unstored),
            "paused 7:summer: 3 ads in 5 zones stopped on this node in 2.4 ms"
        );
        let said = missing(CampaignStatus::Paused, &unstored).unwrap();
        assert!(said.contains("stopped on this node only"), "{said}");
    }
}
