//! What decisions and events share of a showing: keys, names, and the places that are held.

use std::sync::Arc;

use anyhow::Context;

use super::guards::Guards;
use super::stores::Stores;
use crate::bots::Bots;
use crate::config::{Config, DefaultExposure};
use crate::doors::{Events, Landings, Mint};
use crate::events::Recorder;
use crate::exposures::Exposures;
use crate::ports::Clock;
use crate::refresh::Node;
use crate::serials::Serials;
use crate::telemetry::Counters;
use crate::tokens::CurrentKeys;

/// See the module.
pub struct Showings {
    /// The keys of tokens.
    pub token_keys: Arc<CurrentKeys>,
    /// What this node knows by the serials in tokens.
    pub serials: Arc<Serials>,
    /// What settles the places that decisions hold.
    pub exposures: Arc<Exposures>,
}

impl Showings {
    pub(super) fn new(
        config: &Config,
        guards: &mut Guards,
        stores: &Stores,
        node: &Node,
        counters: &Arc<Counters>,
    ) -> anyhow::Result<Self> {
        let serials = Arc::clone(&node.serials);
        let exposures = Arc::new(Exposures {
            index: Arc::clone(&node.index),
            serials: Arc::clone(&serials),
            profiles: Arc::clone(&stores.profiles),
            counters: Arc::clone(counters),
        });
        let token_keys = Arc::new(guards.token_keys(config, stores.token_secret)?);
        Ok(Self { token_keys, serials, exposures })
    }

    /// What names the ads of answers.
    pub(super) fn mint(&self, config: &Config) -> Mint {
        Mint {
            keys: Arc::clone(&self.token_keys),
            serials: Arc::clone(&self.serials),
            // The event door's own address, once it is known, where nothing is said.
            event_base_url: config.event_base_url.clone().unwrap_or_default(),
            on_impression: config.default_exposure == DefaultExposure::OnImpression,
        }
    }

    /// What the event door works with.
    pub(super) fn events(
        &self,
        config: &Config,
        stores: &Stores,
        recorder: Arc<dyn Recorder>,
        clock: &Arc<dyn Clock>,
        counters: &Arc<Counters>,
    ) -> anyhow::Result<Events> {
        Ok(Events {
            keys: Arc::clone(&self.token_keys),
            lives: config.lives,
            trusts_occurred_at: config.events_trust_occurred_at,
            landings: Landings::new(Arc::clone(&self.serials), Arc::clone(&stores.catalog)),
            recorder,
            settling: Arc::<Exposures>::clone(&self.exposures),
            clock: Arc::clone(clock),
            bots: Bots::known().context("the list of bots")?,
            counters: Arc::clone(counters),
        })
    }
}
