//! Which answers are still on their way: how a node knows that a kill holds.
//!
//! Decisions are counted by epoch. A change of the catalogue begins a new epoch and waits until
//! no answer of the one before is left: every later answer was decided on the new state. An
//! answer that its caller does not take (a frozen peer) would hold that up, so after a while its
//! epoch is called off, and the connections that still hold answers of it are closed: see
//! [`Answers::is_called_off`]. One that is still being made then (a long explanation) is never
//! handed to its connection, which goes on: see [`Ticket::hand_over`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use smallvec::SmallVec;

/// How often the waiting writer looks again: far below what an operator can see.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// The answers of one node, apart for each thread that serves them.
#[derive(Debug, Default)]
pub struct InFlight {
    lanes: RwLock<Vec<Arc<Lane>>>,
    /// One change settles at a time.
    settling: Mutex<()>,
}

/// The answers of one thread. What each of them counts lies on cache lines that no other thread
/// writes to: two cores that count on the same line wait for each other at every decision.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Lane {
    epoch: ArcSwap<Epoch>,
    /// How many epochs were called off: connections look closer only when this has changed.
    call_offs: AtomicU64,
}

/// The answers that were begun between two changes.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Epoch {
    open: AtomicU64,
    is_called_off: AtomicBool,
}

/// The answers of one connection that are not with the transport yet.
#[derive(Debug)]
pub struct Answers {
    of: Arc<Lane>,
    open: Mutex<Open>,
    call_offs_seen: AtomicU64,
}

/// What was handed over to a connection.
#[derive(Debug, Default)]
struct Open {
    /// Each epoch of which there is some; there are rarely more than two.
    by_epoch: SmallVec<[OfEpoch; 2]>,
    /// Nothing is written any more.
    is_closed: bool,
}

/// The answers of one epoch that were handed over to a connection.
#[derive(Debug)]
struct OfEpoch {
    epoch: Arc<Epoch>,
    /// Still held by HTTP.
    held: usize,
    /// Let go by HTTP: their bytes are in a buffer of the connection, if they are to be sent.
    buffered: usize,
}

/// One answer on its way; dropped when HTTP has put all of it into the connection's buffer, or
/// never will. It counts until [`Answers::written`] says that the buffer is with the transport.
#[derive(Debug)]
pub struct Ticket {
    of: Arc<Answers>,
    epoch: Arc<Epoch>,
    is_handed_over: bool,
}

