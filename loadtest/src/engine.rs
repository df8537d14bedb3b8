//! The loop that a run goes round in, on one thread: send what is due, read what has come.

use std::time::{Duration, Instant};

use crate::h2::connection::Receiver;
use crate::lanes::Lanes;
use crate::limits::{LOOK_ROUND, PATIENCE};

/// A clock that begins with a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since then.
    #[inline]
    pub(crate) fn now_ns(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What a run does.
pub(crate) trait Load: Receiver<Self::Call> {
    /// What is kept for each call.
    type Call;

    /// It is `now_ns`: what comes next has come now.
    fn at(&mut self, now_ns: u64);

    /// Writes into `lanes` what is due.
    fn send(&mut self, lanes: &mut Lanes<Self::Call>);

    /// What was written has been handed to the kernel now.
    fn sent(&mut self, now_ns: u64);

    /// When there is something to send; nothing: nothing more comes.
    fn due_ns(&self) -> Option<u64>;

    /// When a call should have been sent.
    fn intended_ns(call: &Self::Call) -> u64;

    /// Whether nothing more will be sent.
    fn has_ended(&self) -> bool;

    /// Called when [`Self::watch_ns`] has come.
    fn watch(&mut self) {}

    /// An instant at which something has to be looked at, such as the beginning of a measurement.
    fn watch_ns(&self) -> Option<u64> {
        None
    }
}

/// How the thread divides its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    /// What is due within this is sent together.
    pub(crate) tick: Duration,
    /// What comes within this is read together.
    pub(crate) gather: Duration,
}

/// Goes round until `load` has ended and everything is answered or given up.
///
/// # Errors
/// When the kernel will not wait.
pub(crate) fn run<L: Load>(
    load: &mut L,
    lanes: &mut Lanes<L::Call>,
    clock: Clock,
    rhythm: Rhythm,
) -> anyhow::Result<()> {
    let (tick_ns, gather_ns) = (ns(rhythm.tick), ns(rhythm.gather));
    let (mut next_send, mut next_read, mut next_look) = (0, 0, ns(LOOK_ROUND));
    loop {
        let now = clock.now_ns();
        load.at(now);
        if load.watch_ns().is_some_and(|watch| watch <= now) {
            load.watch();
        }
        if now >= next_send {
            next_send = now + tick_ns;
            load.send(lanes);
        }
        lanes.flush(load);
        load.sent(clock.now_ns());
        if now >= next_look {
            next_look = now + ns(LOOK_ROUND);
            lanes.look_round(load, |call| now > L::intended_ns(call) + ns(PATIENCE));
        }
        if load.has_ended() && lanes.open() == 0 {
            return Ok(());
        }
        let watch = load.watch_ns().unwrap_or(u64::MAX);
        let due = load.due_ns().unwrap_or(u64::MAX).max(next_send).min(next_look).min(watch);
        let now = clock.now_ns();
        if next_read > now {
            // Nobody has to wake us meanwhile, which would cost the server, too.
            std::thread::sleep(Duration::from_nanos(next_read.min(due).saturating_sub(now)));
        }
        let pause = Duration::from_nanos(due.saturating_sub(clock.now_ns()));
        lanes.read(pause, load, |load| load.at(clock.now_ns()))?;
        next_read = clock.now_ns() + gather_ns;
    }
}

/// A span in nanoseconds.
pub(crate) fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
