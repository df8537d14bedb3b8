//! A ledger in memory, for tests of what stands before and behind the real one.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use crate::events::{Event, EventId, Kind, Lost, Recorder};
use crate::ports::{CountReader, Counts, MinuteQuery, MinuteRow, PairRow, StoreError};

const MINUTE_US: i64 = 60_000_000;

/// Takes events and counts them at once: each once by its id, in the minute of its own time; late
/// where that lies before what was promised.
#[derive(Debug, Default)]
pub struct MemoryLedger(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    seen: HashSet<EventId>,
    cells: BTreeMap<(AccountSerial, i64, ZoneSerial, AdSerial), [Counts; 2]>,
    promised_us: i64,
    is_away: bool,
}

impl MemoryLedger {
    /// One that holds nothing and promised nothing.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on events before `at_us` are late.
    pub fn promise(&self, at_us: i64) {
        self.0.lock().unwrap().promised_us = at_us;
    }

    /// Whether it fails.
    pub fn set_away(&self, is_away: bool) {
        self.0.lock().unwrap().is_away = is_away;
    }

    /// Counts one event.
    pub fn count(&self, event: &Event) {
        let mut state = self.0.lock().unwrap();
        if event.filtered_by.is_some() || !state.seen.insert(event.id()) {
            return;
        }
        let showing = &event.showing;
        let key = (showing.account, event.at_us.div_euclid(MINUTE_US), showing.zone, showing.ad);
        let is_late = usize::from(event.at_us < state.promised_us);
        let of = |kind| u64::from(event.kind == kind);
        let counts = Counts {
            impressions: of(Kind::Impression),
            clicks: of(Kind::Click),
            conversions: of(Kind::Conversion),
            spend_nanos: event.price_nanos(),
        };
        let cell = &mut state.cells.entry(key).or_default()[is_late];
        *cell = cell.plus(counts);
    }

    /// How many events were counted.
    pub fn counted(&self) -> usize {
        self.0.lock().unwrap().seen.len()
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> Result<T, StoreError> {
        let state = self.0.lock().unwrap();
        if state.is_away {
            return Err(StoreError::Unavailable("the test says so".to_owned()));
        }
        Ok(read(&state))
    }
}

#[async_trait]
impl Recorder for MemoryLedger {
    async fn record(&self, events: Vec<Event>) -> Result<(), Lost> {
        self.read(|_| ()).map_err(|_| Lost)?;
        events.iter().for_each(|event| self.count(event));
        Ok(())
    }
}

#[async_trait]
impl CountReader for MemoryLedger {
    async fn minutes(&self, query: &MinuteQuery) -> Result<Vec<MinuteRow>, StoreError> {
        self.read(|state| {
            let mut rows = BTreeMap::<i64, MinuteRow>::new();
            for ((account, minute, _, ad), [counts, late]) in &state.cells {
                let is_wanted = *account == query.account
                    && (query.from_min..query.until_min).contains(minute)
                    && query.ads.as_ref().is_none_or(|ads| ads.contains(ad));
                if is_wanted {
                    let none = Counts::default();
                    let new = MinuteRow { minute: *minute, counts: none, late: none };
                    let row = rows.entry(*minute).or_insert(new);
                    (row.counts, row.late) = (row.counts.plus(*counts), row.late.plus(*late));
                }
            }
            rows.into_values().collect()
        })
    }

    async fn pairs(
        &self,
        account: AccountSerial,
        from_min: i64,
        until_min: i64,
    ) -> Result<Vec<PairRow>, StoreError> {
        assert!(from_min % 15 == 0 && until_min % 15 == 0, "{from_min}..{until_min}");
        self.read(|state| {
            let mut pairs = BTreeMap::<_, Counts>::new();
            for ((of, minute, zone, ad), [counts, late]) in &state.cells {
                if *of == account && (from_min..until_min).contains(minute) {
                    let sum = pairs.entry((*zone, *ad)).or_default();
                    *sum = sum.plus(*counts).plus(*late);
                }
            }
            let row = |((zone, ad), counts)| PairRow { zone, ad, counts };
            pairs.into_iter().map(row).collect()
        })
    }

    async fn promised_us(&self) -> Result<i64, StoreError> {
        self.read(|state| state.promised_us)
    }
}
