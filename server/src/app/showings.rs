//! What decisions and events share of a showing: keys, names, and the places that are held.

use std::sync::Arc;

use slotwise_core::index::Index;

use super::guards::Guards;
use super::stores::Stores;
use crate::config::{Config, DefaultExposure};
use crate::doors::Mint;
use crate::exposures::Exposures;
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
        index: &Arc<Index>,
        counters: &Arc<Counters>,
    ) -> anyhow::Result<Self> {
        let serials = Arc::<Serials>::default();
        let exposures = Arc::new(Exposures {
            index: Arc::clone(index),
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
}
