//! Folding: what the journal says, written down as whole profiles, so that the journal can go.
//!
//! Each shard of the visitors is one row, which is written anew in its place; when all are, the
//! journal of before goes. A step of it is small, and the writer does what else there is to do
//! between the steps: neither the disk nor a processor is taken from the decisions for long. What
//! is shown meanwhile may be in a row and in the journal. A fold that is cut off leaves rows that
//! say nothing but what the journal says, too.

use rusqlite::params;

use super::batch::Batch;
use super::journal::Journal;
use super::visitors::SHARDS;
use crate::limits::{PROFILE_FOLD_STEP_BYTES, PROFILE_JOURNAL_BYTES_MIN};
use crate::ports::{StoreError, VisitorKey};
use crate::store::embedded::database::failed;

/// Batches of the journal that go in one step: each is what was shown within one flush, so that
/// more of them go than come.
const BATCHES_STEP: usize = 4;

/// A fold that has begun.
pub(super) struct Fold {
    /// The last batch whose exposures were all in memory when it began.
    last_batch: i64,
    /// Bytes of the journal up to it.
    journal_bytes: u64,
    /// Shards that are written.
    shards: usize,
    /// Their bytes.
    bytes: u64,
    /// The shard that is written down.
    body: Batch,
}

impl Journal {
    /// Whether there is something for [`Journal::fold_step`] to do.
    pub(super) fn is_fold_due(&self) -> bool {
        let many = PROFILE_JOURNAL_BYTES_MIN.max(2 * self.folded_bytes);
        self.folding.is_some() || self.bytes > many
    }

    /// Goes on with the fold by some `bytes`, or begins one; returns whether it is done. After an
    /// error the next one begins anew.
    pub(super) fn fold_step(&mut self, bytes: usize) -> Result<bool, StoreError> {
        let mut fold = match self.folding.take() {
            Some(fold) => fold,
            None => self.begin_fold()?,
        };
        if fold.shards < SHARDS {
            self.write_shards(&mut fold, bytes)?;
        } else if self.delete_batches(fold.last_batch)? == 0 {
            self.folded_bytes = fold.bytes;
            self.bytes -= fold.journal_bytes;
            return Ok(true);
        }
        self.folding = Some(fold);
        Ok(false)
    }

    /// All steps at once.
    pub(super) fn fold(&mut self) -> Result<(), StoreError> {
        while !self.fold_step(PROFILE_FOLD_STEP_BYTES)? {}
        Ok(())
    }

    fn begin_fold(&self) -> Result<Fold, StoreError> {
        let last_batch = "SELECT coalesce(max(batch), 0) FROM journal";
        let last_batch = self.database.write_blocking(|writer| {
            writer.query_row(last_batch, [], |row| row.get(0)).map_err(failed)
        })?;
        let (journal_bytes, body) = (self.bytes, Batch::new());
        Ok(Fold { last_batch, journal_bytes, shards: 0, bytes: 0, body })
    }

    /// Writes the next shards, up to some `bytes` or to the last of them.
    fn write_shards(&self, fold: &mut Fold, bytes: usize) -> Result<(), StoreError> {
        self.database.write_blocking(|writer| {
            let tx = writer.transaction().map_err(failed)?;
            let mut written = 0;
            while fold.shards < SHARDS && written < bytes {
                fold.body.clear();
                for (key, profile) in &*self.state.visitors.shard(fold.shards) {
                    let visitor = VisitorKey::from(*key);
                    for (advertiser, list) in profile.lists() {
                        let shown = list.iter();
                        shown.for_each(|shown| fold.body.add_exposure(visitor, advertiser, shown));
                    }
                    if !profile.segments().is_empty() {
                        fold.body.add_segments(visitor, profile.segments());
                    }
                }
                // Below the numbers that rows had before each shard had its own.
                let row = -1 - i64::try_from(fold.shards).unwrap_or(i64::MAX - 1);
                tx.prepare_cached(
                    "INSERT INTO profiles (part, generation, body) VALUES (?1, 0, ?2)
                        ON CONFLICT (part) DO UPDATE SET body = excluded.body",
                )
                .and_then(|mut insert| insert.execute(params![row, fold.body.bytes()]))
                .map_err(failed)?;
                written += fold.body.bytes().len();
                fold.shards += 1;
            }
            fold.bytes += written as u64;
            if fold.shards == SHARDS {
                tx.execute("DELETE FROM profiles WHERE part >= 0", []).map_err(failed)?;
            }
            tx.commit().map_err(failed)
        })
    }

    /// Deletes the first batches of the journal up to `last_batch`; returns how many there were.
    /// In their order, as an earlier batch must not outlive what takes its word back.
    fn delete_batches(&self, last_batch: i64) -> Result<usize, StoreError> {
        self.database.write_blocking(|writer| {
            writer
                .prepare_cached(
                    "DELETE FROM journal WHERE batch IN
                        (SELECT batch FROM journal WHERE batch <= ?1 ORDER BY batch LIMIT ?2)",
                )
                .and_then(|mut delete| delete.execute(params![last_batch, BATCHES_STEP]))
                .map_err(failed)
        })
    }
}
