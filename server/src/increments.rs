//! Fire-and-forget counters: impressions and clicks, summed in this process and added to the
//! store's documents a few times a second. Nobody waits for them. A crash loses what was not
//! flushed yet; a store that is away loses nothing as long as there is room for the sums.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use crate::events::{Event, Kind, Lost, Recorder};
use crate::limits::{INCREMENT_FLUSH_INTERVAL, INCREMENT_SUMS_MAX};
use crate::ports::{Day, IncrementBatch, IncrementStore, PairEstimate, StoreError};
use crate::serials::Serials;
use crate::telemetry::{Counters, Metric};
use crate::tokens::Showing;

/// Every time zone's days begin at a whole quarter of an hour: so a quarter is of one day.
const QUARTER_US: i64 = 15 * 60 * 1_000_000;

/// What is summed together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Cell {
    account: AccountSerial,
    /// In quarters of an hour of Unix time.
    quarter: i64,
    zone: ZoneSerial,
    ad: AdSerial,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    impressions: u64,
    clicks: u64,
}

/// The sums of this process that no flush has taken yet.
pub struct Increments {
    sums: Mutex<HashMap<Cell, Sum>>,
    counters: Arc<Counters>,
}

impl Increments {
    /// No sums yet.
    pub fn new(counters: Arc<Counters>) -> Self {
        Self { sums: Mutex::default(), counters }
    }

    /// Counts one impression or click of `showing` at `now_us`. Where there is no room for one
    /// more sum it is dropped, and counted as dropped.
    pub fn add(&self, showing: &Showing, kind: Kind, now_us: i64) {
        let (impressions, clicks) = match kind {
            Kind::Impression => (1, 0),
            Kind::Click => (0, 1),
            Kind::Conversion => return,
        };
        let Showing { account, zone, ad, .. } = *showing;
        let cell = Cell { account, quarter: now_us.div_euclid(QUARTER_US), zone, ad };
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        if sums.len() >= INCREMENT_SUMS_MAX && !sums.contains_key(&cell) {
            drop(sums);
            self.counters.add(Metric::IncrementsDropped, 1);
            return;
        }
        let sum = sums.entry(cell).or_default();
        sum.impressions += impressions;
        sum.clicks += clicks;
    }

    fn take(&self) -> HashMap<Cell, Sum> {
        std::mem::take(&mut *self.sums.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Records, and counts what was recorded and is a person's.
pub struct Tallied {
    /// Makes events durable.
    pub recorder: Arc<dyn Recorder>,
    /// Where they are counted then.
    pub increments: Arc<Increments>,
}

#[async_trait]
impl Recorder for Tallied {
    async fn record(&self, events: Vec<Event>) -> Result<(), Lost> {
        let counted = events.iter().filter(|event| event.filtered_by.is_none());
        let counted = counted.map(|event| (event.showing, event.kind, event.at_us));
        let counted: SmallVec<[_; 1]> = counted.collect();
        self.recorder.record(events).await?;
        for (showing, kind, at_us) in counted {
            self.increments.add(&showing, kind, at_us);
        }
        Ok(())
    }
}

/// Adds a process's sums to the store, in flushes that are numbered.
pub struct Flusher {
    increments: Arc<Increments>,
    store: Arc<dyn IncrementStore>,
    serials: Arc<Serials>,
    /// See [`IncrementBatch::sender`].
    sender: u64,
    number: u64,
    /// What the store has not taken yet: sent again as it was.
    pending: Vec<IncrementBatch>,
}

impl Flusher {
    /// Flushes `increments` into `store`. `sender` is a number that no other run of any process
    /// has; `serials` know the accounts' time zones.
    pub fn new(
        increments: Arc<Increments>,
        store: Arc<dyn IncrementStore>,
        serials: Arc<Serials>,
        sender: u64,
    ) -> Self {
        Self { increments, store, serials, sender, number: 0, pending: Vec::new() }
    }

    /// Flushes every [`INCREMENT_FLUSH_INTERVAL`], and once more when `stop` comes or is dropped.
    pub async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        let mut turns = tokio::time::interval(INCREMENT_FLUSH_INTERVAL);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                _ = turns.tick() => false,
                _ = &mut stop => true,
            };
            if let Err(error) = self.flush().await {
                tracing::debug!(%error, "increments were not taken: they are sent again");
            }
            if is_last {
                return;
            }
        }
    }

    /// Sends what is pending; when that is taken, what was summed since.
    ///
    /// # Errors
    /// When the store did not take it: the next flush sends it again.
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        if !self.pending.is_empty() {
            self.store.add(&self.pending).await?;
            self.pending.clear();
        }
        self.pending = self.batches();
        if !self.pending.is_empty() {
            self.store.add(&self.pending).await?;
            self.pending.clear();
        }
        Ok(())
    }

    fn batches(&mut self) -> Vec<IncrementBatch> {
        let sums = self.increments.take();
        if sums.is_empty() {
            return Vec::new();
        }
        self.number += 1;
        let mut days: HashMap<(AccountSerial, i64), Day> = HashMap::new();
        let mut accounts: BTreeMap<AccountSerial, BTreeMap<Day, BTreeMap<_, Sum>>> =
            BTreeMap::new();
        for (cell, sum) in sums {
            let day = *days
                .entry((cell.account, cell.quarter))
                .or_insert_with(|| self.day(cell.account, cell.quarter));
            let document = accounts.entry(cell.account).or_default().entry(day).or_default();
            let pair = document.entry((cell.zone, cell.ad)).or_default();
            pair.impressions += sum.impressions;
            pair.clicks += sum.clicks;
        }
        let estimates = |pairs: BTreeMap<(ZoneSerial, AdSerial), Sum>| {
            let estimate = |((zone, ad), sum): ((ZoneSerial, AdSerial), Sum)| PairEstimate {
                zone,
                ad,
                impressions: sum.impressions,
                clicks: sum.clicks,
            };
            pairs.into_iter().map(estimate).collect()
        };
        let (sender, number) = (self.sender, self.number);
        let batch = |(account, days): (AccountSerial, BTreeMap<Day, _>)| IncrementBatch {
            sender,
            number,
            account,
            days: days.into_iter().map(|(day, pairs)| (day, estimates(pairs))).collect(),
        };
        accounts.into_iter().map(batch).collect()
    }

    /// The account's day that this quarter of an hour is of.
    fn day(&self, account: AccountSerial, quarter: i64) -> Day {
        let account = self.serials.account(account);
        let name = account.as_ref().map_or("", |account| &*account.time_zone);
        // An estimate of a zone that nobody knows is cut in UTC.
        let zone = TimeZone::get(if name.is_empty() { "UTC" } else { name });
        day_of(&zone.unwrap_or(TimeZone::UTC), quarter.saturating_mul(QUARTER_US))
    }
}

/// The calendar day in `zone` at `at_us`; of an instant beyond the calendar its first or last.
fn day_of(zone: &TimeZone, at_us: i64) -> Day {
    let at = Timestamp::from_microsecond(at_us);
    let at = at.unwrap_or(if at_us < 0 { Timestamp::MIN } else { Timestamp::MAX });
    let date = zone.to_datetime(at).date();
    let since = date.duration_since(civil::date(1970, 1, 1));
    // A calendar of twice ten thousand years.
    Day(i32::try_from(since.as_hours() / 24).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests;
