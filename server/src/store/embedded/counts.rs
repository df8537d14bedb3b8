//! Counts in SQLite: `counts.sqlite`, apart from the catalogue, as it is written all day.

mod claims;
mod reading;
mod writing;

use std::path::Path;

use async_trait::async_trait;
use slotwise_core::model::{AccountSerial, AdSerial};

use super::database::{Database, failed};
use crate::events::{HotAd, HotAds, Partition};
use crate::ports::{
    Claim, CountError, CountReader, CountStore, Counted, MinuteQuery, MinuteRow, PairRow, Place,
    Position, Step, StoreError, SweepAt, Swept,
};

/// Serials are numbers of 32 bits. `position` and ids are 16 bytes, big-endian, so that they sort
/// as what they mean does. STRICT: a sum that does not fit an integer is refused, where SQLite
/// would make it a float.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE counters (name TEXT PRIMARY KEY, called_us INTEGER NOT NULL)
        STRICT, WITHOUT ROWID;
    CREATE TABLE partitions (
        partition INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, counter TEXT,
        position BLOB NOT NULL, promised_us INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE ids (
        partition INTEGER NOT NULL, id BLOB NOT NULL, counted_min INTEGER NOT NULL,
        PRIMARY KEY (partition, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE conversion_ids (
        partition INTEGER NOT NULL, id BLOB NOT NULL, counted_min INTEGER NOT NULL,
        PRIMARY KEY (partition, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE replayed_ids (
        partition INTEGER NOT NULL, id BLOB NOT NULL, counted_min INTEGER NOT NULL,
        PRIMARY KEY (partition, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE minutes (
        account INTEGER NOT NULL, minute INTEGER NOT NULL, ad INTEGER NOT NULL,
        partition INTEGER NOT NULL,
        impressions INTEGER NOT NULL, clicks INTEGER NOT NULL, conversions INTEGER NOT NULL,
        spend_nanos INTEGER NOT NULL,
        PRIMARY KEY (account, minute, ad, partition)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE late (
        account INTEGER NOT NULL, minute INTEGER NOT NULL, ad INTEGER NOT NULL,
        partition INTEGER NOT NULL,
        impressions INTEGER NOT NULL, clicks INTEGER NOT NULL, conversions INTEGER NOT NULL,
        spend_nanos INTEGER NOT NULL,
        PRIMARY KEY (account, minute, ad, partition)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE quarters (
        account INTEGER NOT NULL, quarter INTEGER NOT NULL, zone INTEGER NOT NULL,
        ad INTEGER NOT NULL, partition INTEGER NOT NULL,
        impressions INTEGER NOT NULL, clicks INTEGER NOT NULL, conversions INTEGER NOT NULL,
        spend_nanos INTEGER NOT NULL,
        PRIMARY KEY (account, quarter, zone, ad, partition)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE hot_ads (
        ad INTEGER NOT NULL, from_ms INTEGER NOT NULL, until_ms INTEGER NOT NULL,
        PRIMARY KEY (ad, from_ms)
    ) STRICT, WITHOUT ROWID;
"];
/// KiB of pages that are kept in memory: where the newest ids of every partition lie, and the
/// rows of the current minutes.
const CACHE_KIB: i64 = 64 << 10;

/// Counts of one node.
pub struct EmbeddedCounts {
    database: Database,
}

impl EmbeddedCounts {
    /// Opens or makes the counts in `dir`.
    ///
    /// # Errors
    /// When they cannot be read or written, or are of a newer version.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let database = Database::open(&dir.join("counts.sqlite"), &MIGRATIONS)?;
        database.write_blocking(|writer| {
            writer.pragma_update(None, "cache_size", -CACHE_KIB).map_err(failed)?;
            claims::make(writer)
        })?;
        Ok(Self { database })
    }
}

#[async_trait]
impl CountStore for EmbeddedCounts {
    async fn claim(&self, counter: &str, now_us: i64) -> Result<Vec<(Claim, Place)>, StoreError> {
        let counter = counter.to_owned();
        self.database.write(move |writer| claims::claim(writer, &counter, now_us)).await
    }

    async fn release(&self, counter: &str) -> Result<(), StoreError> {
        let counter = counter.to_owned();
        self.database.write(move |writer| claims::release(writer, &counter)).await
    }

    async fn place(&self, partition: Partition) -> Result<Place, StoreError> {
        self.database.write(move |writer| claims::place(writer, partition)).await
    }

    async fn count(&self, step: Step) -> Result<Counted, CountError> {
        // On a thread of its own: it ends, whatever becomes of the caller.
        let done = self.database.write(move |writer| Ok(writing::count(writer, &step)));
        done.await.map_err(CountError::Store)?
    }

    async fn sweep(&self, at: SweepAt, now_us: i64, rows_max: usize) -> Result<Swept, StoreError> {
        self.database.write(move |writer| writing::sweep(writer, at, now_us, rows_max)).await
    }

    async fn hot_ads(&self) -> Result<HotAds, StoreError> {
        self.database
            .read(|reader| {
                let mut all = reader
                    .prepare_cached("SELECT ad, from_ms, until_ms FROM hot_ads")
                    .map_err(failed)?;
                let hot = |row: &rusqlite::Row<'_>| {
                    let ad = AdSerial(row.get(0)?);
                    Ok(HotAd { ad, from_ms: row.get(1)?, until_ms: row.get(2)? })
                };
                let found = all.query_map([], hot).map_err(failed)?;
                Ok(HotAds::new(found.collect::<rusqlite::Result<_>>().map_err(failed)?))
            })
            .await
    }

    async fn put_hot_ad(&self, hot: HotAd, ended_before_ms: i64) -> Result<(), StoreError> {
        self.database
            .write(move |writer| {
                let tx = writer.transaction().map_err(failed)?;
                tx.execute("DELETE FROM hot_ads WHERE until_ms < ?1", [ended_before_ms])
                    .map_err(failed)?;
                tx.execute(
                    "INSERT OR REPLACE INTO hot_ads VALUES (?1, ?2, ?3)",
                    (hot.ad.0, hot.from_ms, hot.until_ms),
                )
                .map_err(failed)?;
                tx.commit().map_err(failed)
            })
            .await
    }
}

#[async_trait]
impl CountReader for EmbeddedCounts {
    async fn minutes(&self, query: &MinuteQuery) -> Result<Vec<MinuteRow>, StoreError> {
        let query = query.clone();
        self.database.read(move |reader| reading::minutes(reader, &query)).await
    }

    async fn pairs(
        &self,
        account: AccountSerial,
        from_min: i64,
        until_min: i64,
    ) -> Result<Vec<PairRow>, StoreError> {
        self.database.read(move |reader| reading::pairs(reader, account, from_min, until_min)).await
    }

    async fn promised_us(&self) -> Result<i64, StoreError> {
        self.database.read(|reader| reading::promised_us(reader)).await
    }
}

fn bytes_of(position: Position) -> [u8; 16] {
    position.0.to_be_bytes()
}
