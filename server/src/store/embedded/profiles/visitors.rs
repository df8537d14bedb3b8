//! The profiles in memory: shards with a lock each.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use slotwise_core::model::{AccountSerial, Profile};

use crate::ports::VisitorKey;

/// So many that writing one of them down, under its lock, stays below a millisecond at ten million
/// visitors.
pub(super) const SHARDS: usize = 4_096;

/// The profiles of some visitors.
pub(super) type Shard = HashMap<Key, Profile, BuildHasherDefault<OfHash>>;

/// A visitor in the map: as [`VisitorKey`], in three quarters of its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    visitor: [u64; 2],
    account: AccountSerial,
}

/// The profiles of all visitors.
pub(super) struct Visitors(Box<[Locked]>);

/// On a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Locked(Mutex<Shard>);

impl Default for Visitors {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Locked::default()).collect())
    }
}

impl Visitors {
    /// Locks the shard that the visitor is in, or would be.
    pub(super) fn of(&self, visitor: VisitorKey) -> MutexGuard<'_, Shard> {
        const _: () = assert!(SHARDS.is_power_of_two() && SHARDS <= 1 << 16);
        // A hash already. The map inside goes by other bits of it.
        let [.., low, high] = visitor.visitor.to_le_bytes();
        self.shard(usize::from(u16::from_le_bytes([low, high])) % SHARDS)
    }

    /// Locks the shard of this number, below [`SHARDS`].
    pub(super) fn shard(&self, number: usize) -> MutexGuard<'_, Shard> {
        // What is done under the lock is done, or has not begun, wherever it panics.
        self.0[number].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All shards, one after the other.
    pub(super) fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        (0..SHARDS).map(|number| self.shard(number))
    }
}

impl From<VisitorKey> for Key {
    fn from(VisitorKey { account, visitor }: VisitorKey) -> Self {
        let (high, low) = ((visitor >> 64), visitor & u128::from(u64::MAX));
        let half = |half: u128| u64::try_from(half).unwrap_or(u64::MAX);
        Self { visitor: [half(low), half(high)], account }
    }
}

impl From<Key> for VisitorKey {
    fn from(Key { visitor: [low, high], account }: Key) -> Self {
        Self { account, visitor: u128::from(high) << 64 | u128::from(low) }
    }
}

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // One visitor in several accounts is rare enough to be told apart by comparing.
        state.write_u64(self.visitor[0]);
    }
}

/// Takes what it is given for a hash: a visitor's id has been hashed under a secret.
#[derive(Default)]
pub(super) struct OfHash(u64);

impl Hasher for OfHash {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_visitor_and_no_other() {
        for visitor in [0, 1, u128::MAX, 1 << 64, u128::from(u64::MAX)] {
            for account in [0, u32::MAX] {
                let key = VisitorKey { account: AccountSerial(account), visitor };
                assert_eq!(VisitorKey::from(Key::from(key)), key);
            }
        }
    }
}
