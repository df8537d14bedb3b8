//! A decision under what is known of the visitor, and where its randomness comes from.

use std::cell::RefCell;
use std::time::Duration;

use rand_core::{Rng as _, SeedableRng};
use slotwise_core::decide::{Decision, Rng, Strict, StrictAsk};
use slotwise_core::index::{Campaigns, Index};
use slotwise_core::model::Profile;

use super::super::ask::Visit;
use super::Chooser;
use crate::limits::PROFILE_READ_MAX;
use crate::ports::{Admission, Known, StoreError, VisitorKey};
use crate::telemetry::Metric;

thread_local! {
    static SEEDS: RefCell<Option<Rng>> = const { RefCell::new(None) };
}

/// What a decision was settled on.
pub(in crate::doors::grpc) struct Settled {
    /// The table that its winners were held against.
    pub(in crate::doors::grpc) campaigns: Campaigns,
    /// The profile after it, where it is to be explained; nothing: not to be had.
    pub(in crate::doors::grpc) profile: Option<Profile>,
    /// What has strict caps was passed over, as nobody could say that they hold.
    pub(in crate::doors::grpc) strict_withheld: bool,
}

impl Chooser {
    /// Settles `decision` on the visitor's profile, read at most once, and only where it matters
    /// to a would-be winner or to an explanation. What is recorded has the decision's `id`, as
    /// its tokens have: never seeded.
    pub(super) async fn settle(
        &self,
        decision: &mut Decision,
        campaigns: Campaigns,
        visitor: Option<VisitorKey>,
        id: u64,
        visit: &Visit<'_>,
    ) -> Settled {
        let asks_profile = decision.look(&campaigns);
        if let Some(visitor) = visitor.filter(|_| asks_profile || visit.explain_max.is_some()) {
            drop(campaigns);
            return self.settle_known(decision, visitor, id, visit).await;
        }
        let mut nobody = Profile::default();
        if asks_profile {
            // Caps hold inside one answer, whoever sees it. One that is [`Strict::Local`] never
            // asks.
            let _ = decision.admit(&campaigns, &mut nobody, 0, Strict::Local);
        }
        Settled { campaigns, profile: Some(nobody), strict_withheld: false }
    }

    async fn settle_known(
        &self,
        decision: &mut Decision,
        visitor: VisitorKey,
        id: u64,
        visit: &Visit<'_>,
    ) -> Settled {
        let wait = profile_wait(visit.timeout_ms);
        let mut admitting = Admitting {
            index: &self.index,
            decision,
            id,
            keeps_profile: visit.explain_max.is_some(),
            settled: None,
        };
        let known = if visit.dry_run {
            let known = self.profiles.read(visitor, visit.now_us, wait).await;
            known.and_then(|known| admitting.admit_copy(known, visit))
        } else {
            self.profiles.admit(visitor, visit.now_us, wait, &mut admitting).await
        };
        if let Err(error) = &known {
            tracing::debug!(%error, "a profile is not to be had: capped ads are withheld");
            self.counters.add(Metric::ProfilesUnavailable, 1);
        }
        let Admitting { decision, settled, .. } = admitting;
        settled.unwrap_or_else(|| {
            let campaigns = self.index.campaigns();
            decision.admit_unknown(&campaigns);
            Settled { campaigns, profile: None, strict_withheld: true }
        })
    }
}

/// A decision that is being admitted under a visitor's history.
struct Admitting<'a> {
    index: &'a Index,
    decision: &'a mut Decision,
    /// The decision's own id.
    id: u64,
    keeps_profile: bool,
    settled: Option<Settled>,
}

impl Admitting<'_> {
    /// Decides as it would over the store's own profile, and records nothing there.
    fn admit_copy(&mut self, known: Known, visit: &Visit<'_>) -> Result<(), StoreError> {
        if known.is_late {
            return Err(StoreError::Unavailable("the profile is late".to_owned()));
        }
        let mut profile = known.profile;
        if visit.is_replay {
            profile.rewind(visit.now_us);
        }
        let strict = if known.is_certain { Strict::Local } else { Strict::Withheld };
        self.admit(&mut profile, strict);
        Ok(())
    }
}

impl Admission for Admitting<'_> {
    fn admit(&mut self, profile: &mut Profile, strict: Strict<'_>) -> Option<StrictAsk> {
        // Loaded anew, as time has passed where the profile had to be read: what was switched
        // off meanwhile must not be shown.
        let campaigns = self.index.campaigns();
        if let Err(ask) = self.decision.admit(&campaigns, profile, self.id, strict) {
            return Some(ask);
        }
        self.settled = Some(Settled {
            campaigns,
            profile: self.keeps_profile.then(|| profile.clone()),
            strict_withheld: matches!(strict, Strict::Withheld),
        });
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

/// The generator of this seed; without one, a generator that nobody can foresee.
pub(in crate::doors::grpc) fn generator(seed: Option<u64>) -> Rng {
    if let Some(seed) = seed {
        return Rng::seed_from_u64(seed);
    }
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

/// An id for a request that has none.
pub(super) fn made_id(rng: &mut Rng) -> String {
    format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64())
}
