//! The writer of the profiles: a thread that appends what is new to a journal, folds everything
//! into whole profiles now and then (see `fold`), and reads it back at a start.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rusqlite::params;
use slotwise_core::model::Profile;
use tokio::sync::{mpsc, oneshot};

use super::batch::{Batch, BatchError, Entries, Entry};
use super::fold::Fold;
use super::pending::Taken;
use super::state::State;
use super::{Forget, ReSegment};
use crate::limits::{PROFILE_FLUSH_INTERVAL, PROFILE_FOLD_STEP_BYTES, PROFILE_SWEEP_INTERVAL};
use crate::ports::{Forgotten, StoreError, VisitorKey};
use crate::store::embedded::database::{Database, failed};

/// Commands that the writer is told of at once; further callers wait for room.
pub(super) const COMMANDS_WAITING_MAX: usize = 64;

/// Where the answer to a command goes.
pub(super) type Done<T> = oneshot::Sender<Result<T, StoreError>>;

/// What a caller waits for.
pub(super) enum Command {
    /// All that was recorded before it is on disk.
    Flush(Done<()>),
    /// Segments are on disk and in memory.
    Segments(ReSegment, Done<Profile>),
    /// A visitor is neither in memory nor on disk.
    Forget(Forget, Done<Forgotten>),
}

pub(super) struct Journal {
    pub(super) database: Database,
    pub(super) state: Arc<State>,
    /// Bytes of the journal.
    pub(super) bytes: u64,
    /// Bytes of the profiles when they were last folded.
    pub(super) folded_bytes: u64,
    /// The fold that is under way.
    pub(super) folding: Option<Fold>,
    /// What is being written, and the batch that it becomes.
    taken: Taken,
    batch: Batch,
}

impl Journal {
    /// Reads everything that `database` holds into `state`, and brings it to today's format.
    pub(super) fn open(database: Database, state: Arc<State>) -> Result<Self, StoreError> {
        let mut journal = Self {
            database,
            state,
            bytes: 0,
            folded_bytes: 0,
            folding: None,
            taken: Taken::default(),
            batch: Batch::new(),
        };
        let until_us = "SELECT max(until_us) FROM forgotten";
        let until_us = journal.database.write_blocking(|writer| {
            writer.query_row(until_us, [], |row| row.get(0)).map_err(failed)
        })?;
        journal.state.forgotten_until(until_us);
        let is_of_today = journal.read_back()?;
        if !is_of_today {
            // First what was deleted before deletes left zeros behind; then the batches.
            journal.vacuum()?;
            journal.fold()?;
        }
        Ok(journal)
    }

    pub(super) fn run(mut self, waiting: &mut mpsc::Receiver<Command>) {
        let mut swept = Instant::now();
        loop {
            let stopping = self.state.stopping.load(Ordering::Acquire);
            self.serve(waiting);
            if stopping {
                return;
            }
            if swept.elapsed() >= PROFILE_SWEEP_INTERVAL {
                self.state.sweep();
                swept = Instant::now();
            }
            if self.is_fold_due()
                && let Err(error) = self.fold_step(PROFILE_FOLD_STEP_BYTES)
            {
                tracing::error!(%error, "profiles could not be folded; the journal grows");
            }
            std::thread::park_timeout(PROFILE_FLUSH_INTERVAL);
        }
    }

    /// Writes what is pending and does what is asked, all callers of a moment at once.
    pub(super) fn serve(&mut self, waiting: &mut mpsc::Receiver<Command>) {
        let (mut flushes, mut segments, mut forgets) = (Vec::new(), Vec::new(), Vec::new());
        for command in std::iter::from_fn(|| waiting.try_recv().ok()).take(COMMANDS_WAITING_MAX) {
            match command {
                Command::Flush(done) => flushes.push(done),
                Command::Segments(ask, done) => segments.push((ask, done)),
                Command::Forget(forget, done) => forgets.push((forget, done)),
            }
        }
        let result = self.write_pending();
        if let Err(error) = &result {
            tracing::error!(%error, "exposures are not on disk; trying again");
        }
        let wrong = result.as_ref().err().map(|error| format!("exposures wait in memory: {error}"));
        self.state.degraded.send_if_modified(|known| {
            let is_new = *known != wrong.as_deref().unwrap_or_default();
            *known = wrong.unwrap_or_default();
            is_new
        });
        for done in flushes {
            let _ = done.send(result.clone());
        }
        if !segments.is_empty() {
            self.change_segments(segments);
        }
        if !forgets.is_empty() {
            self.forget(forgets);
        }
    }

    pub(super) fn write_pending(&mut self) -> Result<(), StoreError> {
        self.state.pending.take(&mut self.taken);
        self.batch.clear();
        self.taken.batches().for_each(|part| self.batch.append(part));
        if self.batch.is_empty() {
            return Ok(());
        }
        match append(&self.database, &self.batch) {
            Ok(bytes) => {
                self.bytes += bytes;
                self.taken.clear();
                Ok(())
            }
            Err(error) => {
                // Kept for the next try, in front of what came meanwhile.
                self.state.pending.put_back(&mut self.taken);
                Err(error)
            }
        }
    }

