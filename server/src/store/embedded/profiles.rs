//! Profiles in this process, with a journal on disk: the exposures of the last moments in
//! batches, folded into whole profiles now and then.
//!
//! Memory is the truth while the process lives. A thread of its own writes what is new every
//! [`PROFILE_FLUSH_INTERVAL`]; a start reads everything back. An exposure is known by its
//! decision and ad, so one that is both in a profile and in the journal counts once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use rusqlite::params;
use slotwise_core::decide::Strict;
use slotwise_core::model::{AccountSerial, Profile};
use tokio::sync::{mpsc, oneshot, watch};

use super::database::{Database, failed};
use super::exposures::{Shown, decode, encode, new_batch};
use crate::limits::{
    HISTORY, PROFILE_FLUSH_INTERVAL, PROFILE_JOURNAL_BYTES_MIN, PROFILE_PENDING_MAX,
    PROFILE_SWEEP_INTERVAL, VISITORS_MAX,
};
use crate::ports::{
    Admission, Clock, Forgotten, Known, ProfileStore, SegmentsChange, StoreError, VisitorKey,
};
use crate::telemetry::spawn_vital;

/// Shards of the map: so many that folding one of them into bytes, under its lock, stays below a
/// millisecond at a million visitors.
const SHARDS: usize = 1_024;
/// Bytes of one part of the folded profiles.
const PART_BYTES: usize = 4 << 20;
/// Flushes that the writer is told of at once; further callers wait for room.
const FLUSHES_WAITING_MAX: usize = 64;

const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE journal (batch INTEGER PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE profiles (
        part INTEGER PRIMARY KEY, generation INTEGER NOT NULL, body BLOB NOT NULL);
"];

/// The profiles of one node.
pub struct EmbeddedProfiles {
    state: Arc<State>,
    requests: mpsc::Sender<Flush>,
    writer: Mutex<Option<JoinHandle<()>>>,
    forgets: watch::Sender<u64>,
    degraded: watch::Sender<String>,
}

/// Told when all that was recorded before it is on disk.
type Flush = oneshot::Sender<Result<(), StoreError>>;

struct State {
    visitors: DashMap<VisitorKey, Profile>,
    visitors_len: AtomicUsize,
    pending: Mutex<Vec<Shown>>,
    stopping: AtomicBool,
    clock: Arc<dyn Clock>,
}

impl EmbeddedProfiles {
    /// Opens or makes `profiles.sqlite` in `dir`, reads every profile, and starts the writer.
    ///
    /// # Errors
    /// When the file cannot be opened or read.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let database = Database::open(&dir.join("profiles.sqlite"), &MIGRATIONS)?;
        let state = Arc::new(State {
            visitors: DashMap::with_shard_amount(SHARDS),
            visitors_len: AtomicUsize::new(0),
            pending: Mutex::default(),
            stopping: AtomicBool::new(false),
            clock,
        });
        let mut journal =
            Journal { database, state: Arc::clone(&state), bytes: 0, folded_bytes: 0 };
        journal.read_back()?;
        let (requests, mut waiting) = mpsc::channel(FLUSHES_WAITING_MAX);
        let writer = spawn_vital("profiles", move || journal.run(&mut waiting))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let (forgets, degraded) = (watch::Sender::default(), watch::Sender::default());
        Ok(Self { state, requests, writer: Mutex::new(Some(writer)), forgets, degraded })
    }
}

impl Drop for EmbeddedProfiles {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::Release);
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            writer.thread().unpark();
            // It panics only where a bug does; the stop goes on.
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl ProfileStore for EmbeddedProfiles {
    async fn admit(
        &self,
        visitor: VisitorKey,
        _now_us: i64,
        _wait: Duration,
        admission: &mut dyn Admission,
    ) -> Result<(), StoreError> {
        let state = &self.state;
        if state.pending().len() >= PROFILE_PENDING_MAX {
            return Err(StoreError::Full("the disk is too slow for the exposures"));
        }
        let fresh = match state.visitors.entry(visitor) {
            Entry::Occupied(mut known) => {
                let profile = known.get_mut();
                admission.admit(profile, Strict::Local);
                profile.take_fresh()
            }
            Entry::Vacant(unknown) => {
                if state.visitors_len.load(Ordering::Relaxed) >= VISITORS_MAX {
                    return Err(StoreError::Full("there are too many visitors"));
                }
                let mut profile = Profile::default();
                admission.admit(&mut profile, Strict::Local);
                let fresh = profile.take_fresh();
                if !fresh.is_empty() {
                    unknown.insert(profile);
                    state.visitors_len.fetch_add(1, Ordering::Relaxed);
                }
                fresh
            }
        };
        if !fresh.is_empty() {
            let shown = fresh.into_iter().map(|(advertiser, shown)| (visitor, advertiser, shown));
            state.pending().extend(shown);
        }
        Ok(())
    }

    async fn read(
        &self,
        visitor: VisitorKey,
        _now_us: i64,
        _wait: Duration,
    ) -> Result<Known, StoreError> {
        let profile = self.state.visitors.get(&visitor).map(|known| known.clone());
        Ok(Known { profile: profile.unwrap_or_default(), is_certain: true })
    }

    async fn update_segments(
        &self,
        _visitor: VisitorKey,
        _now_us: i64,
        _change: SegmentsChange,
    ) -> Result<Profile, StoreError> {
        Err(StoreError::Full("segments are not kept by the embedded store"))
    }

    async fn forget(
        &self,
        _visitor: u128,
        _account: Option<AccountSerial>,
        _now_us: i64,
    ) -> Result<Forgotten, StoreError> {
        Err(StoreError::Full("the embedded store cannot forget"))
    }

    fn forgets(&self) -> watch::Receiver<u64> {
        self.forgets.subscribe()
    }

    fn degraded(&self) -> watch::Receiver<String> {
        self.degraded.subscribe()
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let gone = || StoreError::Unavailable("the profiles' writer has stopped".to_owned());
        let (done, written) = oneshot::channel();
        self.requests.send(done).await.map_err(|_| gone())?;
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            writer.thread().unpark();
        }
        written.await.map_err(|_| gone())?
    }
}

