//! One SQLite file: a writer, a few readers, and calls that keep off the async threads.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OpenFlags};

use crate::limits::SQLITE_BUSY;
use crate::ports::StoreError;

/// Readers that are kept open for the next call.
const IDLE_READERS_MAX: usize = 4;

/// A SQLite file in WAL mode. Readers see a committed state and never wait for the writer.
#[derive(Clone)]
pub(super) struct Database {
    path: Arc<PathBuf>,
    /// Device and inode of the file that was opened.
    place: (u64, u64),
    // Closed first: the last connection to go folds the log into the file, and a reader cannot.
    readers: Arc<Mutex<Vec<Connection>>>,
    writer: Arc<Mutex<Connection>>,
}

impl Database {
    /// Opens or makes the file at `path` and brings it to the newest of `migrations`.
    pub(super) fn open(path: &Path, migrations: &[&str]) -> Result<Self, StoreError> {
        let mut writer = Connection::open(path).map_err(failed)?;
        prepare(&writer)?;
        // FULL: a commit is on the disk when it returns, whatever happens to the machine.
        writer.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
        writer.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        migrate(&mut writer, migrations)?;
        // What a killed process left in the log goes into the file now, rather than with the
        // first change, which may be a kill that somebody waits for.
        writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)?;
        Ok(Self {
            path: Arc::new(path.to_path_buf()),
            place: place(path)?,
            writer: Arc::new(Mutex::new(writer)),
            readers: Arc::default(),
        })
    }

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` on the writer, on a thread that may block.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let this = self.clone();
        blocking(move || this.write_blocking(work)).await
    }

    /// Runs `work` on the writer, here.
    pub(super) fn write_blocking<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // SQLite goes on writing to a file that was deleted or moved away, for nobody to find.
        if place(&self.path)? != self.place {
            let path = self.path.display();
            return Err(StoreError::Unavailable(format!("{path} is another file than was opened")));
        }
        work(&mut unpoisoned(&self.writer))
    }

    /// Runs `work` on a reader, on a thread that may block.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let this = self.clone();
        blocking(move || {
            let idle = unpoisoned(&this.readers).pop();
            let mut reader = match idle {
                Some(reader) => reader,
                None => this.open_reader()?,
            };
            let result = work(&mut reader);
            let mut readers = unpoisoned(&this.readers);
            if readers.len() < IDLE_READERS_MAX {
                readers.push(reader);
            }
            result
        })
        .await
    }

    fn open_reader(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = Connection::open_with_flags(&*self.path, flags).map_err(failed)?;
        prepare(&reader)?;
        Ok(reader)
    }
}

fn place(path: &Path) -> Result<(u64, u64), StoreError> {
    let found = std::fs::metadata(path);
    found.map(|file| (file.dev(), file.ino())).map_err(|error| {
        StoreError::Unavailable(format!("{} is not where it was: {error}", path.display()))
    })
}

/// An error of SQLite's as one of ours.
pub(super) fn failed(error: rusqlite::Error) -> StoreError {
    StoreError::Unavailable(format!("sqlite: {error}"))
}

fn prepare(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(SQLITE_BUSY).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// A panic while the lock was held rolled its transaction back: the connection is sound.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn blocking<T, F>(work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
}

fn migrate(writer: &mut Connection, migrations: &[&str]) -> Result<(), StoreError> {
    let done: usize =
        writer.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    if done > migrations.len() {
        return Err(StoreError::Unavailable(format!(
            "the data was written by a newer slotwise (schema {done}; this one knows {})",
            migrations.len()
        )));
    }
    for (at, sql) in migrations.iter().enumerate().skip(done) {
        let tx = writer.transaction().map_err(failed)?;
        tx.execute_batch(sql).map_err(failed)?;
        tx.pragma_update(None, "user_version", at + 1).map_err(failed)?;
        tx.commit().map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIGRATIONS: [&str; 1] = ["CREATE TABLE numbers (n INTEGER)"];

    fn write(database: &Database) -> Result<(), StoreError> {
        database.write_blocking(|writer| {
            writer.execute("INSERT INTO numbers VALUES (1)", []).map(drop).map_err(failed)
        })
    }

    /// It would be acknowledged, and be gone after the next start.
    #[test]
    fn nothing_is_written_to_a_file_that_was_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside) = (dir.path().join("d.sqlite"), dir.path().join("aside"));
        let database = Database::open(&path, &MIGRATIONS).unwrap();
        write(&database).unwrap();
        std::fs::rename(&path, &aside).unwrap();
        assert!(write(&database).is_err(), "there is no file");
        std::fs::write(&path, b"").unwrap();
        assert!(write(&database).is_err(), "there is another one");
        std::fs::rename(&aside, &path).unwrap();
        write(&database).unwrap();
    }
}
