//! What the callers and the writer share: the profiles in memory, and what waits for the disk.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hashbrown::hash_map::Entry;
use slotwise_core::decide::Strict;
use slotwise_core::model::{AdvertiserId, Exposure, Profile, Segment};
use tokio::sync::watch;

use super::Forget;
use super::batch::Told;
use super::floors::Floors;
use super::pending::Pending;
use super::visitors::{Key, Visitors};
use crate::limits::{HISTORY, VISITORS_MAX};
use crate::ports::{Admission, Clock, StoreError, VisitorKey};

thread_local! {
    /// Where a decision of this thread keeps what it records until it is told.
    static FRESH: Cell<Vec<(AdvertiserId, Exposure)>> = const { Cell::new(Vec::new()) };
}

/// The profiles of this process. Whoever needs both takes a visitor's lock first, and then that
/// of what is pending.
pub(super) struct State {
    pub(super) visitors: Visitors,
    pub(super) stopping: AtomicBool,
    /// How many visitors have been forgotten, here and on the disk.
    pub(super) forgets: watch::Sender<u64>,
    /// Why exposures are not on the disk; empty: they are.
    pub(super) degraded: watch::Sender<String>,
    visitors_len: AtomicUsize,
    /// What waits for the disk.
    pub(super) pending: Pending,
    floors: Floors,
    clock: Arc<dyn Clock>,
}

