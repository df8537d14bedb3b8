//! The keys as they are now, for whoever seals or opens.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::TokenKeys;

/// Gives the keys of this moment: they may change while the process runs. Prints no key.
pub struct CurrentKeys(Box<dyn Fn() -> KeysNow + Send + Sync>);

/// The keys of one moment, borrowed: two threads that count who has them would wait for each other
/// at every decision.
pub type KeysNow = Guard<Arc<TokenKeys>>;

impl CurrentKeys {
    /// Keys that stay.
    pub fn fixed(keys: TokenKeys) -> Self {
        let keys = ArcSwap::from_pointee(keys);
        Self::of(move || keys.load())
    }

    /// Those that `current` gives, which must be quick.
    pub fn of(current: impl Fn() -> KeysNow + Send + Sync + 'static) -> Self {
        Self(Box::new(current))
    }

    /// The keys of now; taken once for each answer or event.
    pub fn current(&self) -> KeysNow {
        (self.0)()
    }
}
