//! The keys as they are now, for whoever seals or opens.

use std::sync::Arc;

use super::TokenKeys;

/// Gives the keys of this moment: they may change while the process runs. Prints no key.
pub struct CurrentKeys(Box<dyn Fn() -> Arc<TokenKeys> + Send + Sync>);

impl CurrentKeys {
    /// Keys that stay.
    pub fn fixed(keys: TokenKeys) -> Self {
        let keys = Arc::new(keys);
        Self::of(move || Arc::clone(&keys))
    }

    /// Those that `current` gives, which must be quick.
    pub fn of(current: impl Fn() -> Arc<TokenKeys> + Send + Sync + 'static) -> Self {
        Self(Box::new(current))
    }

    /// The keys of now; taken once for each answer or event.
    pub fn current(&self) -> Arc<TokenKeys> {
        (self.0)()
    }
}
