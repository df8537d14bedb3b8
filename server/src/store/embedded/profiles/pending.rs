//! What waits for the disk, as it will stand there: each decision writes its own part of a batch,
//! and the writer has only to join them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use slotwise_core::model::AdvertiserId;

use super::batch::{Batch, Told};
use crate::limits::PROFILE_PENDING_MAX;
use crate::ports::VisitorKey;

/// Parts with a lock each: decision threads that record for different visitors rarely meet.
const PARTS: usize = 64;

/// What was told of visitors, in the order in which it was told of each.
pub(super) struct Pending(Box<[Part]>);

/// On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Part {
    batch: Mutex<Batch>,
    /// Exposures in it, those that were erased since included. Changed under its lock.
    len: AtomicUsize,
}

/// What waits of the visitors of one part, locked.
pub(super) struct Waiting<'p> {
    batch: MutexGuard<'p, Batch>,
    len: &'p AtomicUsize,
}

/// What the writer has taken. Its memory is used again, so that nobody waits for a lock while
/// memory is found.
pub(super) struct Taken(Box<[(Batch, usize)]>);

impl Default for Pending {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Part::default()).collect())
    }
}

impl Default for Taken {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Default::default()).collect())
    }
}

impl Pending {
    /// What waits of the visitors who are kept together with this one.
    pub(super) fn of(&self, visitor: VisitorKey) -> Waiting<'_> {
        self.0[part_of(visitor)].lock()
    }

    /// Whether no more may be told of this visitor, as [`PROFILE_PENDING_MAX`] exposures wait. The
    /// other parts are looked at only where this one has more than its share: a visitor who comes
    /// often has all the room that the others leave, and none of theirs.
    pub(super) fn is_full(&self, visitor: VisitorKey) -> bool {
        let len = |part: &Part| part.len.load(Ordering::Relaxed);
        len(&self.0[part_of(visitor)]) >= PROFILE_PENDING_MAX / PARTS
            && self.0.iter().map(len).sum::<usize>() >= PROFILE_PENDING_MAX
    }

    /// Takes all of it; `taken` must be empty.
    pub(super) fn take(&self, taken: &mut Taken) {
        for (part, taken) in self.0.iter().zip(&mut taken.0) {
            part.lock().swap(taken);
        }
    }

    /// Puts back what was taken, in front of what came meanwhile; `taken` is empty then.
    pub(super) fn put_back(&self, taken: &mut Taken) {
        for (part, taken) in self.0.iter().zip(&mut taken.0) {
            let mut waiting = part.lock();
            taken.0.append(&waiting.batch);
            taken.1 += waiting.len.load(Ordering::Relaxed);
            waiting.swap(taken);
        }
        taken.clear();
    }

    /// Whom something waits of; a visitor may be named more than once.
    pub(super) fn visitors(&self) -> Vec<VisitorKey> {
        self.0.iter().flat_map(|part| part.lock().batch.visitors()).collect()
    }
}

impl Part {
    fn lock(&self) -> Waiting<'_> {
        let batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        Waiting { batch, len: &self.len }
    }
}

impl Waiting<'_> {
    /// Adds what there is to write of the visitor.
    pub(super) fn tell(&mut self, visitor: VisitorKey, advertiser: &AdvertiserId, told: &Told) {
        self.batch.add_told(visitor, advertiser, told);
        self.len.store(self.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Drops what waits of the visitor; returns whether anything did.
    pub(super) fn erase(&mut self, visitor: VisitorKey) -> bool {
        self.batch.erase(visitor)
    }

    fn swap(&mut self, other: &mut (Batch, usize)) {
        std::mem::swap(&mut *self.batch, &mut other.0);
        other.1 = self.len.swap(other.1, Ordering::Relaxed);
    }
}

impl Taken {
    /// The batches that were taken.
    pub(super) fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.0.iter().map(|(batch, _)| batch)
    }

    /// It is written.
    pub(super) fn clear(&mut self) {
        for (batch, len) in &mut self.0 {
            batch.clear();
            *len = 0;
        }
    }
}

fn part_of(visitor: VisitorKey) -> usize {
    const _: () = assert!(PARTS.is_power_of_two() && PARTS <= 256);
    // A hash already: any of its bytes will do.
    usize::from(visitor.visitor.to_le_bytes()[0]) % PARTS
}
