//! The log of events in a SQLite file of its own, so that no click waits for the catalogue's
//! writer.
//!
//! Positions are the file's row numbers, from one counter for all partitions, which SQLite keeps
//! apart from the rows: none is given twice, even when everything was trimmed. There is one
//! writer, so a reader that has seen a position has seen all below it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tokio::sync::Mutex;

use super::database::{Database, failed};
use crate::events::Partition;
use crate::limits::LOG_TRIM_ROWS;
use crate::ports::{Clock, EventLog, LogBatch, Position, StoreError};

/// The index holds all that a trim looks at, so that it reads no batch.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE batches (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        partition INTEGER NOT NULL,
        appended_at_us INTEGER NOT NULL,
        bytes BLOB NOT NULL);
    CREATE INDEX batches_of_partition ON batches (partition, position, appended_at_us);
"];

/// The log of one node.
pub struct EmbeddedLog {
    database: Database,
    clock: Arc<dyn Clock>,
    /// Held by the thread that writes. Whoever waits for it waits without a thread: behind a disk
    /// that hangs, calls that were given up do not pile up.
    turn: Arc<Mutex<()>>,
    /// The last position of each partition that ever had one, as it is on the disk: nobody else
    /// writes to the file. Whoever has read so far is told that there is no more without a look at
    /// the file: counters ask ten times a second.
    ends: Arc<Ends>,
}

type Ends = std::sync::Mutex<HashMap<Partition, i64>>;

impl EmbeddedLog {
    /// Opens or makes `events.sqlite` in `dir`.
    ///
    /// # Errors
    /// When the file cannot be opened, or a newer version of slotwise wrote it.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let database = Database::open(&dir.join("events.sqlite"), &MIGRATIONS)?;
        let ends = database.write_blocking(|writer| {
            let sql = "SELECT partition, max(position) FROM batches GROUP BY partition";
            let mut select = writer.prepare(sql).map_err(failed)?;
            let end = |row: &rusqlite::Row<'_>| Ok((Partition(row.get(0)?), row.get(1)?));
            let ends = select.query_map([], end).and_then(Iterator::collect);
            ends.map_err(failed)
        })?;
        let ends = Arc::new(Ends::new(ends));
        Ok(Self { database, clock, turn: Arc::default(), ends })
    }

    async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        self.database
            .write(move |writer| {
                let _turn = turn;
                work(writer)
            })
            .await
    }
}

#[async_trait]
impl EventLog for EmbeddedLog {
    async fn append(&self, batches: Vec<(Partition, Vec<u8>)>) -> Result<(), StoreError> {
        let (clock, ends) = (Arc::clone(&self.clock), Arc::clone(&self.ends));
        self.write(move |writer| {
            fail::fail_point!("log-append", |_| Err(StoreError::Unavailable("told to".into())));
            let tx = writer.transaction().map_err(failed)?;
            let mut added = Vec::with_capacity(batches.len());
            {
                let sql = "INSERT INTO batches (partition, appended_at_us, bytes)
                    VALUES (?1, ?2, ?3)";
                let mut insert = tx.prepare_cached(sql).map_err(failed)?;
                let now_us = clock.now_us();
                for (partition, bytes) in &batches {
                    let position = insert.insert(params![partition.0, now_us, bytes]);
                    added.push((*partition, position.map_err(failed)?));
                }
            }
            fail::fail_point!("log-in-transaction");
            let committed = tx.commit().map_err(failed);
            // Also where that failed: then it is not known what the disk has, and a look at it does
            // no harm.
            unpoisoned(&ends).extend(added);
            committed
        })
        .await
    }

    async fn read(
        &self,
        partition: Partition,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<LogBatch>, StoreError> {
        // Past the largest row number there is nothing.
        let Ok(after) = i64::try_from(after.0) else { return Ok(Vec::new()) };
        if unpoisoned(&self.ends).get(&partition).is_none_or(|end| *end <= after) {
            return Ok(Vec::new());
        }
        self.database
            .read(move |reader| {
                let sql = "SELECT position, appended_at_us, bytes FROM batches
                    WHERE partition = ?1 AND position > ?2 ORDER BY position";
                let mut select = reader.prepare_cached(sql).map_err(failed)?;
                let mut rows = select.query(params![partition.0, after]).map_err(failed)?;
                let (mut found, mut bytes_left) = (Vec::new(), bytes_max);
                while let Some(row) = rows.next().map_err(failed)? {
                    let body = row.get_ref(2).and_then(|bytes| Ok(bytes.as_blob()?));
                    let body = body.map_err(failed)?;
                    if !found.is_empty() && body.len() > bytes_left {
                        break;
                    }
                    bytes_left = bytes_left.saturating_sub(body.len());
                    found.push(LogBatch {
                        position: Position(row.get::<_, u64>(0).map_err(failed)?.into()),
                        appended_at_us: row.get(1).map_err(failed)?,
                        bytes: body.to_vec(),
                    });
                }
                Ok(found)
            })
            .await
    }

    async fn trim(
        &self,
        partition: Partition,
        counted: Position,
        before_us: i64,
    ) -> Result<u64, StoreError> {
        let counted = i64::try_from(counted.0).unwrap_or(i64::MAX);
        let mut trimmed = 0;
        loop {
            // Part by part, so that no click waits for all of it.
            let part = self
                .write(move |writer| {
                    let sql = "DELETE FROM batches WHERE position IN (
                        SELECT position FROM batches
                        WHERE partition = ?1 AND position <= ?2 AND appended_at_us < ?3
                        ORDER BY position LIMIT ?4)";
                    let mut delete = writer.prepare_cached(sql).map_err(failed)?;
                    delete
                        .execute(params![partition.0, counted, before_us, LOG_TRIM_ROWS])
                        .map_err(failed)
                })
                .await?;
            trimmed += part as u64;
            if part < LOG_TRIM_ROWS {
                return Ok(trimmed);
            }
        }
    }
}

/// The map is whole between any two of its calls.
fn unpoisoned(ends: &Ends) -> std::sync::MutexGuard<'_, HashMap<Partition, i64>> {
    ends.lock().unwrap_or_else(PoisonError::into_inner)
}
