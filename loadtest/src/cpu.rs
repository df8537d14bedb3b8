//! Processor time: of the thread that makes the load, and of the server.

use std::time::Duration;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};

/// What this thread has used so far.
pub(crate) fn of_this_thread() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u32::try_from(spent.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(spent.tv_sec).unwrap_or_default(), nanos)
}

/// What a process has used so far, in user and system, by the kernel's own ticks.
///
/// # Errors
/// When there is no such process.
pub(crate) fn of_process(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let ticks = ticks(&text).with_context(|| format!("{path} is not as expected"))?;
    let ticks_a_second = rustix::param::clock_ticks_per_second().max(1);
    Ok(Duration::from_secs(ticks) / u32::try_from(ticks_a_second).unwrap_or(1))
}

/// Fields 14 and 15: `utime` and `stime`. The second is a name, which may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

/// Processor time over a part of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) own: Duration,
    /// Nothing where it is not known who serves.
    pub(crate) server: Option<Duration>,
}

impl Spent {
    /// What was spent until now.
    pub(crate) fn now(server_pid: Option<u32>) -> Self {
        let server = server_pid.and_then(|pid| of_process(pid).ok());
        Self { own: of_this_thread(), server }
    }

    /// What was spent since.
    pub(crate) fn since(self, before: Self) -> Self {
        let server = self.server.zip(before.server);
        Self {
            own: self.own.saturating_sub(before.own),
            server: server.map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_process_are_found_whatever_its_name() {
        let stat = "1234 (a b) c) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14 15";
        assert_eq!(ticks(stat), Some(333));
        assert_eq!(ticks("1234 (a) S 1"), None);
    }

    #[test]
    fn our_own_process_has_a_time() {
        assert!(of_process(std::process::id()).is_ok());
        assert!(of_process(u32::MAX).is_err());
    }
}
