//! One process for each data directory.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::{Context, bail};

/// Held while the process uses the directory; the system lets go of it when the process ends,
/// however it ends.
pub(super) struct DataDirLock(#[allow(dead_code)] File);

impl DataDirLock {
    /// Takes the directory, or says that another process has it.
    pub(super) fn take(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("{} cannot be opened", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                bail!("another slotwise runs on this directory; stop it, or name another data_dir")
            }
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}
