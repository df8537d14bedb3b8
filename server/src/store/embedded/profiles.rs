//! Profiles in this process, with a journal on disk: what was recorded in the last moments in
//! batches, folded into whole profiles now and then.
//!
//! Memory is the truth while the process lives. A thread of its own writes what is new every
//! [`PROFILE_FLUSH_INTERVAL`](crate::limits::PROFILE_FLUSH_INTERVAL); a start reads everything
//! back. An exposure is known by its decision and ad, so one that is both in a profile and in the
//! journal counts once; of a visitor's segments the last word counts.

mod batch;
mod erase;
mod floors;
mod fold;
mod journal;
mod pending;
mod state;
#[cfg(test)]
mod tests;
mod visitors;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use slotwise_core::model::{AccountSerial, AdvertiserId, Exposure, Profile};
use tokio::sync::{mpsc, oneshot, watch};

use super::database::{Database, failed};
use crate::ports::{
    Admission, Clock, Forgotten, Known, ProfileStore, SegmentsChange, StoreError, VisitorKey,
};
use crate::telemetry::spawn_vital;
use journal::{COMMANDS_WAITING_MAX, Command, Done, Journal};
use state::State;

const MIGRATIONS: [&str; 3] = [
    "
    CREATE TABLE journal (batch INTEGER PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE profiles (
        part INTEGER PRIMARY KEY, generation INTEGER NOT NULL, body BLOB NOT NULL);
    ",
    // Batches of format 2: what knows only format 1 must not open the file and leave them out.
    "",
    // Held places among the entries, which older versions take for damage; and until when somebody
    // was forgotten, whoever it was.
    "
    CREATE TABLE forgotten (until_us INTEGER NOT NULL);
    INSERT INTO forgotten VALUES (0);
    ",
];

/// The profiles of one node.
pub struct EmbeddedProfiles {
    state: Arc<State>,
    commands: mpsc::Sender<Command>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// A visitor to forget, in one account or (nothing) in all.
#[derive(Clone, Copy, Debug)]
struct Forget {
    visitor: u128,
    account: Option<AccountSerial>,
    now_us: i64,
}

impl Forget {
    fn means(&self, visitor: VisitorKey) -> bool {
        visitor.visitor == self.visitor && self.account.is_none_or(|of| of == visitor.account)
    }
}

/// Segments of a visitor to change.
#[derive(Debug)]
struct ReSegment {
    visitor: VisitorKey,
    now_us: i64,
    change: SegmentsChange,
}

impl EmbeddedProfiles {
    /// Opens or makes `profiles.sqlite` in `dir`, reads every profile, and starts the writer.
    ///
    /// # Errors
    /// When the file cannot be opened or read, or a newer version of slotwise wrote it.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let database = Database::open(&dir.join("profiles.sqlite"), &MIGRATIONS)?;
        // What is deleted is overwritten with zeros: none of it is to be found in free pages.
        database.write_blocking(|writer| {
            writer.pragma_update(None, "secure_delete", true).map_err(failed)
        })?;
        let state = Arc::new(State::new(clock));
        let journal = Journal::open(database, Arc::clone(&state))?;
        let (commands, mut waiting) = mpsc::channel(COMMANDS_WAITING_MAX);
        let writer = spawn_vital("profiles", move || journal.run(&mut waiting))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self { state, commands, writer: Mutex::new(Some(writer)) })
    }

    /// Has the writer do something, and waits for its answer.
    async fn ask<T>(&self, command: impl FnOnce(Done<T>) -> Command) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable("the profiles' writer has stopped".to_owned());
        let (done, answer) = oneshot::channel();
        self.commands.send(command(done)).await.map_err(|_| gone())?;
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            writer.thread().unpark();
        }
        answer.await.map_err(|_| gone())?
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
        self.state.admit(visitor, admission)
    }

    async fn read(
        &self,
        visitor: VisitorKey,
        now_us: i64,
        _wait: Duration,
    ) -> Result<Known, StoreError> {
        let mut profile = self.state.copy(visitor).unwrap_or_default();
        profile.lapse_segments(now_us);
        Ok(Known { profile, is_certain: true, is_late: false })
    }

    async fn update_segments(
        &self,
        visitor: VisitorKey,
        now_us: i64,
        change: SegmentsChange,
    ) -> Result<Profile, StoreError> {
        let ask = ReSegment { visitor, now_us, change };
        self.ask(|done| Command::Segments(ask, done)).await
    }

    async fn forget(
        &self,
        visitor: u128,
        account: Option<AccountSerial>,
        now_us: i64,
    ) -> Result<Forgotten, StoreError> {
        let forget = Forget { visitor, account, now_us };
        self.ask(|done| Command::Forget(forget, done)).await
    }

    async fn confirm(
        &self,
        visitor: VisitorKey,
        advertiser: &AdvertiserId,
        exposure: Exposure,
        now_us: i64,
    ) -> Result<(), StoreError> {
        self.state.confirm(visitor, advertiser, exposure, now_us)
    }

    async fn release(
        &self,
        visitor: VisitorKey,
        advertiser: &AdvertiserId,
        showing: Exposure,
        _now_us: i64,
    ) -> Result<(), StoreError> {
        self.state.release(visitor, advertiser, showing);
        Ok(())
    }

    fn forgets(&self) -> watch::Receiver<u64> {
        self.state.forgets.subscribe()
    }

    fn degraded(&self) -> watch::Receiver<String> {
        self.state.degraded.subscribe()
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.ask(Command::Flush).await
    }
}
