//! One decision from the request to the answer: convert in, index, look, profile, admit, convert
//! out. ChooseAds goes the way of a page with one placement.

mod settle;
mod zones;

use std::sync::Arc;

use rand_core::Rng as _;
use slotwise_core::decide::Decision;
use slotwise_core::index::Index;
use slotwise_proto::v1::{
    ChooseAdsRequest, ChooseAdsResponse, ChoosePageRequest, ChoosePageResponse, Exposure,
};

use super::super::refusal::Refusal;
use super::answer::{self, Filled, Fillings};
use super::ask::{Ask, Place};
use super::explain::{Aside, Grounds};
use super::mint::{Mint, Minting};
use crate::hours::hour_of_week;
use crate::limits::HOLD_US;
use crate::ports::{Clock, ProfileStore, VisitorKey};
use crate::refresh::Freshness;
use crate::telemetry::{Counters, Metric, Outcome};
use crate::visitors::VisitorHash;

pub(super) use settle::Settled;
pub(super) use settle::generator;
use settle::made_id;
use zones::Zones;

/// Answers ChooseAds and ChoosePage.
pub struct Chooser {
    /// What may be shown where.
    pub index: Arc<Index>,
    /// What visitors have seen.
    pub profiles: Arc<dyn ProfileStore>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What stands for a visitor's id.
    pub visitors: VisitorHash,
    /// How fresh the index is, and has to be.
    pub freshness: Freshness,
    /// What names the ads of an answer.
    pub mint: Mint,
    /// What is counted.
    pub counters: Arc<Counters>,
}

/// What became of a request's placements.
struct Answer {
    /// The id that was made for the request; empty: it has one.
    request_id: String,
    catalog_version: u64,
    /// In the order of the placements.
    filled: Fillings,
}

impl Chooser {
    /// Chooses; counted as exactly one outcome, also when it is given up on the way. The answer
    /// takes the request's id.
    ///
    /// # Errors
    /// What is wrong with the request.
    pub(super) async fn choose_ads(
        &self,
        request: &mut ChooseAdsRequest,
    ) -> Result<ChooseAdsResponse, Refusal> {
        let outcome = Outcome::new(&self.counters);
        let now_us = self.clock.now_us();
        let (ask, place) = match Ask::of_ads(request, now_us) {
            Ok(parts) => parts,
            Err(refusal) => return self.refused(outcome, refusal),
        };
        let answer = self.decide(ask, now_us, std::iter::once(Ok(place))).await;
        let Answer { request_id, catalog_version, filled } = answer;
        outcome.is(of_filled(&filled));
        let filled = filled.into_iter().next().unwrap_or_default();
        let mut response = filled.into_response(request_id, catalog_version);
        if response.request_id.is_empty() {
            response.request_id = std::mem::take(&mut request.request_id);
        }
        Ok(response)
    }

    /// Chooses for a page; counted as one outcome as well.
    ///
    /// # Errors
    /// What is wrong with the page as a whole. What is wrong with a placement is in its answer.
    pub(super) async fn choose_page(
        &self,
        request: &mut ChoosePageRequest,
    ) -> Result<ChoosePageResponse, Refusal> {
        let outcome = Outcome::new(&self.counters);
        let now_us = self.clock.now_us();
        let (ask, places) = match Ask::of_page(request, now_us) {
            Ok(parts) => parts,
            Err(refusal) => return self.refused(outcome, refusal),
        };
        let answer = self.decide(ask, now_us, places.into_iter()).await;
        let Answer { mut request_id, catalog_version, filled } = answer;
        outcome.is(of_filled(&filled));
        if request_id.is_empty() {
            request_id = std::mem::take(&mut request.request_id);
        }
        let ids = request.placements.iter_mut().map(|p| std::mem::take(&mut p.placement_id));
        let placements = ids.zip(filled).map(|(id, filled)| filled.into_placement(id)).collect();
        Ok(ChoosePageResponse { request_id, placements, catalog_version })
    }

    fn refused<T>(&self, outcome: Outcome<'_>, refusal: Refusal) -> Result<T, Refusal> {
        outcome.is(Metric::DecisionsRefused);
        Err(refusal)
    }

    /// The one way through.
    async fn decide<'r>(
        &self,
        ask: Ask<'r>,
        asked_at_us: i64,
        places: impl ExactSizeIterator<Item = Result<Place<'r>, Refusal>>,
    ) -> Answer {
        let Ask { mut page, visit, ignored_keywords } = ask;
        self.counters.add(Metric::KeywordsIgnored, ignored_keywords as u64);
        let rng = generator(visit.seed);
        // Of a copy: whether an id has to be made changes nothing of the choice.
        let request_id = if visit.makes_id { made_id(&mut rng.clone()) } else { String::new() };
        // Before the blocks: the version that is told is never newer than what was decided on.
        let campaigns = self.index.campaigns();
        let catalog_version = campaigns.version;
        let is_stale = self.freshness.is_stale(asked_at_us);
        let Zones { open, mut filled, numbers, .. } = Zones::find(&self.index, is_stale, places);
        if visit.explain_max.is_some() {
            filled.iter_mut().for_each(Filled::explain_empty);
        }
        // All of a page are of one account.
        let Some((first, _)) = open.first() else {
            return Answer { request_id, catalog_version, filled };
        };
        let account = first.account.serial;
        page.hour_of_week = hour_of_week(&first.account.time_zone, page.now_us);
        let on_impression = match visit.exposure {
            Exposure::Unspecified => self.mint.on_impression,
            Exposure::OnDecision => false,
            Exposure::OnImpression => true,
        };
        page.holds_us = on_impression.then_some(HOLD_US);
        let is_known = !visit.user_id.is_empty();
        let visitor = is_known.then(|| self.visitors.of(visit.user_id));
        let mut fresh = generator(None);
        let id = fresh.next_u64();
        let explained = visit.explain_max.map(|max| Aside::new(&open, max));
        let mut decision = Decision::new(page, open, rng);
        let key = visitor.map(|visitor| VisitorKey { account, visitor });
        let settled = self.settle(&mut decision, campaigns, key, id, &visit).await;
        let minting = Minting {
            mint: &self.mint,
            keys: (!visit.dry_run).then(|| self.mint.keys.current()),
            decision: id,
            rng: fresh,
            now_us: asked_at_us,
            on_impression,
            visitor,
            detail: visit.detail,
            request_id: if visit.makes_id { &request_id } else { visit.request_id },
        };
        answer::fill(&mut filled, &numbers, &decision, &settled.campaigns, minting);
        if let Some(aside) = explained {
            let grounds = Grounds { settled: &settled, visit: &visit };
            // In a box: its state is not a part of every decision's.
            Box::pin(aside.explain(&decision, grounds, &mut filled, &numbers)).await;
        }
        Answer { request_id, catalog_version, filled }
    }
}

/// What a decision with these placements counts as.
fn of_filled(filled: &[Filled]) -> Metric {
    match filled.iter().any(Filled::has_ads) {
        true => Metric::DecisionsFilled,
        false => Metric::DecisionsUnfilled,
    }
}