impl State {
    fn pending(&self) -> std::sync::MutexGuard<'_, Vec<Shown>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Journal {
    database: Database,
    state: Arc<State>,
    bytes: u64,
    folded_bytes: u64,
}

impl Journal {
    fn run(mut self, waiting: &mut mpsc::Receiver<Flush>) {
        let mut swept = Instant::now();
        loop {
            let stopping = self.state.stopping.load(Ordering::Acquire);
            let asked: Vec<_> =
                std::iter::from_fn(|| waiting.try_recv().ok()).take(FLUSHES_WAITING_MAX).collect();
            let result = self.write_pending();
            if let Err(error) = &result {
                tracing::error!(%error, "exposures are not on disk; trying again");
            }
            for done in asked {
                let _ = done.send(result.clone());
            }
            if stopping {
                return;
            }
            if swept.elapsed() >= PROFILE_SWEEP_INTERVAL {
                self.sweep();
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

    fn write_pending(&mut self) -> Result<(), StoreError> {
        let batch = std::mem::take(&mut *self.state.pending());
        if batch.is_empty() {
            return Ok(());
        }
        let mut body = new_batch();
        for (visitor, advertiser, shown) in &batch {
            encode(&mut body, *visitor, advertiser, shown);
        }
        let written = self.database.write_blocking(|writer| {
            writer.execute("INSERT INTO journal (body) VALUES (?1)", params![body]).map_err(failed)
        });
        match written {
            Ok(_) => self.bytes += body.len() as u64,
            Err(error) => {
                // Kept for the next try, in front of what came meanwhile.
                self.state.pending().splice(0..0, batch);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes every profile whole, part by part, and then forgets the journal so far. Between the
    /// parts the journal goes on; what is shown meanwhile may be in both. A fold that is cut off
    /// leaves a part of a generation behind, which says nothing but what the journal says, too.
    fn fold(&mut self) -> Result<(), StoreError> {
        let number = |sql: &'static str| {
            self.database.write_blocking(|writer| {
                writer.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed)
            })
        };
        let last = number("SELECT coalesce(max(batch), 0) FROM journal")?;
        let generation = number("SELECT coalesce(max(generation), 0) + 1 FROM profiles")?;
        let visitors: Vec<VisitorKey> =
            self.state.visitors.iter().map(|visitor| *visitor.key()).collect();
        let (mut part, mut bytes) = (new_batch(), 0);
        for visitor in visitors {
            if let Some(profile) = self.state.visitors.get(&visitor) {
                for (advertiser, list) in profile.lists() {
                    list.iter().for_each(|shown| encode(&mut part, visitor, advertiser, shown));
                }
            }
            if part.len() >= PART_BYTES {
                bytes += self.write_part(generation, &part)?;
                part = new_batch();
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

    fn write_part(&self, generation: i64, part: &[u8]) -> Result<u64, StoreError> {
        self.database.write_blocking(|writer| {
            writer
                .execute(
                    "INSERT INTO profiles (generation, body) VALUES (?1, ?2)",
                    params![generation, part],
                )
                .map_err(failed)
        })?;
        Ok(part.len() as u64)
    }

    fn read_back(&mut self) -> Result<(), StoreError> {
        let now_us = self.state.clock.now_us();
        let state = Arc::clone(&self.state);
        let mut sizes = [0_u64; 2];
        self.database.write_blocking(|writer| {
            let tables = ["SELECT body FROM profiles", "SELECT body FROM journal ORDER BY batch"];
            for (table, size) in tables.into_iter().zip(&mut sizes) {
                let mut statement = writer.prepare(table).map_err(failed)?;
                let mut rows = statement.query([]).map_err(failed)?;
                while let Some(row) = rows.next().map_err(failed)? {
                    let body = row.get_ref(0).and_then(|body| Ok(body.as_blob()?));
                    let body = body.map_err(failed)?;
                    *size += body.len() as u64;
                    // The rest is worth more than this batch: it is left out, and said.
                    let batch = decode(body).unwrap_or_else(|error| {
                        tracing::error!(error, "a batch of exposures is damaged");
                        Vec::new()
                    });
                    for (visitor, advertiser, shown) in batch {
                        let mut profile = state.visitors.entry(visitor).or_default();
                        // A list that is full of what still counts is as capped as it can be.
                        let _ = profile.record(&advertiser, shown, now_us);
                        profile.take_fresh();
                    }
                }
            }
            Ok(())
        })?;
        [self.folded_bytes, self.bytes] = sizes;
        self.sweep();
        Ok(())
    }

    fn sweep(&self) {
        let now_us = self.state.clock.now_us();
        let history_us = i64::try_from(HISTORY.as_micros()).unwrap_or(i64::MAX);
        let visitors = &self.state.visitors;
        visitors.retain(|_, profile| profile.expire(history_us, now_us));
        self.state.visitors_len.store(visitors.len(), Ordering::Relaxed);
    }
}