    /// First on disk, then in memory: a change that fails has not happened. Nobody else changes
    /// segments meanwhile.
    fn change_segments(&mut self, asked: Vec<(ReSegment, Done<Profile>)>) {
        let mut changed: HashMap<VisitorKey, Profile> = HashMap::new();
        let mut accepted = Vec::with_capacity(asked.len());
        for (ask, done) in asked {
            match self.resegment(&ask, &mut changed) {
                Ok(()) => accepted.push((ask.visitor, done)),
                Err(error) => drop(done.send(Err(error))),
            }
        }
        let known = |visitor| self.state.copy(visitor).unwrap_or_default();
        changed.retain(|visitor, profile| profile.segments() != known(*visitor).segments());
        let mut batch = Batch::new();
        for (visitor, profile) in &changed {
            batch.add_segments(*visitor, profile.segments());
        }
        let written = if changed.is_empty() { Ok(0) } else { append(&self.database, &batch) };
        let written = written.map(|bytes| self.bytes += bytes);
        if written.is_ok() {
            for (visitor, profile) in changed {
                self.state.set_segments(visitor, profile.segments().to_vec());
            }
        }
        for (visitor, done) in accepted {
            let profile = || self.state.copy(visitor).unwrap_or_default();
            let _ = done.send(written.clone().map(|()| profile()));
        }
    }

    /// Changes the visitor's profile in `changed`, where it may be from an earlier ask.
    fn resegment(
        &self,
        ask: &ReSegment,
        changed: &mut HashMap<VisitorKey, Profile>,
    ) -> Result<(), StoreError> {
        let profile = match changed.entry(ask.visitor) {
            Slot::Occupied(earlier) => earlier.into_mut(),
            Slot::Vacant(slot) => {
                let known = self.state.copy(ask.visitor);
                if known.is_none() {
                    self.state.expect_room()?;
                }
                slot.insert(known.unwrap_or_default())
            }
        };
        let (add, remove) = (&ask.change.add, &ask.change.remove);
        let full = |_| StoreError::Full("a visitor has at most 256 segments");
        profile.update_segments(add, remove, ask.now_us).map_err(full)
    }

    /// Returns whether all of it is in today's format. In the order in which it was written: the
    /// last word on a visitor's segments holds.
    fn read_back(&mut self) -> Result<bool, StoreError> {
        let now_us = self.state.now_us();
        let state = Arc::clone(&self.state);
        let (mut sizes, mut is_of_today) = ([0_u64; 2], true);
        self.database.write_blocking(|writer| {
            let tables = [
                // Those below 0 are newer, see `fold`.
                "SELECT body FROM profiles ORDER BY part < 0, part",
                "SELECT body FROM journal ORDER BY batch",
            ];
            for (table, size) in tables.into_iter().zip(&mut sizes) {
                let mut statement = writer.prepare(table).map_err(failed)?;
                let mut rows = statement.query([]).map_err(failed)?;
                while let Some(row) = rows.next().map_err(failed)? {
                    let body = row.get_ref(0).and_then(|body| Ok(body.as_blob()?));
                    let body = body.map_err(failed)?;
                    *size += body.len() as u64;
                    match read_batch(&state, body, now_us) {
                        Ok(is_tagged) => is_of_today &= is_tagged,
                        // The rest is worth more than this batch: it is left out, and said.
                        Err(error @ BatchError::Damaged) => tracing::error!(%error, "left out"),
                        Err(error @ BatchError::Newer(_)) => {
                            return Err(StoreError::Unavailable(error.to_string()));
                        }
                    }
                }
            }
            Ok(())
        })?;
        [self.folded_bytes, self.bytes] = sizes;
        self.state.sweep();
        Ok(is_of_today)
    }
}

/// Adds `batch` to the journal; returns its bytes.
fn append(database: &Database, batch: &Batch) -> Result<u64, StoreError> {
    let body = batch.bytes();
    database.write_blocking(|writer| {
        writer.execute("INSERT INTO journal (body) VALUES (?1)", params![body]).map_err(failed)
    })?;
    Ok(body.len() as u64)
}

/// Takes all that `batch` says, or nothing; returns whether it is in today's format.
fn read_batch(state: &State, batch: &[u8], now_us: i64) -> Result<bool, BatchError> {
    let entries = Entries::of(batch)?;
    let is_tagged = entries.is_tagged;
    for (visitor, entry) in entries.collect::<Result<Vec<_>, _>>()? {
        state.read_back(visitor, |profile| match entry {
            Entry::Exposure(advertiser, shown) => {
                // A list that is full of what still counts is as capped as it can be.
                let _ = profile.record(&advertiser.into(), shown, now_us);
                profile.take_fresh();
            }
            Entry::Released(advertiser, shown) => {
                profile.release(&advertiser.into(), &shown);
            }
            Entry::Segments(segments) => profile.set_segments(segments),
        });
    }
    Ok(is_tagged)
}
