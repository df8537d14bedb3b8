//! A decision on its way out.

use slotwise_core::decide::Decision;
use slotwise_core::index::Campaigns;
use slotwise_proto::v1::{
    ChooseAdsResponse, ChosenAd, Explanation, NoAdReason, PlacementAnswer, RequestError,
};
use smallvec::SmallVec;

use super::super::refusal::Refusal;
use super::mint::Minting;

/// What one placement was filled with.
#[derive(Default)]
pub(super) struct Filled {
    ads: Vec<ChosenAd>,
    reason: NoAdReason,
    pub(super) explanation: Option<Explanation>,
    error: Option<RequestError>,
}

/// One for each placement, in their order.
pub(super) type Fillings = SmallVec<[Filled; 1]>;

impl Filled {
    /// Nothing, and why.
    pub(super) fn none(reason: NoAdReason) -> Self {
        Self { reason, ..Self::default() }
    }

    /// The placement was refused.
    pub(super) fn refused(refusal: Refusal) -> Self {
        Self { error: Some(refusal.into_request_error()), ..Self::default() }
    }

    /// Where the zone is empty, says so: there is nothing to explain.
    pub(super) fn explain_empty(&mut self) {
        if self.reason == NoAdReason::ZoneEmpty {
            self.explanation = Some(Explanation::default());
        }
    }

    pub(super) fn has_ads(&self) -> bool {
        !self.ads.is_empty()
    }

    /// As the answer of ChooseAds.
    pub(super) fn into_response(
        self,
        request_id: String,
        catalog_version: u64,
    ) -> ChooseAdsResponse {
        ChooseAdsResponse {
            request_id,
            ads: self.ads,
            no_ad_reason: self.reason.into(),
            catalog_version,
            explanation: self.explanation,
            error: self.error,
        }
    }

    /// As a part of the answer of ChoosePage.
    pub(super) fn into_placement(self, placement_id: String) -> PlacementAnswer {
        PlacementAnswer {
            placement_id,
            ads: self.ads,
            no_ad_reason: self.reason.into(),
            explanation: self.explanation,
            error: self.error,
        }
    }
}

/// Puts the winners where they belong, as `minting` makes them: `numbers` says which of `filled` is
/// the answer of which of the decision's placements.
pub(super) fn fill(
    filled: &mut Fillings,
    numbers: &[usize],
    decision: &Decision,
    campaigns: &Campaigns,
    mut minting: Minting<'_>,
) {
    let winners = decision.winners();
    if let [only] = numbers {
        filled[*only].ads.reserve_exact(winners.len());
    }
    for (slot, winner) in winners.enumerate() {
        let filled = &mut filled[numbers[winner.placement]];
        let row = campaigns.get(winner.entry.campaign);
        filled.ads.push(minting.chosen(slot, &winner, row));
        filled.reason = NoAdReason::Unspecified;
    }
}

/// What stands in a batch or a stream for a request that was refused.
pub(super) fn refused(request_id: String, refusal: Refusal) -> ChooseAdsResponse {
    Filled::refused(refusal).into_response(request_id, 0)
}
