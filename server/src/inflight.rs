//! Which answers are still on their way: how a node knows that a kill holds.
//!
//! Decisions are counted by epoch. A change of the catalogue begins a new epoch and waits until
//! no answer of an older one is left: every later answer was decided on the new state. An answer
//! that its caller does not take (a frozen peer) would hold that up, so after a while it is
//! called off instead: [`Ticket::is_called_off`] is asked once more before it is handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the waiting writer looks again: far below what an operator can see.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// The answers of one node.
#[derive(Debug, Default)]
pub struct InFlight {
    epoch: AtomicU64,
    /// Answers of epochs up to this one must not be handed over any more; stored as one more
    /// than the epoch, so that 0 calls off none.
    called_off: AtomicU64,
    /// Answers on their way, by the parity of their epoch. What was called off and is still held
    /// by its peer counts with the next epoch but one: a change then waits its full patience.
    counts: [AtomicU64; 2],
}

/// One answer on its way; dropped when it is with the transport, or is never to be.
#[derive(Debug)]
pub struct Ticket {
    of: Arc<InFlight>,
    epoch: u64,
}

impl InFlight {
    /// Begins a decision. Taken before the campaign table is loaded.
    pub fn begin(self: &Arc<Self>) -> Ticket {
        loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            self.slot(epoch).fetch_add(1, Ordering::SeqCst);
            // A change that began in between may already have looked at our slot.
            if self.epoch.load(Ordering::SeqCst) == epoch {
                return Ticket { of: Arc::clone(self), epoch };
            }
            self.slot(epoch).fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Waits until every answer that was decided before this call is with the transport, for at
    /// most `patience`; calls off what is left then. Called after the new state is published, by
    /// one thread at a time, which it blocks.
    pub fn settle(&self, patience: Duration) {
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst);
        let began = Instant::now();
        while self.slot(epoch).load(Ordering::SeqCst) > 0 {
            if began.elapsed() >= patience {
                self.called_off.store(epoch + 1, Ordering::SeqCst);
                tracing::warn!(
                    answers = self.slot(epoch).load(Ordering::SeqCst),
                    "answers that nobody takes are called off, as the catalogue has changed"
                );
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// How many answers are on their way.
    pub fn len(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::SeqCst)).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot(&self, epoch: u64) -> &AtomicU64 {
        &self.counts[usize::from(epoch % 2 == 1)]
    }
}

impl Ticket {
    /// Whether the answer must not be handed over any more.
    pub fn is_called_off(&self) -> bool {
        self.epoch < self.of.called_off.load(Ordering::SeqCst)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.of.slot(self.epoch).fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_waits_for_what_began_before_and_for_nothing_else() {
        let in_flight = Arc::new(InFlight::default());
        let before = in_flight.begin();
        let waiting = Arc::clone(&in_flight);
        let settled = std::thread::spawn(move || waiting.settle(Duration::from_secs(60)));
        while in_flight.epoch.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let after = in_flight.begin();
        assert!(!settled.is_finished(), "an older answer is on its way");
        drop(before);
        settled.join().unwrap();
        assert!(!after.is_called_off());
        assert_eq!(in_flight.len(), 1);
    }

    #[test]
    fn an_answer_that_nobody_takes_is_called_off() {
        let in_flight = Arc::new(InFlight::default());
        let stuck = in_flight.begin();
        in_flight.settle(Duration::ZERO);
        assert!(stuck.is_called_off());
        let next = in_flight.begin();
        assert!(!next.is_called_off());
        drop((stuck, next));
        in_flight.settle(Duration::ZERO);
        assert!(in_flight.is_empty());
    }
}
