//! Events that the log did not take, in a file on this node's disk: late, not lost.
//!
//! What is written is on the disk before anybody is told. What was read back stays in the file
//! until all of it has been, and so comes again after a kill: events count once. What cannot be
//! read back is put aside for somebody to look at.

mod frame;
#[cfg(test)]
mod tests;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;
use tokio::time::timeout;

use super::Event;
use super::batch::{self, Damaged};
use crate::limits::{SPILL_PORTION_BYTES, SPILL_WRITE_MAX};
use frame::Found;

/// The file, in the data directory.
const NAME: &str = "events.spill";
/// Where a file goes of which not everything could be read back.
const DAMAGED_NAME: &str = "events.spill.damaged";

/// The file.
pub(super) struct Spill {
    /// Held by the thread that is on the disk. Whoever waits for it waits without a thread.
    store: Arc<Mutex<Store>>,
    waiting_bytes: Arc<AtomicU64>,
}

struct Store {
    path: PathBuf,
    file: File,
    bytes_max: u64,
    /// What lies before it has been read back.
    read: u64,
    /// Where the next frame goes.
    end: u64,
    /// Some of what was read back could not be read.
    is_damaged: bool,
}

/// Events from the file, oldest first.
pub(super) struct Portion {
    /// What could be read.
    pub(super) events: Vec<Event>,
    /// Frames that could not.
    pub(super) damaged: u64,
    /// Where they end.
    next: u64,
}

impl Spill {
    /// Opens or makes the file in `dir`, which may grow to `bytes_max`. A last frame that was not
    /// written whole, which nobody was told of, is cut off.
    pub(super) fn open(dir: &Path, bytes_max: u64) -> io::Result<Self> {
        let store = Store::open(dir.join(NAME), bytes_max)?;
        let waiting_bytes = Arc::new(AtomicU64::new(store.end));
        Ok(Self { store: Arc::new(Mutex::new(store)), waiting_bytes })
    }

    /// Whether everything has been read back.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting_bytes.load(Ordering::Acquire) == 0
    }

    /// Writes batches of events, all or none. When this returns, they are on the disk.
    pub(super) async fn write(&self, batches: Vec<Vec<u8>>) -> io::Result<()> {
        self.on_disk(move |store| store.write(&batches)).await
    }

    /// What comes next; nothing at the end.
    pub(super) async fn next(&self) -> io::Result<Option<Portion>> {
        self.on_disk(|store| store.next()).await
    }

    /// `portion` is in the log, or cannot be read. At the end of the file it is emptied.
    pub(super) async fn done(&self, portion: &Portion) -> io::Result<()> {
        let (next, is_damaged) = (portion.next, portion.damaged > 0);
        self.on_disk(move |store| {
            store.is_damaged |= is_damaged;
            store.read = next;
            if store.read == store.end { store.empty() } else { Ok(()) }
        })
        .await
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (store, waiting_bytes) = (Arc::clone(&self.store), Arc::clone(&self.waiting_bytes));
        let working = async move {
            let mut store = store.lock_owned().await;
            let done = tokio::task::spawn_blocking(move || {
                let result = work(&mut store);
                waiting_bytes.store(store.end - store.read, Ordering::Release);
                result
            });
            done.await.unwrap_or_else(|error| Err(io::Error::other(error)))
        };
        let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "the disk does not answer"));
        timeout(SPILL_WRITE_MAX, working).await.unwrap_or_else(late)
    }
}

impl Store {
    fn open(path: PathBuf, bytes_max: u64) -> io::Result<Self> {
        let file = open(&path)?;
        let len = file.metadata()?.len();
        let (mut end, mut last) = (0, None);
        while let Some(found) = frame::find(&file, end, len)? {
            last = Some((end, found));
            end = match found {
                Found::Frame { next, .. } | Found::Damage { next } => next,
            };
        }
        // The system may have made room for the last frame, and not written it, when the power
        // went.
        if let Some((at, Found::Frame { batch, next })) = last
            && batch::decode(&read(&file, batch, next)?) == Err(Damaged::Checksum)
        {
            end = at;
        }
        if end < len {
            let (path, bytes) = (path.display(), len - end);
            tracing::warn!(%path, bytes, "events that were not written whole are cut off");
            file.set_len(end)?;
            file.sync_all()?;
        }
        Ok(Self { path, file, bytes_max, read: 0, end, is_damaged: false })
    }

