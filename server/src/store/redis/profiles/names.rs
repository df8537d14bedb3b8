//! What the store calls the content of a profile. No name is given twice, so a node that knows what
//! is called so need not be told again.

use std::sync::atomic::{AtomicU64, Ordering};

/// Gives names that nobody has given before.
pub(super) struct Names {
    /// Drawn at random: no other process gives its names.
    own: Option<u128>,
    given: AtomicU64,
}

impl Names {
    pub(super) fn new() -> Self {
        let mut random = [0; 16];
        let own = getrandom::fill(&mut random).ok().map(|()| u128::from_le_bytes(random));
        Self { own, given: AtomicU64::new(0) }
    }

    /// The next one; empty where nothing is random here: then nothing has a name.
    pub(super) fn next(&self) -> String {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        self.own.map(|own| format!("{own:x}.{number:x}")).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_given_twice() {
        let (one, other) = (Names::new(), Names::new());
        let names = [one.next(), one.next(), other.next(), other.next()];
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), 4);
        assert!(names.iter().all(|name| !name.is_empty()));
    }
}
