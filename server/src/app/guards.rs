//! Who may come in at which door, and how its calls are encrypted: read from files before anything
//! is opened, and again whenever they change.

use std::sync::Arc;

use crate::config::{Config, FileError, TlsFiles};
use crate::doors::{ClientCertificates, Drain, FOR_BROWSERS, FOR_CALLS, Identities, Reloaded, Tls};
use crate::tokens::{CurrentKeys, TokenKeys};

/// What the doors are guarded with; nothing: a door in clear, or one that asks nobody.
pub(super) struct Guards {
    pub(super) decision_tls: Option<Arc<Tls>>,
    pub(super) event_tls: Option<Arc<Tls>>,
    pub(super) admin_tls: Option<Arc<Tls>>,
    pub(super) identities: Option<Arc<Reloaded<Identities>>>,
    /// What tokens are sealed with, where a file says it.
    token_keys: Option<Arc<Reloaded<TokenKeys>>>,
}

impl Guards {
    /// Reads every file that `config` names.
    pub(super) fn read(config: &Config) -> Result<Self, FileError> {
        let read = |files: &Option<TlsFiles>, wanted, protocols| {
            files.as_ref().map(|files| Tls::read(files, wanted, protocols)).transpose()
        };
        let admin_tls = config.admin_tls.as_ref();
        let asks_for_certificates = admin_tls.is_some_and(|tls| tls.client_ca.is_some());
        let identities = config.admin_identities.clone();
        Ok(Self {
            decision_tls: read(&config.decision_tls, ClientCertificates::Required, FOR_CALLS)?,
            event_tls: read(&config.event_tls, ClientCertificates::Required, FOR_BROWSERS)?,
            // There a token will do as well.
            admin_tls: read(&config.admin_tls, ClientCertificates::Asked, FOR_CALLS)?,
            identities: identities
                .map(|file| Identities::read(file, asks_for_certificates))
                .transpose()?,
            token_keys: None,
        })
    }

    /// The keys of tokens: those of the file that `config` names, and the store's.
    pub(super) fn token_keys(
        &mut self,
        config: &Config,
        of_store: [u8; 32],
    ) -> anyhow::Result<CurrentKeys> {
        let Some(file) = config.token_keys.clone() else {
            return Ok(CurrentKeys::fixed(TokenKeys::new(&[(0, of_store)])?));
        };
        let kept = Reloaded::load(vec![file.clone()], move |contents| {
            let bytes = contents.first().map_or(&[][..], Vec::as_slice);
            TokenKeys::from_file(bytes, of_store).map_err(|problem| file.refuse(problem))
        })?;
        self.token_keys = Some(Arc::clone(&kept));
        Ok(CurrentKeys::of(move || kept.borrowed()))
    }

    /// Keeps up with the files until `drain` begins.
    pub(super) fn follow(&self, drain: &Drain) {
        for tls in [&self.decision_tls, &self.event_tls, &self.admin_tls].into_iter().flatten() {
            tokio::spawn(Arc::clone(tls).follow(drain.clone()));
        }
        if let Some(identities) = &self.identities {
            tokio::spawn(Arc::clone(identities).follow(drain.clone()));
        }
        if let Some(token_keys) = &self.token_keys {
            tokio::spawn(Arc::clone(token_keys).follow(drain.clone()));
        }
    }
}
