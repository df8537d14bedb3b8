//! Who counts which partition, and how far it has come.

use tokio_postgres::{GenericClient, Row};

use super::failed;
use super::link::Connected;
use super::values::Bytes16;
use crate::counting::shares::{Holder, share};
use crate::events::Partition;
use crate::limits::CLAIM_LIFE;
use crate::ports::{Claim, Place, StoreError};

/// One counter at a time looks at claims: "slotwisc".
const LOCK: i64 = 0x736c_6f74_7769_7363;
/// A partition whose transaction is still under way is left for the next time, so that nobody's
/// renewal waits for a counter that hangs.
const UNLOCKED: &str = "partition = (SELECT partition FROM partitions
                            WHERE partition = $1 FOR UPDATE SKIP LOCKED)";
const HELD: &str =
    "SELECT partition, epoch, position, promised_us, counter FROM partitions ORDER BY partition";

/// See [`crate::ports::CountStore::claim`]; by the server's clock. `turn`: which server this is.
pub(super) async fn claim(
    connected: &mut Connected,
    counter: &str,
    turn: usize,
) -> Result<Vec<(Claim, Place)>, StoreError> {
    let tx = connected.client.transaction().await.map_err(failed)?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(failed)?;
    let life_us = i64::try_from(CLAIM_LIFE.as_micros()).unwrap_or(i64::MAX);
    let now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let sql = format!("DELETE FROM counters WHERE called_us < {now} - $1");
    tx.execute(&sql, &[&life_us]).await.map_err(failed)?;
    let sql = format!(
        "INSERT INTO counters VALUES ($1, {now})
            ON CONFLICT (name) DO UPDATE SET called_us = excluded.called_us"
    );
    tx.execute(&sql, &[&counter]).await.map_err(failed)?;
    let names = tx.query("SELECT name FROM counters ORDER BY name", &[]).await.map_err(failed)?;
    let live: Vec<String> = names.iter().map(|row| row.get(0)).collect();
    let change = share(counter, &live, &holders(&tx).await?, turn);
    for partition in change.taken {
        let sql = format!("UPDATE partitions SET counter = $2, epoch = epoch + 1 WHERE {UNLOCKED}");
        tx.execute(&sql, &[&i16::from(partition.0), &counter]).await.map_err(failed)?;
    }
    for partition in change.left {
        let sql = format!("UPDATE partitions SET counter = NULL WHERE {UNLOCKED}");
        tx.execute(&sql, &[&i16::from(partition.0)]).await.map_err(failed)?;
    }
    let rows = tx.query(HELD, &[]).await.map_err(failed)?;
    tx.commit().await.map_err(failed)?;
    let mine = rows.iter().filter(|row| row.get::<_, Option<&str>>(4) == Some(counter));
    let mine =
        mine.map(|row| (Claim { partition: partition(row), epoch: row.get(1) }, place(row, 2)));
    Ok(mine.collect())
}

async fn holders(tx: &impl GenericClient) -> Result<Vec<Holder>, StoreError> {
    let rows = tx.query(HELD, &[]).await.map_err(failed)?;
    let holder = |row: &Row| Holder { partition: partition(row), counter: row.get(4) };
    Ok(rows.iter().map(holder).collect())
}

/// Lets go of all that `counter` has.
pub(super) async fn release(connected: &mut Connected, counter: &str) -> Result<(), StoreError> {
    let tx = connected.client.transaction().await.map_err(failed)?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(failed)?;
    let sql = "UPDATE partitions SET counter = NULL WHERE counter = $1";
    tx.execute(sql, &[&counter]).await.map_err(failed)?;
    tx.execute("DELETE FROM counters WHERE name = $1", &[&counter]).await.map_err(failed)?;
    tx.commit().await.map_err(failed)
}

/// Where a partition stands.
pub(super) async fn stands(
    connected: &mut Connected,
    partition: Partition,
) -> Result<Place, StoreError> {
    let sql = "SELECT position, promised_us FROM partitions WHERE partition = $1";
    let row = connected.client.query_one(sql, &[&i16::from(partition.0)]).await;
    row.map(|row| place(&row, 0)).map_err(failed)
}

fn partition(row: &Row) -> Partition {
    // Below PARTITIONS: nobody else writes there.
    Partition(u8::try_from(row.get::<_, i16>(0)).unwrap_or(u8::MAX))
}

fn place(row: &Row, at: usize) -> Place {
    let position: Bytes16 = row.get(at);
    Place { position: position.into(), promised_us: row.get(at + 1) }
}
