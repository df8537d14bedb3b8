//! One zone as Slotwise has it, and the calls of one decision.

use std::sync::Arc;
use std::time::Instant;

use rand_xoshiro::rand_core::SeedableRng;
use slotwise_core::decide::{Decision, Page, Query, Rng, Strict};
use slotwise_core::index::{Builder, Campaigns, Change, Index, ZoneBlock};
use slotwise_core::model::Profile;

use crate::data::{Request, SITE, ZONE, ZoneFacts};

/// A published catalogue with its writer.
#[derive(Default)]
pub(crate) struct Market {
    pub(crate) index: Index,
    builder: Builder,
    version: u64,
}

/// A question on its way into the decision.
pub(crate) struct Asked {
    block: Arc<ZoneBlock>,
    page: Page,
    query: Query,
    rng: Rng,
}

impl Market {
    /// The zone, and the microseconds that it took to apply and publish it.
    pub(crate) fn new(facts: &ZoneFacts) -> (Self, f64) {
        let mut market = Self::default();
        let took_us = market.apply(facts.changes());
        (market, took_us)
    }

    /// Publishes `changes`, none of which may be rejected: in so many microseconds. What they replaced
    /// is freed afterwards.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) -> f64 {
        self.version += 1;
        let began = Instant::now();
        let rejected = self.builder.apply(changes, self.version, &self.index);
        let took_us = began.elapsed().as_secs_f64() * 1e6;
        assert_eq!(rejected, []);
        self.builder.sweep();
        took_us
    }

    pub(crate) fn block(&self) -> Arc<ZoneBlock> {
        self.index.zone(SITE, ZONE).unwrap()
    }

    /// `request`, ready to be asked.
    pub(crate) fn ready(&self, request: &Request) -> Asked {
        let rng = Rng::seed_from_u64(request.seed);
        let (page, query) = request.query();
        Asked { block: self.block(), page, query, rng }
    }
}

/// One whole decision, from its making to its being freed. Adds the winners' scores to `scores`,
/// best first, and returns how many entries of the zone were touched.
///
/// Everything that is timed is in here, and nothing else.
pub(crate) fn decide(asked: Asked, campaigns: &Campaigns, scores: &mut Vec<f64>) -> usize {
    let Asked { block, page, query, rng } = asked;
    let mut decision = Decision::new(page, [(block, query)], rng);
    if decision.look(campaigns) {
        decision.admit(campaigns, &mut Profile::default(), 0, Strict::Local).unwrap();
    }
    scores.extend(decision.winners().map(|winner| winner.score));
    decision.touched()
}

/// Bytes that the search of `block` reads from.
pub(crate) fn memory_bytes(block: &ZoneBlock) -> usize {
    block.memory_bytes()
}
