//! One decision from the request to the answer: convert in, index, decide, profile, convert out.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use rand_core::{Rng as _, SeedableRng};
use slotwise_core::decide::{Decision, Rng, Strict, StrictAsk};
use slotwise_core::index::Index;
use slotwise_core::model::Profile;
use slotwise_proto::v1::{ChooseAdsRequest, ChooseAdsResponse, NoAdReason};

use super::super::refusal::Refusal;
use super::answer;
use super::ask::{Ask, Visit};
use crate::hours::hour_of_week;
use crate::limits::PROFILE_READ_MAX;
use crate::ports::{Admission, Clock, ProfileStore, VisitorKey};
use crate::refresh::Freshness;
use crate::telemetry::{Counters, Metric, Outcome};
use crate::visitors::VisitorHash;

thread_local! {
    static SEEDS: RefCell<Option<Rng>> = const { RefCell::new(None) };
}

/// Answers ChooseAds.
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
    /// What is counted.
    pub counters: Arc<Counters>,
}

impl Chooser {
    /// Chooses; counted as exactly one outcome, also when it is given up on the way.
    pub(super) async fn choose(
        &self,
        request: &ChooseAdsRequest,
    ) -> Result<ChooseAdsResponse, Refusal> {
        let outcome = Outcome::new(&self.counters);
        let result = self.decide(request).await;
        outcome.is(match &result {
            Ok(response) if response.ads.is_empty() => Metric::DecisionsUnfilled,
            Ok(_) => Metric::DecisionsFilled,
            Err(_) => Metric::DecisionsRefused,
        });
        result
    }

    async fn decide(&self, request: &ChooseAdsRequest) -> Result<ChooseAdsResponse, Refusal> {
        let now_us = self.clock.now_us();
        let ask = Ask::new(request, now_us)?;
        self.counters.add(Metric::KeywordsIgnored, ask.ignored_keywords as u64);
        let mut rng = request.seed.map_or_else(unseeded, Rng::seed_from_u64);
        let request_id = match request.request_id.as_str() {
            "" => format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64()),
            given => given.to_owned(),
        };
        // Before the block: the version that is told is never newer than what was decided on.
        let campaigns = self.index.campaigns();
        let none = |reason| Ok(answer::none(request_id.clone(), reason, campaigns.version));
        if self.freshness.is_stale(now_us) {
            return none(NoAdReason::CatalogStale);
        }
        let Some(block) = self.index.zone(&request.site_id, &request.zone_id) else {
            return none(NoAdReason::ZoneUnknown);
        };
        if block.entries.is_empty() {
            return none(NoAdReason::ZoneEmpty);
        }
        let account = block.account.serial;
        let (visit, mut query) = ask.into_parts();
        query.hour_of_week = hour_of_week(&block.account.time_zone, query.now_us);
        let is_known = query.visitor_known;
        let mut decision = Decision::new(block, query, &mut rng);
        let asks_profile = decision.look(&campaigns);
        let mut response = if asks_profile && is_known {
            let visitor = VisitorKey { account, visitor: self.visitors.of(&request.user_id) };
            let wait = profile_wait(request.timeout_ms);
            self.admit_known(&mut decision, visitor, &visit, wait).await
        } else {
            // Caps hold inside one answer, whoever sees it. The table is the one that said that
            // no history matters.
            let mut nobody = Profile::default();
            let winners = decision.admit(&campaigns, &mut nobody, 0, Strict::Local);
            answer::filled(&winners.unwrap_or_default(), &campaigns, &visit)
        };
        response.request_id = request_id;
        Ok(response)
    }

    /// Admits under the visitor's history.
    async fn admit_known(
        &self,
        decision: &mut Decision,
        visitor: VisitorKey,
        visit: &Visit,
        wait: Duration,
    ) -> ChooseAdsResponse {
        let id = unseeded().next_u64();
        let mut admitting = Admitting { index: &self.index, decision, visit, id, response: None };
        let known = if visit.dry_run {
            self.profiles.read(visitor, visit.now_us, wait).await.map(|known| {
                let mut profile = known.profile;
                if visit.is_replay {
                    profile.rewind(visit.now_us);
                }
                let strict = if known.is_certain { Strict::Local } else { Strict::Withheld };
                admitting.admit(&mut profile, strict);
            })
        } else {
            self.profiles.admit(visitor, visit.now_us, wait, &mut admitting).await
        };
        if let Err(error) = &known {
            tracing::debug!(%error, "a profile is not to be had: capped ads are withheld");
            self.counters.add(Metric::ProfilesUnavailable, 1);
        }
        admitting.response.unwrap_or_else(|| {
            let campaigns = self.index.campaigns();
            let winners = decision.admit_uncapped(&campaigns);
            answer::filled(&winners, &campaigns, visit)
        })
    }
}

/// A decision that is being admitted under a visitor's history.
struct Admitting<'a> {
    index: &'a Index,
    decision: &'a mut Decision,
    visit: &'a Visit,
    /// The decision's own id; never seeded.
    id: u64,
    response: Option<ChooseAdsResponse>,
}

impl Admission for Admitting<'_> {
    fn admit(&mut self, profile: &mut Profile, strict: Strict<'_>) -> Option<StrictAsk> {
        // Loaded anew, as time has passed where the profile had to be read: what was switched
        // off meanwhile must not be shown.
        let campaigns = self.index.campaigns();
        match self.decision.admit(&campaigns, profile, self.id, strict) {
            Ok(winners) => self.response = Some(answer::filled(&winners, &campaigns, self.visit)),
            Err(ask) => return Some(ask),
        }
        None
    }
}

/// How long the profile may take: what the caller allows, or our own bound.
fn profile_wait(timeout_ms: u32) -> Duration {
    match timeout_ms {
        0 => PROFILE_READ_MAX,
        given => Duration::from_millis(given.into()),
    }
}

/// A generator that nobody can foresee.
fn unseeded() -> Rng {
    SEEDS.with_borrow_mut(|seeds| {
        let seeds = seeds.get_or_insert_with(|| {
            let mut seed = [0; 32];
            // Without the system's randomness ties are still broken, by the address space's.
            if getrandom::fill(&mut seed).is_err() {
                let place = std::ptr::from_ref(&seed).addr();
                seed[..size_of::<usize>()].copy_from_slice(&place.to_le_bytes());
            }
            Rng::from_seed(seed)
        });
        Rng::seed_from_u64(seeds.next_u64())
    })
}