    fn write(&mut self, batches: &[Vec<u8>]) -> io::Result<()> {
        self.put_in_place()?;
        let mut at = self.end;
        let written = batches.iter().try_for_each(|batch| {
            let header = frame::header(batch)?;
            let next = at + (header.len() + batch.len()) as u64;
            if next > self.bytes_max {
                let why = format!("it has reached its bound of {} bytes", self.bytes_max);
                return Err(io::Error::new(io::ErrorKind::StorageFull, why));
            }
            self.file.write_all_at(&header, at)?;
            fail::fail_point!("spill-half-written");
            self.file.write_all_at(batch, at + header.len() as u64)?;
            at = next;
            Ok(())
        });
        let written = written.and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.end = at,
            // The next one is written over what came so far. It is cut off where that works.
            Err(_) => drop(self.file.set_len(self.end)),
        }
        written
    }

    fn next(&self) -> io::Result<Option<Portion>> {
        let mut portion = Portion { events: Vec::new(), damaged: 0, next: self.read };
        while portion.next < self.end && portion.next - self.read < SPILL_PORTION_BYTES {
            let found = frame::find(&self.file, portion.next, self.end)?;
            // Frames were counted when they were written: what holds none now is damage.
            let found = found.unwrap_or(Found::Damage { next: self.end });
            let (at, path) = (portion.next, self.path.display());
            match found {
                Found::Frame { batch, next } => {
                    portion.next = next;
                    match batch::decode(&read(&self.file, batch, next)?) {
                        Ok(events) => portion.events.extend(events),
                        Err(error) => {
                            portion.damaged += 1;
                            tracing::error!(%path, at, %error, "events cannot be read back");
                        }
                    }
                }
                Found::Damage { next } => {
                    (portion.next, portion.damaged) = (next, portion.damaged + 1);
                    tracing::error!(%path, at, next, "events cannot be read back");
                }
            }
        }
        Ok((portion.next > self.read).then_some(portion))
    }

    /// Everything has been read back.
    fn empty(&mut self) -> io::Result<()> {
        fail::fail_point!("spill-before-empty");
        if self.is_damaged {
            let aside = self.path.with_file_name(DAMAGED_NAME);
            std::fs::rename(&self.path, &aside)?;
            tracing::error!(path = %aside.display(), "what cannot be read back is kept there");
            self.file = open(&self.path)?;
        } else {
            self.file.set_len(0)?;
            self.file.sync_all()?;
        }
        (self.read, self.end, self.is_damaged) = (0, 0, false);
        Ok(())
    }

    /// The system goes on writing to a file that was deleted or moved away, for nobody to find.
    /// Once all that was in it has been read back, there is no need to.
    fn put_in_place(&mut self) -> io::Result<()> {
        let place = |file: &Metadata| (file.dev(), file.ino());
        let found = std::fs::metadata(&self.path);
        if found
            .is_ok_and(|found| self.file.metadata().is_ok_and(|own| place(&own) == place(&found)))
        {
            return Ok(());
        }
        if self.read < self.end {
            let path = self.path.display();
            return Err(io::Error::other(format!("{path} is another file than was opened")));
        }
        *self = Self::open(self.path.clone(), self.bytes_max)?;
        Ok(())
    }
}

/// The file, there also after the power goes.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(file)
}

fn read(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    // At most SPILL_FRAME_BYTES_MAX.
    #[allow(clippy::cast_possible_truncation)]
    let mut bytes = vec![0; (to - from) as usize];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}
