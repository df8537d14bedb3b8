//! The visitors that a node remembers: each has one slot, in which one decision at a time has its
//! turn. Their number is bounded, and those that nobody needs any more are dropped.
//!
//! No lock of the map is ever taken while one of a slot's is held.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use slotwise_core::model::AccountSerial;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::remembered::Remembered;
use crate::limits::{PROFILE_REMEMBERED, PROFILES_REMEMBERED_HIGH, PROFILES_REMEMBERED_MAX};
use crate::ports::{StoreError, VisitorKey};

/// Shards of the map: so many that looking through one of them, under its lock, takes some
/// microseconds.
const SHARDS: usize = 1_024;

/// One visitor of one account.
pub(super) struct Slot {
    /// The visitor's hash in Redis; all of it but the braces is its hash tag.
    pub(super) key: Box<str>,
    /// Whose decision it is; first come, first served.
    pub(super) turn: tokio::sync::Mutex<()>,
    remembered: Mutex<Remembered>,
    /// Told whenever the store has taken something, or has not.
    settled: Notify,
}

impl Slot {
    fn new(prefix: &str, visitor: VisitorKey) -> Self {
        let VisitorKey { account: AccountSerial(account), visitor } = visitor;
        Self {
            key: format!("{{{prefix}:{account}.{visitor:032x}}}").into(),
            turn: tokio::sync::Mutex::default(),
            remembered: Mutex::default(),
            settled: Notify::new(),
        }
    }

    pub(super) fn tag(&self) -> &str {
        &self.key[1..self.key.len() - 1]
    }

    /// What is remembered; not to be held while anything waits.
    pub(super) fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn settle(&self) {
        self.settled.notify_waiters();
    }

    /// Waits until `is_so` says something of what is remembered.
    pub(super) async fn when<T>(&self, mut is_so: impl FnMut(&Remembered) -> Option<T>) -> T {
        loop {
            let mut settled = pin!(self.settled.notified());
            // From here on nothing is missed.
            settled.as_mut().enable();
            if let Some(found) = is_so(&self.remembered()) {
                return found;
            }
            settled.await;
        }
    }
}

/// See the module.
pub(super) struct Slots {
    map: DashMap<VisitorKey, Arc<Slot>>,
    len: AtomicUsize,
    prefix: String,
}

impl Slots {
    pub(super) fn new(prefix: &str) -> Self {
        let (map, len) = (DashMap::with_shard_amount(SHARDS), AtomicUsize::new(0));
        Self { map, len, prefix: prefix.to_owned() }
    }

    /// The visitor's slot; a new one where there is none.
    pub(super) fn slot(&self, visitor: VisitorKey) -> Result<Arc<Slot>, StoreError> {
        if let Some(known) = self.known(visitor) {
            return Ok(known);
        }
        if self.len.load(Ordering::Relaxed) >= PROFILES_REMEMBERED_MAX {
            return Err(StoreError::Full("there are too many visitors at once"));
        }
        Ok(match self.map.entry(visitor) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(place) => {
                self.len.fetch_add(1, Ordering::Relaxed);
                Arc::clone(&place.insert(Arc::new(Slot::new(&self.prefix, visitor))))
            }
        })
    }

    /// The visitor's slot, if there is one.
    pub(super) fn known(&self, visitor: VisitorKey) -> Option<Arc<Slot>> {
        self.map.get(&visitor).map(|slot| Arc::clone(&slot))
    }

    /// The visitor's slot, or one that nobody else sees.
    pub(super) fn known_or_apart(&self, visitor: VisitorKey) -> Arc<Slot> {
        self.known(visitor).unwrap_or_else(|| Arc::new(Slot::new(&self.prefix, visitor)))
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<Slot>> {
        self.map.iter().map(|slot| Arc::clone(&slot)).collect()
    }

    /// Whether [`Slots::sweep`] is urgent.
    pub(super) fn is_crowded(&self) -> bool {
        self.len.load(Ordering::Relaxed) > PROFILES_REMEMBERED_HIGH
    }

    /// Drops the slots of visitors who did not come for [`PROFILE_REMEMBERED`], and of later ones
    /// where there are too many. One that somebody holds stays, so that no visitor ever has two;
    /// so does one with something unconfirmed.
    pub(super) fn sweep(&self, now: Instant) {
        let mut idle = PROFILE_REMEMBERED;
        loop {
            let mut dropped = 0;
            self.map.retain(|_, slot| {
                let stays = Arc::strong_count(slot) > 1 || {
                    let remembered = slot.remembered();
                    let age = now.saturating_duration_since(remembered.used);
                    remembered.awaits().is_some() || age < idle
                };
                dropped += usize::from(!stays);
                stays
            });
            self.len.fetch_sub(dropped, Ordering::Relaxed);
            idle /= 2;
            if !self.is_crowded() || idle.is_zero() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use slotwise_core::model::{AdSerial, CampaignSerial, ZoneSerial};
    use slotwise_core::model::{Exposure, Profile};

    use super::*;

    fn visitor(visitor: u128) -> VisitorKey {
        VisitorKey { account: AccountSerial(7), visitor }
    }

    fn show(profile: &mut Profile) {
        let exposure = Exposure {
            at_us: 1,
            life_us: 1,
            is_held: false,
            decision: 1,
            zone: ZoneSerial(1),
            campaign: CampaignSerial(1),
            ad: AdSerial(1),
        };
        profile.record(&"x".into(), exposure, 1).unwrap();
    }

    #[test]
    fn a_key_is_its_own_hash_tag() {
        let slot = Slot::new("slotwise", visitor(0xabc));
        assert_eq!(&*slot.key, "{slotwise:7.00000000000000000000000000000abc}");
        assert_eq!(slot.tag(), "slotwise:7.00000000000000000000000000000abc");
    }

    #[test]
    fn only_idle_confirmed_slots_that_nobody_holds_are_dropped() {
        let slots = Slots::new("p");
        let held = slots.slot(visitor(1)).unwrap();
        drop(slots.slot(visitor(2)).unwrap());
        let unconfirmed = slots.slot(visitor(3)).unwrap();
        show(&mut unconfirmed.remembered().profile);
        assert_eq!(unconfirmed.remembered().take_fresh(), 1);
        drop(unconfirmed);
        let later = Instant::now() + PROFILE_REMEMBERED;
        slots.slot(visitor(4)).unwrap().remembered().used = later - Duration::from_secs(1);
        slots.sweep(later);
        let known = |n| slots.known(visitor(n)).is_some();
        assert_eq!([1, 2, 3, 4].map(known), [true, false, true, true]);
        assert!(Arc::ptr_eq(&held, &slots.slot(visitor(1)).unwrap()));
        assert_eq!(slots.len.load(Ordering::Relaxed), 3);
    }
}
