//! Until when which visitors were forgotten, so that what was shown before and is told late does
//! not make them again.
//!
//! In memory only: a line on disk that names the visitor would itself be something held. Of what
//! the process before had in flight, only impressions can still be told to this one; so the instant
//! of the last forget is on disk, and what was shown until then makes nobody anew.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use slotwise_core::model::AccountSerial;

use super::Forget;
use crate::limits::FORGETS_REMEMBERED_MAX;
use crate::ports::VisitorKey;

/// A visitor's hash, in one account or (nothing) in all.
type Who = (u128, Option<AccountSerial>);

pub(super) struct Floors {
    /// The latest of them all, so that who comes later asks for no lock.
    newest_us: AtomicI64,
    of: Mutex<HashMap<Who, i64>>,
    /// The last instant until which the processes before this one forgot somebody.
    known_until_us: AtomicI64,
}

impl Default for Floors {
    fn default() -> Self {
        let never = || AtomicI64::new(i64::MIN);
        Self { newest_us: never(), of: Mutex::default(), known_until_us: never() }
    }
}

impl Floors {
    /// What was shown until the forget's instant no longer counts. Called before the visitor is
    /// removed: whoever takes the visitor's lock afterwards finds it.
    pub(super) fn raise(&self, forget: &Forget) {
        let mut floors = self.lock();
        let floor_us = floors.entry((forget.visitor, forget.account)).or_insert(i64::MIN);
        *floor_us = (*floor_us).max(forget.now_us);
        if floors.len() > FORGETS_REMEMBERED_MAX {
            let oldest = floors.iter().min_by_key(|(_, floor_us)| **floor_us);
            if let Some(oldest) = oldest.map(|(who, _)| *who) {
                floors.remove(&oldest);
            }
        }
        self.newest_us.fetch_max(forget.now_us, Ordering::Release);
    }

    /// The last instant whose showings of `visitor` do not count; nothing where a showing at
    /// `at_us`, or later, counts anyway.
    pub(super) fn above(&self, visitor: VisitorKey, at_us: i64) -> Option<i64> {
        if at_us > self.newest_us.load(Ordering::Acquire) {
            return None;
        }
        let floors = self.lock();
        let whos = [(visitor.visitor, None), (visitor.visitor, Some(visitor.account))];
        whos.iter().filter_map(|who| floors.get(who).copied()).max().filter(|floor| at_us <= *floor)
    }

    /// What was shown until then may be of somebody whom the processes before this one forgot.
    pub(super) fn known_until(&self) -> i64 {
        self.known_until_us.load(Ordering::Relaxed)
    }

    /// Sets that instant.
    pub(super) fn know(&self, until_us: i64) {
        self.known_until_us.store(until_us, Ordering::Relaxed);
    }

    /// Drops those of before `oldest_us`: what was shown then counts nowhere any more.
    pub(super) fn expire(&self, oldest_us: i64) {
        self.lock().retain(|_, floor_us| *floor_us >= oldest_us);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Who, i64>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forget(visitor: u128, account: Option<u32>, now_us: i64) -> Forget {
        Forget { visitor, account: account.map(AccountSerial), now_us }
    }

    fn visitor(account: u32, visitor: u128) -> VisitorKey {
        VisitorKey { account: AccountSerial(account), visitor }
    }

    #[test]
    fn a_floor_holds_for_its_visitor_until_its_instant() {
        let floors = Floors::default();
        assert_eq!(floors.above(visitor(1, 7), i64::MIN + 1), None);
        floors.raise(&forget(7, Some(1), 10));
        floors.raise(&forget(8, None, 20));
        floors.raise(&forget(8, Some(2), 15));
        assert_eq!(floors.above(visitor(1, 7), 10), Some(10));
        assert_eq!(floors.above(visitor(1, 7), 11), None);
        assert_eq!(floors.above(visitor(2, 7), 10), None, "another account");
        assert_eq!(floors.above(visitor(2, 8), 18), Some(20), "the later of the two");
        floors.raise(&forget(8, None, 5));
        assert_eq!(floors.above(visitor(1, 8), 20), Some(20), "none is lowered");
        floors.expire(16);
        assert_eq!(floors.above(visitor(1, 7), 10), None);
        assert_eq!(floors.above(visitor(1, 8), 20), Some(20));
    }

    #[test]
    fn at_the_bound_the_oldest_goes() {
        let floors = Floors::default();
        for n in 0..=i64::try_from(FORGETS_REMEMBERED_MAX).unwrap() {
            floors.raise(&forget(n.unsigned_abs().into(), None, n));
        }
        assert_eq!(floors.above(visitor(1, 0), 0), None);
        assert_eq!(floors.above(visitor(1, 1), 1), Some(1));
    }
}