impl InFlight {
    /// A lane for the answers of one more thread. It is waited for as long as the node runs.
    pub fn lane(&self) -> Arc<Lane> {
        let lane = Arc::<Lane>::default();
        self.lanes.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&lane));
        lane
    }

    /// Waits until every answer that was decided before this call is with the transport, for at
    /// most `patience`; calls off what is left then. Called after the new state is published;
    /// blocks the thread.
    pub fn settle(&self, patience: Duration) {
        let _one_at_a_time = unpoisoned(&self.settling);
        // A lane that comes later begins its answers after the new state was published.
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner).clone();
        let before: Vec<_> = lanes.iter().map(|lane| lane.epoch.swap(Arc::default())).collect();
        let began = Instant::now();
        let open = || before.iter().map(|epoch| epoch.open.load(Ordering::SeqCst)).sum::<u64>();
        while open() > 0 {
            if began.elapsed() >= patience {
                let answers = open();
                for (lane, epoch) in lanes.iter().zip(&before) {
                    epoch.is_called_off.store(true, Ordering::SeqCst);
                    lane.call_offs.fetch_add(1, Ordering::SeqCst);
                }
                tracing::warn!(answers, "answers that nobody takes are called off");
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Lane {
    /// The answers of a new connection.
    pub fn connection(self: &Arc<Self>) -> Arc<Answers> {
        Arc::new(Answers {
            of: Arc::clone(self),
            open: Mutex::default(),
            call_offs_seen: AtomicU64::new(0),
        })
    }

    fn begin(&self) -> Arc<Epoch> {
        loop {
            let epoch = self.epoch.load_full();
            epoch.open.fetch_add(1, Ordering::SeqCst);
            // A change that began in between may already have looked at the count.
            if Arc::ptr_eq(&epoch, &self.epoch.load()) {
                return epoch;
            }
            epoch.end(1);
        }
    }
}

impl Epoch {
    fn end(&self, answers: usize) {
        self.open.fetch_sub(answers as u64, Ordering::SeqCst);
    }
}

impl Answers {
    /// Begins a decision. To be called before the index is looked at.
    pub fn begin(self: &Arc<Self>) -> Ticket {
        Ticket { of: Arc::clone(self), epoch: self.of.begin(), is_handed_over: false }
    }

    /// Whether some answer that this connection was handed must not be sent any more: nothing may
    /// be, as it cannot be told apart from the others by now.
    pub fn is_called_off(&self) -> bool {
        let call_offs = self.of.call_offs.load(Ordering::SeqCst);
        if self.call_offs_seen.load(Ordering::Relaxed) == call_offs {
            return false;
        }
        let called_off = |of: &OfEpoch| of.epoch.is_called_off.load(Ordering::SeqCst);
        if unpoisoned(&self.open).by_epoch.iter().any(called_off) {
            return true;
        }
        self.call_offs_seen.store(call_offs, Ordering::Relaxed);
        false
    }

    /// Everything that HTTP has let go of is with the transport.
    pub fn written(&self) {
        unpoisoned(&self.open).release();
    }

    /// The connection is over: nothing more is written.
    pub fn close(&self) {
        let mut open = unpoisoned(&self.open);
        open.is_closed = true;
        open.release();
    }
}

impl Open {
    fn of(&mut self, epoch: &Arc<Epoch>) -> &mut OfEpoch {
        let at = self.by_epoch.iter().position(|of| Arc::ptr_eq(&of.epoch, epoch));
        let at = at.unwrap_or_else(|| {
            self.by_epoch.push(OfEpoch { epoch: Arc::clone(epoch), held: 0, buffered: 0 });
            self.by_epoch.len() - 1
        });
        &mut self.by_epoch[at]
    }

    fn release(&mut self) {
        self.by_epoch.retain(|of| {
            of.epoch.end(std::mem::take(&mut of.buffered));
            of.held > 0
        });
    }
}

impl Ticket {
    /// A ticket for an answer that was begun after this one's, and is to be sent after it.
    pub fn twin(&self) -> Self {
        self.epoch.open.fetch_add(1, Ordering::SeqCst);
        let (of, epoch) = (Arc::clone(&self.of), Arc::clone(&self.epoch));
        Self { of, epoch, is_handed_over: false }
    }

    /// To be called when the answer is made, before its connection gets it; false: it was called
    /// off meanwhile, and must not be sent.
    #[must_use]
    pub fn hand_over(&mut self) -> bool {
        if self.is_handed_over {
            return true;
        }
        unpoisoned(&self.of.open).of(&self.epoch).held += 1;
        // Only now: what is called off from here on, the connection sees among its own.
        self.is_handed_over = !self.epoch.is_called_off.load(Ordering::SeqCst);
        if !self.is_handed_over {
            let mut open = unpoisoned(&self.of.open);
            open.of(&self.epoch).held -= 1;
            open.by_epoch.retain(|of| of.held + of.buffered > 0);
        }
        self.is_handed_over
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_handed_over {
            self.epoch.end(1);
            return;
        }
        let mut open = unpoisoned(&self.of.open);
        let of = open.of(&self.epoch);
        of.held -= 1;
        of.buffered += 1;
        if open.is_closed {
            open.release();
        }
    }
}

/// Nothing that is done under these locks can be half done.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_waits_for_what_began_before_and_for_nothing_else() {
        let in_flight = Arc::new(InFlight::default());
        let (_quiet, lane) = (in_flight.lane(), in_flight.lane());
        let connection = lane.connection();
        let before = connection.begin();
        let first = lane.epoch.load_full();
        let waiting = Arc::clone(&in_flight);
        let settled = std::thread::spawn(move || waiting.settle(Duration::from_secs(60)));
        while Arc::ptr_eq(&first, &lane.epoch.load()) {
            std::thread::yield_now();
        }
        let _after = connection.begin();
        assert!(!settled.is_finished(), "an older answer is on its way");
        drop(before);
        settled.join().unwrap();
        assert!(!connection.is_called_off());
    }

    #[test]
    fn an_answer_that_nobody_takes_is_called_off_and_holds_up_one_change_only() {
        let in_flight = Arc::new(InFlight::default());
        let (frozen, healthy) = (in_flight.lane().connection(), in_flight.lane().connection());
        let mut stuck = frozen.begin();
        assert!(stuck.hand_over());
        in_flight.settle(Duration::ZERO);
        let next = healthy.begin();
        assert!(frozen.is_called_off());
        assert!(!healthy.is_called_off());
        drop(next);
        // The next change has nothing to wait for, though the frozen answer is still there.
        in_flight.settle(Duration::from_secs(60));
        drop(stuck);
        assert!(frozen.is_called_off(), "its bytes are in a buffer");
        frozen.written();
        assert!(!frozen.is_called_off(), "a connection that got rid of it goes on");
    }

    /// What HTTP has put into a buffer may wait there for a peer that takes nothing.
    #[test]
    fn an_answer_counts_until_its_bytes_are_written_or_its_connection_is_over() {
        for is_written in [true, false] {
            let in_flight = InFlight::default();
            let lane = in_flight.lane();
            let connection = lane.connection();
            let (mut first, mut second) = (connection.begin(), connection.begin());
            let epoch = lane.epoch.load_full();
            let open = || epoch.open.load(Ordering::SeqCst);
            assert!(first.hand_over() && second.hand_over());
            drop(first);
            assert_eq!(open(), 2, "both are still to be written");
            if is_written {
                connection.written();
                assert_eq!(open(), 1, "the other was not in the buffer yet");
                drop(second);
                assert_eq!(open(), 1);
                connection.written();
            } else {
                connection.close();
                assert_eq!(open(), 1);
                drop(second);
            }
            assert_eq!(open(), 0);
        }
    }

    /// A stream goes on with answers while the bytes of earlier ones go away.
    #[test]
    fn a_change_waits_for_the_answer_that_is_made_while_another_leaves() {
        let in_flight = InFlight::default();
        let lane = in_flight.lane();
        let connection = lane.connection();
        let mut first = connection.begin();
        let epoch = lane.epoch.load_full();
        assert!(first.hand_over());
        let mut next = first.twin();
        drop(first);
        connection.written();
        assert_eq!(epoch.open.load(Ordering::SeqCst), 1);
        in_flight.settle(Duration::ZERO);
        assert!(!next.hand_over(), "it was begun before the change");
        drop(next);
        assert_eq!(epoch.open.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn an_answer_that_is_called_off_while_it_is_made_leaves_its_connection_alone() {
        let in_flight = Arc::new(InFlight::default());
        let connection = in_flight.lane().connection();
        let mut slow = connection.begin();
        in_flight.settle(Duration::ZERO);
        assert!(!connection.is_called_off(), "its other calls go on");
        assert!(!slow.hand_over(), "it must not be sent");
        assert!(!connection.is_called_off(), "and it is not");
        let mut next = connection.begin();
        assert!(next.hand_over());
        in_flight.settle(Duration::ZERO);
        assert!(connection.is_called_off(), "one that was handed over cannot be told apart");
    }
}
