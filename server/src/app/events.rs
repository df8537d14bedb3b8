//! What the event door works with.

use std::sync::Arc;

use anyhow::Context;
use async_trait::async_trait;

use super::Recording;
use crate::bots::Bots;
use crate::config::Config;
use crate::doors::{Events, Landings};
use crate::events::Settling;
use crate::ports::Clock;
use crate::telemetry::Counters;
use crate::tokens::{CurrentKeys, Showing, TokenKeys};

/// Gathers it.
pub(super) fn events(
    config: &Config,
    token_secret: [u8; 32],
    landings: Landings,
    recording: &Recording,
    clock: &Arc<dyn Clock>,
    counters: &Arc<Counters>,
) -> anyhow::Result<Events> {
    let keys = CurrentKeys::fixed(TokenKeys::new(&[(STORED_KEY, token_secret)])?);
    Ok(Events {
        keys: Arc::new(keys),
        lives: config.lives,
        trusts_occurred_at: config.events_trust_occurred_at,
        landings,
        recorder: Arc::clone(&recording.recorder),
        settling: Arc::new(NothingHeld),
        clock: Arc::clone(clock),
        bots: Bots::known().context("what was built in")?,
        counters: Arc::clone(counters),
    })
}

/// The number of the key that the store makes by itself.
const STORED_KEY: u8 = 0;

/// No decision of this version holds anything until its impression: `ON_IMPRESSION` is refused.
struct NothingHeld;

#[async_trait]
impl Settling for NothingHeld {
    async fn seen(&self, _: &Showing, _: i64) {}

    async fn lost(&self, _: &Showing, _: i64) {}
}
