//! A decision on its way out.

use slotwise_core::decide::Winner;
use slotwise_core::index::Campaigns;
use slotwise_proto::v1::{ChooseAdsResponse, ChosenAd, Creative, NoAdReason, Size};

use super::super::refusal::Refusal;
use super::ask::Visit;

/// The answer with these winners, of which there may be none.
pub(super) fn filled(
    winners: &[Winner<'_>],
    campaigns: &Campaigns,
    visit: &Visit,
) -> ChooseAdsResponse {
    let reason =
        if winners.is_empty() { NoAdReason::AllTurnedDown } else { NoAdReason::Unspecified };
    ChooseAdsResponse {
        ads: winners.iter().map(|winner| chosen(winner, campaigns, visit.with_facts)).collect(),
        no_ad_reason: reason.into(),
        catalog_version: campaigns.version,
        ..ChooseAdsResponse::default()
    }
}

/// One chosen ad; with `with_facts` also its size, domains and categories.
fn chosen(winner: &Winner<'_>, campaigns: &Campaigns, with_facts: bool) -> ChosenAd {
    let entry = winner.entry;
    let creative = with_facts.then(|| {
        let campaign = campaigns.get(entry.campaign).map(|row| &row.campaign);
        Creative {
            size: entry.ad.size.map(|size| Size { width: size.width, height: size.height }),
            advertiser_domains: campaign.map(|c| c.advertiser_domains.clone()).unwrap_or_default(),
            categories: campaign.map(|c| c.categories.clone()).unwrap_or_default(),
            ..Creative::default()
        }
    });
    ChosenAd {
        campaign_id: entry.ad.campaign.to_string(),
        ad_unit_id: entry.ad.unit.to_string(),
        ecpm_micros: entry.ecpm_micros,
        score: winner.score,
        matched_keywords: winner.matched,
        creative,
        ..ChosenAd::default()
    }
}

/// An answer with nothing in it but why.
pub(super) fn none(request_id: String, reason: NoAdReason, version: u64) -> ChooseAdsResponse {
    ChooseAdsResponse {
        request_id,
        no_ad_reason: reason.into(),
        catalog_version: version,
        ..ChooseAdsResponse::default()
    }
}

/// What stands in a batch or a stream for a request that was refused.
pub(super) fn refused(request_id: String, refusal: Refusal) -> ChooseAdsResponse {
    ChooseAdsResponse {
        request_id,
        error: Some(refusal.into_request_error()),
        ..ChooseAdsResponse::default()
    }
}
