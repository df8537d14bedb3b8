//! The counting transaction, and forgetting ids.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::super::database::failed;
use super::bytes_of;
use crate::counting::sums::{MinuteKey, QuarterKey, Sums};
use crate::events::EventId;
use crate::limits::{CONVERSION_IDS_KEPT, IDS_KEPT};
use crate::ports::{CountError, Counted, Counts, IdLife, Step, StoreError, SweepAt, Swept, Tally};

/// See [`crate::ports::CountStore::count`].
pub(super) fn count(writer: &mut Connection, step: &Step) -> Result<Counted, CountError> {
    // An error drops the transaction, which rolls it back.
    let tx = writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // First, so that whoever comes second does none of the work.
    go_on(&tx, step)?;
    fail::fail_point!("count.before-ids");
    let new = new_ones(&tx, step)?;
    fail::fail_point!("count.after-ids");
    let sums = Sums::of(new.iter().copied()).map_err(|_| CountError::Overflow)?;
    add_minutes(&tx, "minutes", step, &sums.minutes)?;
    add_minutes(&tx, "late", step, &sums.late)?;
    add_quarters(&tx, step, &sums.quarters)?;
    fail::fail_point!("count.after-sums");
    fail::fail_point!("count.before-commit");
    tx.commit().map_err(failed)?;
    fail::fail_point!("count.after-commit", |_| Err(StoreError::Unavailable(
        "the reply to COMMIT is lost".into()
    )
    .into()));
    let all = step.tallies.len() as u64;
    let late = new.iter().filter(|tally| tally.is_late).count() as u64;
    Ok(Counted { new: new.len() as u64, late, repeats: all - new.len() as u64 })
}

fn go_on(tx: &Transaction<'_>, step: &Step) -> Result<(), CountError> {
    let sql = "UPDATE partitions SET position = ?1, promised_us = ?2
                WHERE partition = ?3 AND epoch = ?4 AND position = ?5";
    let (to, from) = (bytes_of(step.to.position), bytes_of(step.from));
    let (partition, epoch) = (step.claim.partition.0, step.claim.epoch);
    let moved = tx
        .prepare_cached(sql)
        .and_then(|mut update| {
            update.execute(params![to, step.to.promised_us, partition, epoch, from])
        })
        .map_err(failed)?;
    if moved == 1 {
        return Ok(());
    }
    let now: i64 = tx
        .query_row("SELECT epoch FROM partitions WHERE partition = ?1", [partition], |row| {
            row.get(0)
        })
        .map_err(failed)?;
    Err(if now == epoch { CountError::Moved } else { CountError::Fenced })
}

/// Notes the ids that are not there yet, and returns the events that they are of.
fn new_ones<'s>(tx: &Transaction<'_>, step: &'s Step) -> Result<Vec<&'s Tally>, StoreError> {
    // In the order in which they lie on disk; of two with one id the first stays first.
    let mut tallies: Vec<&Tally> = step.tallies.iter().collect();
    tallies.sort_by_key(|tally| tally.id);
    let mut new = Vec::with_capacity(tallies.len());
    for life in [IdLife::Short, IdLife::Conversion, IdLife::ForGood] {
        let table = table(life);
        let sql = format!("INSERT OR IGNORE INTO {table} VALUES (?1, ?2, ?3)");
        let mut insert = tx.prepare_cached(&sql).map_err(failed)?;
        for tally in tallies.iter().filter(|tally| tally.life == life) {
            let row = params![step.claim.partition.0, tally.id.0, minute_of(step.now_us)];
            if insert.execute(row).map_err(failed)? == 1 {
                new.push(*tally);
            }
        }
    }
    Ok(new)
}

fn table(life: IdLife) -> &'static str {
    match life {
        IdLife::Short => "ids",
        IdLife::Conversion => "conversion_ids",
        IdLife::ForGood => "replayed_ids",
    }
}

fn minute_of(us: i64) -> i64 {
    us.div_euclid(60_000_000)
}

