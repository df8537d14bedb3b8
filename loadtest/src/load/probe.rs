//! Processor time at the beginning and the end of the measured part.

use crate::cpu::Spent;
use crate::meter::Window;

/// Looks at the clocks of the processors when it is time to.
pub(crate) struct Probe {
    server_pid: Option<u32>,
    window: Window,
    before: Option<Spent>,
    spent: Option<Spent>,
}

impl Probe {
    pub(crate) fn new(window: Window, server_pid: Option<u32>) -> Self {
        Self { server_pid, window, before: None, spent: None }
    }

    /// One that never looks: nothing is measured.
    pub(crate) fn off() -> Self {
        let (window, nothing) = (Window { from_ns: 0, to_ns: 0 }, Some(Spent::default()));
        Self { server_pid: None, window, before: nothing, spent: nothing }
    }

    /// When to look next.
    #[inline]
    pub(crate) fn due_ns(&self) -> Option<u64> {
        match (self.before, self.spent) {
            (None, _) => Some(self.window.from_ns),
            (_, None) => Some(self.window.to_ns),
            _ => None,
        }
    }

    /// Looks.
    pub(crate) fn look(&mut self) {
        let now = Spent::now(self.server_pid);
        match self.before {
            None => self.before = Some(now),
            Some(before) => self.spent = Some(now.since(before)),
        }
    }

    /// What was spent within the measured part.
    pub(crate) fn spent(&self) -> Spent {
        self.spent.unwrap_or_default()
    }
}
