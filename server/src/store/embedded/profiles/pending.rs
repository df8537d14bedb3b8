//! What waits for the disk, as it will stand there: each decision writes its own part of a batch,
//! and the writer has only to join them.

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
struct Part(Mutex<Waiting>);

/// What waits of the visitors of one part.
#[derive(Default)]
pub(super) struct Waiting {
    batch: Batch,
    /// Exposures in it, those that were erased since included.
    len: usize,
}

/// What the writer has taken. Its memory is used again, so that nobody waits for a lock while
/// memory is found.
pub(super) struct Taken(Box<[Waiting]>);

impl Default for Pending {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Part::default()).collect())
    }
}

impl Default for Taken {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Waiting::default()).collect())
    }
}

impl Pending {
    /// What waits of the visitors who are kept together with this one.
    pub(super) fn of(&self, visitor: VisitorKey) -> MutexGuard<'_, Waiting> {
        lock(&self.0[part_of(visitor)])
    }

    /// Whether no more may be told of this visitor: each part has its share of
    /// [`PROFILE_PENDING_MAX`].
    pub(super) fn is_full(&self, visitor: VisitorKey) -> bool {
        self.of(visitor).len >= PROFILE_PENDING_MAX / PARTS
    }

    /// Takes all of it; `taken` must be empty.
    pub(super) fn take(&self, taken: &mut Taken) {
        for (part, taken) in self.0.iter().zip(&mut taken.0) {
            std::mem::swap(&mut *lock(part), taken);
        }
    }

    /// Puts back what was taken, in front of what came meanwhile; `taken` is empty then.
    pub(super) fn put_back(&self, taken: &mut Taken) {
        for (part, taken) in self.0.iter().zip(&mut taken.0) {
            let mut waiting = lock(part);
            taken.batch.append(&waiting.batch);
            taken.len += waiting.len;
            std::mem::swap(&mut *waiting, taken);
            taken.clear();
        }
    }

    /// Whom something waits of; a visitor may be named more than once.
    pub(super) fn visitors(&self) -> Vec<VisitorKey> {
        self.0.iter().flat_map(|part| lock(part).batch.visitors()).collect()
    }
}

impl Waiting {
    /// Adds what there is to write of the visitor.
    pub(super) fn tell(&mut self, visitor: VisitorKey, advertiser: &AdvertiserId, told: &Told) {
        self.batch.add_told(visitor, advertiser, told);
        self.len += 1;
    }

    /// Drops what waits of the visitor; returns whether anything did.
    pub(super) fn erase(&mut self, visitor: VisitorKey) -> bool {
        self.batch.erase(visitor)
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.len = 0;
    }
}

impl Taken {
    /// The batches that were taken.
    pub(super) fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.0.iter().map(|taken| &taken.batch)
    }

    /// It is written.
    pub(super) fn clear(&mut self) {
        self.0.iter_mut().for_each(Waiting::clear);
    }
}

fn part_of(visitor: VisitorKey) -> usize {
    const _: () = assert!(PARTS.is_power_of_two() && PARTS <= 256);
    // A hash already: any of its bytes will do.
    usize::from(visitor.visitor.to_le_bytes()[0]) % PARTS
}

fn lock(part: &Part) -> MutexGuard<'_, Waiting> {
    part.0.lock().unwrap_or_else(PoisonError::into_inner)
}
