//! What waits for the disk.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::batch::Shown;
use crate::limits::PROFILE_PENDING_MAX;
use crate::ports::VisitorKey;

/// Parts with a lock each: decision threads that record for different visitors rarely meet.
const PARTS: usize = 64;

/// What was told of visitors, in the order in which it was told of each.
pub(super) struct Pending(Box<[Part]>);

/// On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Part(Mutex<Vec<Shown>>);

impl Default for Pending {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Part::default()).collect())
    }
}

impl Pending {
    /// What waits of the visitors who are kept together with this one.
    pub(super) fn of(&self, visitor: VisitorKey) -> MutexGuard<'_, Vec<Shown>> {
        lock(&self.0[part_of(visitor)])
    }

    /// Whether no more may be told of this visitor.
    pub(super) fn is_full(&self, visitor: VisitorKey) -> bool {
        // As long as its own part has no more than its share, the others are not looked at.
        self.of(visitor).len() >= PROFILE_PENDING_MAX / PARTS
            && self.0.iter().map(|part| lock(part).len()).sum::<usize>() >= PROFILE_PENDING_MAX
    }

    /// Takes all of it.
    pub(super) fn take(&self) -> Vec<Shown> {
        let mut all = Vec::new();
        for part in &*self.0 {
            all.append(&mut lock(part));
        }
        all
    }

    /// Puts back what was taken, in front of what came meanwhile.
    pub(super) fn put_back(&self, taken: Vec<Shown>) {
        let mut parts: [Vec<Shown>; PARTS] = std::array::from_fn(|_| Vec::new());
        for told in taken {
            parts[part_of(told.0)].push(told);
        }
        for (part, taken) in self.0.iter().zip(parts) {
            lock(part).splice(0..0, taken);
        }
    }

    /// Whom something waits of; a visitor may be named more than once.
    pub(super) fn visitors(&self) -> Vec<VisitorKey> {
        let of_part = |part| lock(part).iter().map(|(of, ..)| *of).collect::<Vec<_>>();
        self.0.iter().flat_map(of_part).collect()
    }
}

fn part_of(visitor: VisitorKey) -> usize {
    const _: () = assert!(PARTS.is_power_of_two() && PARTS <= 256);
    // A hash already: any of its bytes will do.
    usize::from(visitor.visitor.to_le_bytes()[0]) % PARTS
}

fn lock(part: &Part) -> MutexGuard<'_, Vec<Shown>> {
    part.0.lock().unwrap_or_else(PoisonError::into_inner)
}
