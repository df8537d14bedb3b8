//! Estimates in a SQLite file of their own: whoever waits for the catalogue or the log does not
//! wait for these.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, params};
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::database::{Database, failed};
use crate::limits::ESTIMATE_DAYS_KEPT;
use crate::ports::{Day, IncrementBatch, IncrementStore, PairEstimate, StoreError};

const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE estimates (
        account INTEGER NOT NULL, day INTEGER NOT NULL, zone INTEGER NOT NULL, ad INTEGER NOT NULL,
        impressions INTEGER NOT NULL, clicks INTEGER NOT NULL,
        PRIMARY KEY (account, day, zone, ad)
    ) WITHOUT ROWID;
    CREATE INDEX estimates_by_day ON estimates (day);
    -- The last number of each sender; a sender of the past is forgotten with its day.
    CREATE TABLE senders (
        sender INTEGER NOT NULL, account INTEGER NOT NULL, number INTEGER NOT NULL,
        day INTEGER NOT NULL,
        PRIMARY KEY (sender, account)
    ) WITHOUT ROWID;
"];

/// Estimates of one node.
pub struct EmbeddedIncrements {
    database: Database,
}

impl EmbeddedIncrements {
    /// Opens or makes `increments.sqlite` in `dir`.
    ///
    /// # Errors
    /// When the file cannot be had.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let database = Database::open(&dir.join("increments.sqlite"), &MIGRATIONS)?;
        Ok(Self { database })
    }
}

#[async_trait]
impl IncrementStore for EmbeddedIncrements {
    async fn add(&self, batches: &[IncrementBatch]) -> Result<(), StoreError> {
        let batches = batches.to_vec();
        self.database.write(move |writer| add(writer, &batches).map_err(failed)).await
    }

    async fn document(
        &self,
        account: AccountSerial,
        day: Day,
    ) -> Result<Vec<PairEstimate>, StoreError> {
        self.database.read(move |reader| document(reader, account, day).map_err(failed)).await
    }
}

fn add(writer: &mut Connection, batches: &[IncrementBatch]) -> rusqlite::Result<()> {
    let tx = writer.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for batch in batches {
        let (sender, account) = (batch.sender.cast_signed(), batch.account.0);
        let last_day = batch.days.iter().map(|(day, _)| day.0).max().unwrap_or(0);
        let is_new = tx
            .prepare_cached(
                "INSERT INTO senders VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
                 SET number = excluded.number, day = excluded.day WHERE number < excluded.number",
            )?
            .execute(params![sender, account, batch.number, last_day])?;
        if is_new == 0 {
            continue;
        }
        let mut add = tx.prepare_cached(
            "INSERT INTO estimates VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
             SET impressions = impressions + excluded.impressions,
                 clicks = clicks + excluded.clicks",
        )?;
        for (day, pairs) in &batch.days {
            for PairEstimate { zone, ad, impressions, clicks } in pairs {
                add.execute(params![account, day.0, zone.0, ad.0, impressions, clicks])?;
            }
        }
        if batch.number == 1 {
            // A process has begun: that is seldom enough to look for what is too old.
            let kept_from = last_day.saturating_sub(ESTIMATE_DAYS_KEPT);
            tx.execute("DELETE FROM estimates WHERE day < ?", [kept_from])?;
            tx.execute("DELETE FROM senders WHERE day < ?", [last_day.saturating_sub(2)])?;
        }
    }
    tx.commit()
}

fn document(
    reader: &Connection,
    account: AccountSerial,
    day: Day,
) -> rusqlite::Result<Vec<PairEstimate>> {
    let mut rows = reader.prepare_cached(
        "SELECT zone, ad, impressions, clicks FROM estimates WHERE account = ? AND day = ?
         ORDER BY zone, ad",
    )?;
    let rows = rows.query_map(params![account.0, day.0], |row| {
        Ok(PairEstimate {
            zone: ZoneSerial(row.get(0)?),
            ad: AdSerial(row.get(1)?),
            impressions: row.get(2)?,
            clicks: row.get(3)?,
        })
    })?;
    rows.collect()
}
