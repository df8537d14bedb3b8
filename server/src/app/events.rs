//! What the event door works with.

use std::sync::Arc;

use anyhow::Context;
use async_trait::async_trait;

use crate::bots::Bots;
use crate::config::Config;
use crate::doors::{Events, Landings};
use crate::events::{Recorder, Settling};
use crate::ports::Clock;
use crate::telemetry::Counters;
use crate::tokens::{CurrentKeys, Showing};

/// Gathers it.
pub(super) fn events(
    config: &Config,
    keys: Arc<CurrentKeys>,
    landings: Landings,
    recorder: Arc<dyn Recorder>,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
) -> anyhow::Result<Events> {
    Ok(Events {
        keys,
        lives: config.lives,
        trusts_occurred_at: config.events_trust_occurred_at,
        landings,
        recorder,
        settling: Arc::new(NothingHeld),
        clock,
        bots: Bots::known().context("what was built in")?,
        counters,
    })
}

/// No decision of this version holds anything until its impression: `ON_IMPRESSION` is refused.
struct NothingHeld;

#[async_trait]
impl Settling for NothingHeld {
    async fn seen(&self, _: &Showing, _: i64) {}

    async fn lost(&self, _: &Showing, _: i64) {}
}
