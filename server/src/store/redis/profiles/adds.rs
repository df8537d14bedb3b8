//! What was shown, on its way to the store: a visitor's exposures go out together and in order,
//! until the store has confirmed them.
//!
//! A visitor waits here at most once, so all that waits is bounded by the visitors remembered and
//! by [`PROFILE_PENDING_MAX`](crate::limits::PROFILE_PENDING_MAX).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::Shared;
use super::lane::Errand;
use super::record::{self, Said};
use super::remembered::Remembered;
use super::slots::Slot;
use crate::limits::{PROFILE_PENDING_MAX, PROFILE_RETRIES_MAX, PROFILE_TROUBLE_MIN};
use crate::ports::StoreError;

/// What waits for the store.
#[derive(Default)]
pub(super) struct Pending {
    exposures: AtomicUsize,
    /// Visitors whose exposures the store did not take.
    failing: AtomicUsize,
    /// Of these, the ones that are to be sent again.
    stalled: Mutex<VecDeque<Arc<Slot>>>,
    /// Since when the store has not taken something, and why not.
    trouble: Mutex<Option<(Instant, StoreError)>>,
}

impl Pending {
    pub(super) fn is_full(&self) -> bool {
        self.exposures.load(Ordering::Relaxed) >= PROFILE_PENDING_MAX
    }

    /// What keeps exposures waiting for long; empty: nothing.
    pub(super) fn words(&self) -> String {
        match &*self.trouble() {
            Some((since, error)) if since.elapsed() >= PROFILE_TROUBLE_MIN => {
                format!("exposures wait for the store: {error}")
            }
            _ => String::new(),
        }
    }

    fn trouble(&self) -> MutexGuard<'_, Option<(Instant, StoreError)>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stalled(&self) -> MutexGuard<'_, VecDeque<Arc<Slot>>> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn more(&self, count: usize) {
        self.exposures.fetch_add(count, Ordering::Relaxed);
    }

    fn fewer(&self, count: usize) {
        self.exposures.fetch_sub(count, Ordering::Relaxed);
    }

    fn failed(&self, remembered: &mut Remembered, error: StoreError) {
        self.trouble().get_or_insert_with(|| (Instant::now(), error));
        if !std::mem::replace(&mut remembered.is_failing, true) {
            self.failing.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn succeeded(&self, remembered: &mut Remembered) {
        let was_failing = std::mem::replace(&mut remembered.is_failing, false);
        if was_failing && self.failing.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.trouble().take();
        }
    }
}

impl Shared {
    /// Runs `change` on what is remembered of a visitor, which says how many exposures are
    /// unconfirmed since; they are sent, and nobody waits for it.
    pub(super) fn change<T>(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        change: impl FnOnce(&mut Remembered) -> (usize, T),
    ) -> T {
        let mut remembered = slot.remembered();
        let (unconfirmed, result) = change(&mut remembered);
        self.pending.more(unconfirmed);
        let is_new = remembered.awaits().is_some() && !remembered.is_queued;
        remembered.is_queued |= is_new;
        drop(remembered);
        if is_new {
            self.send(Arc::clone(slot));
        }
        result
    }

    /// Lets `forget` forget on this node, which says how many exposures need no confirmation any
    /// more; returns whether something was held.
    pub(super) fn forget_here(
        &self,
        slot: &Slot,
        forget: impl FnOnce(&mut Remembered) -> usize,
    ) -> bool {
        let mut remembered = slot.remembered();
        let was_empty = remembered.profile.is_empty();
        self.pending.fewer(forget(&mut remembered));
        drop(remembered);
        slot.settle();
        !was_empty
    }

    /// Sends again what the store did not take, as far as it is wise to try.
    pub(super) fn retry(self: &Arc<Self>) {
        self.send_stalled(PROFILE_RETRIES_MAX);
    }

    fn send_stalled(self: &Arc<Self>, count_max: usize) {
        let again: Vec<_> = {
            let mut stalled = self.pending.stalled();
            let count = count_max.min(stalled.len());
            stalled.drain(..count).collect()
        };
        again.into_iter().for_each(|slot| self.send(slot));
    }

    fn send(self: &Arc<Self>, slot: Arc<Slot>) {
        self.adds.send(Add {
            shared: Arc::clone(self),
            slot,
            number: 0,
            known: None,
            name: String::new(),
        });
    }
}

/// One visitor's exposures, all that are unconfirmed when it is sent.
pub(super) struct Add {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    /// The last exposure in it.
    number: u64,
    /// What the store called what was known of it when this was sent.
    known: Option<Box<str>>,
    /// What the store is to call it with these.
    name: String,
}

impl Errand for Add {
    fn tag(&self) -> &str {
        self.slot.tag()
    }

    fn command(&mut self) -> Option<Cmd> {
        let mut remembered = self.slot.remembered();
        let Some(number) = remembered.awaits() else {
            // Forgotten meanwhile.
            remembered.is_queued = false;
            self.shared.pending.succeeded(&mut remembered);
            return None;
        };
        self.number = number;
        self.known = remembered.name().map(Box::from);
        self.name = self.shared.names.next();
        let (known, now_us) = (self.known.as_deref(), self.shared.now_us(&remembered));
        Some(record::add(&self.slot.key, now_us, known, &self.name, remembered.unconfirmed()))
    }

    fn done(self, reply: Result<Value, StoreError>) {
        let Self { shared, slot, number, known, name } = self;
        let mut remembered = slot.remembered();
        let now_us = shared.now_us(&remembered);
        let said = reply.and_then(|reply| Said::from_reply(&reply, now_us));
        match said {
            Ok(said) => {
                let (confirmed, missing) = match said {
                    Said::Whole(stored) => remembered.confirm(number, shared.seen(stored)),
                    Said::AsExpected { is_changed } => {
                        let known = known.as_deref().unwrap_or_default();
                        let name = if is_changed { &name } else { known };
                        (remembered.confirm_told(number, known, name), 0)
                    }
                };
                shared.pending.more(missing);
                shared.pending.fewer(confirmed);
                shared.pending.succeeded(&mut remembered);
                let has_more = remembered.awaits().is_some();
                remembered.is_queued = has_more;
                drop(remembered);
                slot.settle();
                if has_more {
                    shared.send(Arc::clone(&slot));
                }
                // It takes something again: two for each that succeeds.
                shared.send_stalled(2);
            }
            Err(error) => {
                shared.pending.failed(&mut remembered, error);
                drop(remembered);
                slot.settle();
                shared.pending.stalled().push_back(Arc::clone(&slot));
            }
        }
    }
}
