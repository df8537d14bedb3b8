//! Who counts which partition, and how far it has come.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::super::database::failed;
use super::bytes_of;
use crate::counting::shares::{Holder, share};
use crate::events::Partition;
use crate::limits::CLAIM_LIFE;
use crate::ports::{Claim, Place, Position, StoreError};

/// Every partition has a row.
pub(super) fn make(writer: &mut Connection) -> Result<(), StoreError> {
    let tx = writer.transaction().map_err(failed)?;
    for partition in Partition::all() {
        tx.execute(
            "INSERT OR IGNORE INTO partitions VALUES (?1, 0, NULL, ?2, ?3)",
            (partition.0, bytes_of(Position::default()), i64::MIN),
        )
        .map_err(failed)?;
    }
    tx.commit().map_err(failed)
}

/// See [`crate::ports::CountStore::claim`].
pub(super) fn claim(
    writer: &mut Connection,
    counter: &str,
    now_us: i64,
) -> Result<Vec<(Claim, Place)>, StoreError> {
    let tx = writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let life_us = i64::try_from(CLAIM_LIFE.as_micros()).unwrap_or(i64::MAX);
    tx.execute("DELETE FROM counters WHERE called_us < ?1", [now_us.saturating_sub(life_us)])
        .map_err(failed)?;
    tx.execute("INSERT OR REPLACE INTO counters VALUES (?1, ?2)", (counter, now_us))
        .map_err(failed)?;
    let live: Vec<String> = {
        let mut names = tx.prepare("SELECT name FROM counters ORDER BY name").map_err(failed)?;
        let found = names.query_map([], |row| row.get(0)).map_err(failed)?;
        found.collect::<rusqlite::Result<_>>().map_err(failed)?
    };
    let held = held(&tx)?;
    let holders: Vec<_> = held.iter().map(|(_, _, holder)| holder.clone()).collect();
    let change = share(counter, &live, &holders, 0);
    for partition in change.taken {
        tx.execute(
            "UPDATE partitions SET counter = ?1, epoch = epoch + 1 WHERE partition = ?2",
            (counter, partition.0),
        )
        .map_err(failed)?;
    }
    for partition in change.left {
        tx.execute("UPDATE partitions SET counter = NULL WHERE partition = ?1", [partition.0])
            .map_err(failed)?;
    }
    let mine = held_by(&tx, counter)?;
    tx.commit().map_err(failed)?;
    Ok(mine)
}

fn held(tx: &Transaction<'_>) -> Result<Vec<(Claim, Place, Holder)>, StoreError> {
    let sql = "SELECT partition, epoch, position, promised_us, counter FROM partitions
                ORDER BY partition";
    let mut all = tx.prepare_cached(sql).map_err(failed)?;
    let found = all
        .query_map([], |row| {
            let partition = Partition(row.get(0)?);
            let claim = Claim { partition, epoch: row.get(1)? };
            let place = Place { position: position(row, 2)?, promised_us: row.get(3)? };
            Ok((claim, place, Holder { partition, counter: row.get(4)? }))
        })
        .map_err(failed)?;
    found.collect::<rusqlite::Result<_>>().map_err(failed)
}

fn held_by(tx: &Transaction<'_>, counter: &str) -> Result<Vec<(Claim, Place)>, StoreError> {
    let mine = held(tx)?.into_iter();
    let mine = mine.filter(|(_, _, holder)| holder.counter.as_deref() == Some(counter));
    Ok(mine.map(|(claim, place, _)| (claim, place)).collect())
}

/// Lets go of all that `counter` has.
pub(super) fn release(writer: &mut Connection, counter: &str) -> Result<(), StoreError> {
    let tx = writer.transaction().map_err(failed)?;
    tx.execute("UPDATE partitions SET counter = NULL WHERE counter = ?1", [counter])
        .map_err(failed)?;
    tx.execute("DELETE FROM counters WHERE name = ?1", [counter]).map_err(failed)?;
    tx.commit().map_err(failed)
}

/// Where a partition stands. On the writer: what is being committed is waited for.
pub(super) fn place(writer: &Connection, partition: Partition) -> Result<Place, StoreError> {
    let sql = "SELECT position, promised_us FROM partitions WHERE partition = ?1";
    let mut one = writer.prepare_cached(sql).map_err(failed)?;
    let place = |row: &rusqlite::Row<'_>| {
        Ok(Place { position: position(row, 0)?, promised_us: row.get(1)? })
    };
    one.query_row([partition.0], place).map_err(failed)
}

fn position(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Position> {
    row.get::<_, [u8; 16]>(at).map(|bytes| Position(u128::from_be_bytes(bytes)))
}