impl State {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            visitors: Visitors::default(),
            stopping: AtomicBool::new(false),
            forgets: watch::Sender::default(),
            degraded: watch::Sender::default(),
            visitors_len: AtomicUsize::new(0),
            pending: Pending::default(),
            floors: Floors::default(),
            clock,
        }
    }

    pub(super) fn now_us(&self) -> i64 {
        self.clock.now_us()
    }

    /// A copy of the visitor's profile.
    pub(super) fn copy(&self, visitor: VisitorKey) -> Option<Profile> {
        self.visitors.of(visitor).get(&Key::from(visitor)).cloned()
    }

    /// Runs `admission` under the visitor's lock, and keeps what it recorded.
    pub(super) fn admit(
        &self,
        visitor: VisitorKey,
        admission: &mut dyn Admission,
    ) -> Result<(), StoreError> {
        if self.pending.is_full(visitor) {
            return Err(StoreError::Full("the disk is too slow for the exposures"));
        }
        match self.visitors.of(visitor).entry(visitor.into()) {
            Entry::Occupied(mut known) => {
                self.record(visitor, known.get_mut(), admission);
            }
            Entry::Vacant(unknown) => {
                self.expect_room()?;
                let mut profile = Profile::default();
                if self.record(visitor, &mut profile, admission) {
                    unknown.insert(profile);
                    self.visitors_len.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Runs `admission`, and hands what it recorded to the writer; returns whether that is
    /// anything.
    fn record(
        &self,
        visitor: VisitorKey,
        profile: &mut Profile,
        admission: &mut dyn Admission,
    ) -> bool {
        profile.keep_fresh_in(FRESH.take());
        admission.admit(profile, Strict::Local);
        let mut fresh = profile.take_fresh();
        self.floor(visitor, profile, &mut fresh);
        if !fresh.is_empty() {
            // Under the visitor's lock, so that a forget finds it both in the profile and here, or
            // in neither.
            let mut pending = self.pending.of(visitor);
            for (advertiser, shown) in &fresh {
                pending.tell(visitor, advertiser, &Told::Shown(*shown));
            }
        }
        let is_any = !fresh.is_empty();
        fresh.clear();
        FRESH.set(fresh);
        is_any
    }

    /// Records that the ad was seen. What was shown until [`Floors::known_until`] may be of a
    /// visitor who was forgotten before this process began: then only what is there can be made
    /// permanent.
    pub(super) fn confirm(
        &self,
        visitor: VisitorKey,
        advertiser: &AdvertiserId,
        exposure: Exposure,
        now_us: i64,
    ) -> Result<(), StoreError> {
        let may_be_new = exposure.at_us > self.floors.known_until();
        self.admit(visitor, &mut |profile: &mut Profile| {
            let is_there = |seen: &Exposure| seen.is_same(&exposure);
            if may_be_new || profile.list(advertiser).iter().any(is_there) {
                // A list that is full without it is as capped as it can be.
                let _ = profile.record(advertiser, exposure, now_us);
            }
        })
    }

    /// Frees the place that `showing` holds.
    pub(super) fn release(
        &self,
        visitor: VisitorKey,
        advertiser: &AdvertiserId,
        showing: Exposure,
    ) {
        // Under the visitor's lock, so that the disk hears of it after what took the place.
        let mut shard = self.visitors.of(visitor);
        if shard
            .get_mut(&Key::from(visitor))
            .is_some_and(|known| known.release(advertiser, &showing))
        {
            self.pending.of(visitor).tell(visitor, advertiser, &Told::Released(showing));
        }
    }

    /// What was shown until then may be of visitors who were forgotten.
    pub(super) fn forgotten_until(&self, until_us: i64) {
        self.floors.know(until_us);
    }

    /// Drops what was shown until the visitor was last forgotten.
    fn floor(
        &self,
        visitor: VisitorKey,
        profile: &mut Profile,
        fresh: &mut Vec<(AdvertiserId, Exposure)>,
    ) {
        let oldest_us = fresh.iter().map(|(_, shown)| shown.at_us).min();
        let floor_us = oldest_us.and_then(|oldest_us| self.floors.above(visitor, oldest_us));
        if let Some(floor_us) = floor_us {
            profile.forget_until(floor_us);
            fresh.retain(|(_, shown)| shown.at_us > floor_us);
        }
    }

    /// Sees that there is room for a visitor who is not known yet.
    pub(super) fn expect_room(&self) -> Result<(), StoreError> {
        if self.visitors_len.load(Ordering::Relaxed) >= VISITORS_MAX {
            return Err(StoreError::Full("there are too many visitors"));
        }
        Ok(())
    }

    /// The visitor has these segments now.
    pub(super) fn set_segments(&self, visitor: VisitorKey, segments: Vec<Segment>) {
        self.read_back(visitor, |profile| profile.set_segments(segments));
    }

    /// Changes the visitor's profile as the disk says.
    pub(super) fn read_back(&self, visitor: VisitorKey, change: impl FnOnce(&mut Profile)) {
        let mut shard = self.visitors.of(visitor);
        let profile = shard.entry(visitor.into()).or_insert_with(|| {
            self.visitors_len.fetch_add(1, Ordering::Relaxed);
            Profile::default()
        });
        change(profile);
    }

    /// Removes the visitors from memory, and drops what waits for the disk; returns those of whom
    /// there was anything. What is already on the disk stays.
    pub(super) fn forget(&self, forgets: &[Forget]) -> Vec<VisitorKey> {
        forgets.iter().for_each(|forget| self.floors.raise(forget));
        let mut held = Vec::new();
        for visitor in self.meant_by(forgets) {
            let mut shard = self.visitors.of(visitor);
            let mut is_held = self.pending.of(visitor).erase(visitor);
            if let Some(known) = shard.remove(&Key::from(visitor)) {
                is_held |= !known.is_empty();
                self.visitors_len.fetch_sub(1, Ordering::Relaxed);
            }
            if is_held {
                held.push(visitor);
            }
        }
        held
    }

    /// The keys under which the visitors may be held here. Those of one account are known; for
    /// the others everybody is looked at, once.
    fn meant_by(&self, forgets: &[Forget]) -> HashSet<VisitorKey> {
        let key = |forget: &Forget| {
            forget.account.map(|account| VisitorKey { account, visitor: forget.visitor })
        };
        let mut meant: HashSet<VisitorKey> = forgets.iter().filter_map(key).collect();
        if forgets.iter().any(|forget| forget.account.is_none()) {
            let is_meant = |visitor: &VisitorKey| forgets.iter().any(|f| f.means(*visitor));
            meant.extend(self.pending.visitors().into_iter().filter(is_meant));
            for shard in self.visitors.shards() {
                meant.extend(shard.keys().copied().map(VisitorKey::from).filter(is_meant));
            }
        }
        meant
    }

    /// Drops what nothing asks for any more.
    pub(super) fn sweep(&self) {
        let now_us = self.now_us();
        let history_us = i64::try_from(HISTORY.as_micros()).unwrap_or(i64::MAX);
        for mut shard in self.visitors.shards() {
            let before = shard.len();
            shard.retain(|_, profile| profile.expire(history_us, now_us));
            self.visitors_len.fetch_sub(before - shard.len(), Ordering::Relaxed);
        }
        self.floors.expire(now_us.saturating_sub(history_us));
    }
}
