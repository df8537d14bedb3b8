//! The connections of one client: kept up in the background, and lent to calls one by one.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tonic::transport::Channel;

use crate::Error;
use crate::options::Options;

mod dial;
mod keeper;

/// All connections to one door. Clones share them; with the last clone they are closed, once the
/// calls on them have ended.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    /// One task for each slot; they end with the pool.
    _keepers: Arc<JoinSet<()>>,
}

/// What calls and keepers share.
#[derive(Debug)]
struct Shared {
    slots: Vec<Slot>,
    /// Where the next pick begins to look, so that equals take turns.
    turn: AtomicUsize,
    /// Says that a slot has changed.
    changed: watch::Sender<()>,
    /// Why the latest attempt to connect failed.
    failure: Mutex<Option<String>>,
}

/// The place of one connection, whether it stands or not.
#[derive(Debug, Default)]
struct Slot {
    /// None while there is no connection.
    live: RwLock<Option<Live>>,
    /// Calls and streams on it.
    in_flight: AtomicUsize,
    /// The first attempt has ended, well or not.
    tried: AtomicBool,
    /// How many connections it has had: tells one from the next.
    serial: AtomicU64,
}

/// A connection that takes calls.
#[derive(Debug)]
struct Live {
    channel: Channel,
    serial: u64,
    /// Dropped with the entry: so the slot's keeper hears that a call has given the connection up.
    _in_use: oneshot::Sender<()>,
}

impl Pool {
    /// Begins to connect, in the background, on the runtime that it is called on.
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let targets = options.targets()?;
        let runtime = Handle::try_current()
            .map_err(|_| Error::Options("there is no tokio runtime here".to_owned()))?;
        let shared = Arc::new(Shared {
            slots: targets.iter().map(|_| Slot::default()).collect(),
            turn: AtomicUsize::new(0),
            changed: watch::Sender::new(()),
            failure: Mutex::new(None),
        });
        let mut keepers = JoinSet::new();
        for (index, target) in targets.into_iter().enumerate() {
            keepers.spawn_on(keeper::keep(shared.clone(), index, target), &runtime);
        }
        Ok(Pool { shared, _keepers: Arc::new(keepers) })
    }

    /// Waits until one connection stands, or every first attempt has failed.
    pub(crate) async fn ready(&self, deadline: Instant) -> Result<(), Error> {
        let mut changed = self.shared.changed.subscribe();
        loop {
            if self.shared.slots.iter().any(Slot::is_up) {
                return Ok(());
            }
            let given_up = self.shared.slots.iter().all(|slot| slot.tried.load(Ordering::Acquire));
            if given_up || timeout_at(deadline, changed.changed()).await.is_err() {
                return Err(self.unreachable());
            }
        }
    }

    /// Lends the connection with fewest calls on it, once there is one.
    pub(crate) async fn lend(&self, deadline: Instant) -> Result<Lease, Error> {
        if let Some(lease) = self.pick() {
            return Ok(lease);
        }
        let mut changed = self.shared.changed.subscribe();
        loop {
            if let Some(lease) = self.pick() {
                return Ok(lease);
            }
            if timeout_at(deadline, changed.changed()).await.is_err() {
                return Err(self.unreachable());
            }
        }
    }

    /// Of those with fewest calls, the next in turn.
    fn pick(&self) -> Option<Lease> {
        let slots = &self.shared.slots;
        loop {
            let start = self.shared.turn.fetch_add(1, Ordering::Relaxed);
            let in_turn = (0..slots.len()).map(|n| start.wrapping_add(n) % slots.len());
            let index = in_turn
                .filter(|index| slots[*index].is_up())
                .min_by_key(|index| slots[*index].in_flight.load(Ordering::Relaxed))?;
            // It may be gone since: then it is not up any more, and another is looked for.
            if let Some((channel, serial)) = slots[index].channel() {
                slots[index].in_flight.fetch_add(1, Ordering::Relaxed);
                return Some(Lease { shared: self.shared.clone(), index, serial, channel });
            }
        }
    }

    fn unreachable(&self) -> Error {
        let failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Error::Unreachable(failure.unwrap_or_else(|| "no connection in time".to_owned()))
    }
}

impl Shared {
    /// A connection stands. What is returned resolves when the slot has let go of it.
    fn up(&self, index: usize, channel: Channel) -> (u64, oneshot::Receiver<()>) {
        let slot = &self.slots[index];
        let serial = slot.serial.fetch_add(1, Ordering::Relaxed);
        let (in_use, given_up) = oneshot::channel();
        let live = Live { channel, serial, _in_use: in_use };
        *slot.live.write().unwrap_or_else(PoisonError::into_inner) = Some(live);
        slot.tried.store(true, Ordering::Release);
        self.changed.send_replace(());
        (serial, given_up)
    }

    /// The connection takes no more calls; those on it go on.
    fn down(&self, index: usize, serial: u64) {
        let mut live = self.slots[index].live.write().unwrap_or_else(PoisonError::into_inner);
        if live.as_ref().is_some_and(|live| live.serial == serial) {
            *live = None;
        }
    }

    /// An attempt to connect has failed.
    fn failed(&self, index: usize, cause: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
        self.slots[index].tried.store(true, Ordering::Release);
        self.changed.send_replace(());
    }
}

impl Slot {
    fn is_up(&self) -> bool {
        self.live.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn channel(&self) -> Option<(Channel, u64)> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.as_ref().map(|live| (live.channel.clone(), live.serial))
    }
}

/// A connection, lent for one call or stream.
#[derive(Debug)]
pub(crate) struct Lease {
    shared: Arc<Shared>,
    index: usize,
    serial: u64,
    channel: Channel,
}

impl Lease {
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The connection is broken: nobody else gets it, and its keeper makes a new one.
    pub(crate) fn give_up(&self) {
        self.shared.down(self.index, self.serial);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.slots[self.index].in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