fn add_minutes(
    tx: &Transaction<'_>,
    table: &str,
    step: &Step,
    sums: &BTreeMap<MinuteKey, Counts>,
) -> Result<(), CountError> {
    let sql = format!(
        "INSERT INTO {table} VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
            ON CONFLICT DO UPDATE SET impressions = impressions + excluded.impressions,
                clicks = clicks + excluded.clicks,
                conversions = conversions + excluded.conversions,
                spend_nanos = spend_nanos + excluded.spend_nanos"
    );
    let mut add = tx.prepare_cached(&sql).map_err(failed)?;
    for ((account, minute, ad), counts) in sums {
        let Counts { impressions, clicks, conversions, spend_nanos } = counts;
        let partition = step.claim.partition.0;
        let row = params![
            account.0,
            minute,
            ad.0,
            partition,
            impressions,
            clicks,
            conversions,
            spend_nanos
        ];
        add.execute(row).map_err(refused)?;
    }
    Ok(())
}

fn add_quarters(
    tx: &Transaction<'_>,
    step: &Step,
    sums: &BTreeMap<QuarterKey, Counts>,
) -> Result<(), CountError> {
    let sql = "INSERT INTO quarters VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                ON CONFLICT DO UPDATE SET impressions = impressions + excluded.impressions,
                    clicks = clicks + excluded.clicks,
                    conversions = conversions + excluded.conversions,
                    spend_nanos = spend_nanos + excluded.spend_nanos";
    let mut add = tx.prepare_cached(sql).map_err(failed)?;
    for ((account, quarter, zone, ad), counts) in sums {
        let Counts { impressions, clicks, conversions, spend_nanos } = counts;
        let partition = step.claim.partition.0;
        let row = params![
            account.0,
            quarter,
            zone.0,
            ad.0,
            partition,
            impressions,
            clicks,
            conversions,
            spend_nanos
        ];
        add.execute(row).map_err(refused)?;
    }
    Ok(())
}

/// The only value that a sum's column could refuse is one that became a float.
fn refused(error: rusqlite::Error) -> CountError {
    const DATATYPE: i32 = rusqlite::ffi::SQLITE_CONSTRAINT_DATATYPE;
    match error.sqlite_error() {
        Some(error) if error.extended_code == DATATYPE => CountError::Overflow,
        _ => CountError::Store(failed(error)),
    }
}

/// See [`crate::ports::CountStore::sweep`]. It walks in the order of ids, which is that of issue:
/// what was issued less than a life ago cannot have been counted earlier.
pub(super) fn sweep(
    writer: &mut Connection,
    at: SweepAt,
    now_us: i64,
    rows_max: usize,
) -> Result<Swept, StoreError> {
    let kept = match at.life {
        IdLife::Short => IDS_KEPT,
        IdLife::Conversion => CONVERSION_IDS_KEPT,
        IdLife::ForGood => return Ok(Swept { gone: 0, next: None }),
    };
    let kept_us = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
    let before_us = now_us.saturating_sub(kept_us);
    let (after, end) = (at.after.unwrap_or(EventId([0; 16])), EventId::first_issued(before_us));
    let (table, partition) = (table(at.life), at.partition.0);
    let tx = writer.transaction().map_err(failed)?;
    // The last of the rows that this step looks at, where there are so many.
    let sql = format!(
        "SELECT id FROM {table} WHERE partition = ?1 AND id > ?2 AND id < ?3
            ORDER BY id LIMIT 1 OFFSET ?4"
    );
    let offset = rows_max.max(1) - 1;
    let last: Option<[u8; 16]> = tx
        .prepare_cached(&sql)
        .and_then(|mut last| {
            let range = params![partition, after.0, end.0, offset];
            last.query_row(range, |row| row.get(0)).optional()
        })
        .map_err(failed)?;
    let sql = format!(
        "DELETE FROM {table} WHERE partition = ?1 AND id > ?2 AND id < ?3 AND counted_min < ?4"
    );
    // One more where the range ends with a row.
    let sql = if last.is_some() { sql.replace("id < ?3", "id <= ?3") } else { sql };
    let until = last.unwrap_or(end.0);
    let gone = tx
        .prepare_cached(&sql)
        .and_then(|mut delete| {
            delete.execute(params![partition, after.0, until, minute_of(before_us)])
        })
        .map_err(failed)?;
    tx.commit().map_err(failed)?;
    Ok(Swept { gone: gone as u64, next: last.map(EventId) })
}
