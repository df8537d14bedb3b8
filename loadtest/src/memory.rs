//! Resident memory of the server's process, as the kernel counts it.

use anyhow::Context;

/// Megabytes (10^6 bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Resident {
    pub(crate) now_mb: f64,
    /// The most since [`forget_most`].
    pub(crate) most_mb: f64,
}

/// What a process has in memory.
///
/// # Errors
/// When there is no such process.
pub(crate) fn of_process(pid: u32) -> anyhow::Result<Resident> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    resident(&text).with_context(|| format!("{path} is not as expected"))
}

/// From now on the most counts anew.
///
/// # Errors
/// When the kernel does not let us.
pub(crate) fn forget_most(pid: u32) -> anyhow::Result<()> {
    const THE_MOST: &str = "5";
    let path = format!("/proc/{pid}/clear_refs");
    std::fs::write(&path, THE_MOST).context(path)
}

fn resident(status: &str) -> Option<Resident> {
    let mb = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib * 1_024.0 / 1e6)
    };
    Some(Resident { now_mb: mb("VmRSS:")?, most_mb: mb("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_resident_is_found() {
        let status = "Name:\tx\nVmHWM:\t  250000 kB\nVmRSS:\t  125000 kB\n";
        assert_eq!(resident(status), Some(Resident { now_mb: 128.0, most_mb: 256.0 }));
        assert_eq!(resident("Name:\tx\n"), None);
    }

    #[test]
    fn the_most_is_forgotten() {
        let pid = std::process::id();
        // Touched whole, and given back to the kernel: so large an allocation has pages of its own.
        drop(vec![1_u8; 64 << 20]);
        let before = of_process(pid).unwrap();
        forget_most(pid).unwrap();
        let after = of_process(pid).unwrap();
        assert!(before.most_mb - after.most_mb > 32.0, "{before:?} {after:?}");
    }
}
