//! The writer of the profiles: a thread that appends what is new to a journal, folds everything
//! into whole profiles now and then, and reads it back at a start.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rusqlite::params;
use slotwise_core::model::Profile;
use tokio::sync::{mpsc, oneshot};

use super::batch::{Batch, BatchError, Entries, Entry};
use super::state::State;
use super::{Forget, ReSegment};
use crate::limits::{PROFILE_FLUSH_INTERVAL, PROFILE_JOURNAL_BYTES_MIN, PROFILE_SWEEP_INTERVAL};
use crate::ports::{Forgotten, StoreError, VisitorKey};
use crate::store::embedded::database::{Database, failed};

/// Bytes of one part of the folded profiles.
const PART_BYTES: usize = 4 << 20;
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
    bytes: u64,
    folded_bytes: u64,
}

impl Journal {
    /// Reads everything that `database` holds into `state`, and brings it to today's format.
    pub(super) fn open(database: Database, state: Arc<State>) -> Result<Self, StoreError> {
        let mut journal = Self { database, state, bytes: 0, folded_bytes: 0 };
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
            let many = PROFILE_JOURNAL_BYTES_MIN.max(2 * self.folded_bytes);
            if self.bytes > many
                && let Err(error) = self.fold()
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
        let shown = self.state.pending.take();
        if shown.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new();
        shown.iter().for_each(|told| batch.add_told(told));
        self.append(&batch).inspect_err(|_| {
            // Kept for the next try, in front of what came meanwhile.
            self.state.pending.put_back(shown);
        })
    }

    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let body = batch.bytes();
        self.database.write_blocking(|writer| {
            writer.execute("INSERT INTO journal (body) VALUES (?1)", params![body]).map_err(failed)
        })?;
        self.bytes += body.len() as u64;
        Ok(())
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
        let written = if changed.is_empty() { Ok(()) } else { self.append(&batch) };
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

    /// Writes every profile whole, part by part, and then forgets the journal so far. Between the
    /// parts the journal goes on; what is shown meanwhile may be in both. A fold that is cut off
    /// leaves a part of a generation behind, which says nothing but what the journal says, too.
    pub(super) fn fold(&mut self) -> Result<(), StoreError> {
        let number = |sql: &'static str| {
            self.database.write_blocking(|writer| {
                writer.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed)
            })
        };
        let last = number("SELECT coalesce(max(batch), 0) FROM journal")?;
        let generation = number("SELECT coalesce(max(generation), 0) + 1 FROM profiles")?;
        let visitors: Vec<VisitorKey> =
            self.state.visitors.iter().map(|visitor| *visitor.key()).collect();
        let (mut part, mut bytes) = (Batch::new(), 0);
        for visitor in visitors {
            if let Some(profile) = self.state.visitors.get(&visitor) {
                for (advertiser, list) in profile.lists() {
                    list.iter().for_each(|shown| part.add_exposure(visitor, advertiser, shown));
                }
                if !profile.segments().is_empty() {
                    part.add_segments(visitor, profile.segments());
                }
            }
            if part.bytes().len() >= PART_BYTES {
                bytes += self.write_part(generation, &part)?;
                part = Batch::new();
                self.write_pending()?;
            }
        }
        bytes += self.write_part(generation, &part)?;
        self.database.write_blocking(|writer| {
            let tx = writer.transaction().map_err(failed)?;
            tx.execute("DELETE FROM profiles WHERE generation < ?1", params![generation])
                .map_err(failed)?;
            tx.execute("DELETE FROM journal WHERE batch <= ?1", params![last]).map_err(failed)?;
            tx.commit().map_err(failed)
        })?;
        (self.folded_bytes, self.bytes) = (bytes, 0);
        Ok(())
    }

    fn write_part(&self, generation: i64, part: &Batch) -> Result<u64, StoreError> {
        let body = part.bytes();
        self.database.write_blocking(|writer| {
            writer
                .execute(
                    "INSERT INTO profiles (generation, body) VALUES (?1, ?2)",
                    params![generation, body],
                )
                .map_err(failed)
        })?;
        Ok(body.len() as u64)
    }

    /// Returns whether all of it is in today's format. In the order in which it was written: the
    /// last word on a visitor's segments holds.
    fn read_back(&mut self) -> Result<bool, StoreError> {
        let now_us = self.state.now_us();
        let state = Arc::clone(&self.state);
        let (mut sizes, mut is_of_today) = ([0_u64; 2], true);
        self.database.write_blocking(|writer| {
            let tables = [
                "SELECT body FROM profiles ORDER BY part",
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

/// Takes all that `batch` says, or nothing; returns whether it is in today's format.
fn read_batch(state: &State, batch: &[u8], now_us: i64) -> Result<bool, BatchError> {
    let entries = Entries::of(batch)?;
    let is_tagged = entries.is_tagged;
    for (visitor, entry) in entries.collect::<Result<Vec<_>, _>>()? {
        let mut profile = state.visitors.entry(visitor).or_default();
        match entry {
            Entry::Exposure(advertiser, shown) => {
                // A list that is full of what still counts is as capped as it can be.
                let _ = profile.record(&advertiser.into(), shown, now_us);
                profile.take_fresh();
            }
            Entry::Released(advertiser, shown) => {
                profile.release(&advertiser.into(), &shown);
            }
            Entry::Segments(segments) => profile.set_segments(segments),
        }
    }
    Ok(is_tagged)
}
