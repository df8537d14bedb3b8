//! The counting transaction, and forgetting ids.

use std::collections::{BTreeMap, HashSet};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Statement, Transaction};

use super::link::Connected;
use super::values::{Bytes16, minute, minute_of};
use super::{failed, refused};
use crate::counting::sums::{MinuteKey, QuarterKey, Sums};
use crate::events::EventId;
use crate::limits::{CONVERSION_IDS_KEPT, IDS_KEPT};
use crate::ports::{CountError, Counted, Counts, IdLife, Step, StoreError, SweepAt, Swept, Tally};

const GO_ON: &str = "UPDATE partitions SET position = $1, promised_us = $2
    WHERE partition = $3 AND epoch = $4 AND position = $5";
const SUMS: &str = "ON CONFLICT (KEY) DO UPDATE SET
    impressions = TABLE.impressions + excluded.impressions,
    clicks = TABLE.clicks + excluded.clicks,
    conversions = TABLE.conversions + excluded.conversions,
    spend_nanos = TABLE.spend_nanos + excluded.spend_nanos";

/// What the transaction says, prepared.
struct Statements {
    go_on: Statement,
    ids: [(IdLife, Statement); 3],
    minutes: Statement,
    late: Statement,
    quarters: Statement,
}

/// See [`crate::ports::CountStore::count`].
pub(super) async fn count(connected: &mut Connected, step: &Step) -> Result<Counted, CountError> {
    let statements = prepared(connected).await?;
    // An error drops the transaction, which rolls it back.
    let tx = connected.client.transaction().await.map_err(failed)?;
    // First, so that whoever comes second waits for the first, and does none of the work.
    go_on(&tx, &statements, step).await?;
    fail::fail_point!("count.before-ids");
    let new = new_ones(&tx, &statements, step).await?;
    fail::fail_point!("count.after-ids");
    let sums = Sums::of(new.iter().copied()).map_err(|_| CountError::Overflow)?;
    let partition = i16::from(step.claim.partition.0);
    add_minutes(&tx, &statements.minutes, partition, &sums.minutes).await?;
    add_minutes(&tx, &statements.late, partition, &sums.late).await?;
    add_quarters(&tx, &statements.quarters, partition, &sums.quarters).await?;
    fail::fail_point!("count.after-sums");
    fail::fail_point!("count.before-commit");
    tx.commit().await.map_err(failed)?;
    fail::fail_point!("count.after-commit", |_| Err(StoreError::Unavailable(
        "the reply to COMMIT is lost".into()
    )
    .into()));
    let all = step.tallies.len() as u64;
    let late = new.iter().filter(|tally| tally.is_late).count() as u64;
    Ok(Counted { new: new.len() as u64, late, repeats: all - new.len() as u64 })
}

async fn prepared(connected: &mut Connected) -> Result<Statements, StoreError> {
    let mut ids = Vec::with_capacity(3);
    for life in [IdLife::Short, IdLife::Conversion, IdLife::ForGood] {
        let sql = format!(
            "INSERT INTO {} SELECT $1, id, $3 FROM unnest($2::uuid[]) AS id
                ON CONFLICT DO NOTHING RETURNING id",
            table(life)
        );
        ids.push((life, connected.statement(&sql).await?));
    }
    let sums = |table: &str, key: &str| SUMS.replace("TABLE", table).replace("KEY", key);
    let minutes = |table: &str| {
        let sums = sums(table, "account, minute, ad, partition");
        format!(
            "INSERT INTO {table} AS {table}
                SELECT account, minute, ad, $1, i, c, v, s FROM unnest($2::bigint[], $3::integer[],
                    $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
                    AS new (account, minute, ad, i, c, v, s) {sums}"
        )
    };
    let quarters = format!(
        "INSERT INTO quarters AS quarters
            SELECT account, quarter, zone, ad, $1, i, c, v, s FROM unnest($2::bigint[],
                $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                $8::bigint[], $9::bigint[])
                AS new (account, quarter, zone, ad, i, c, v, s) {}",
        sums("quarters", "account, quarter, zone, ad, partition")
    );
    Ok(Statements {
        go_on: connected.statement(GO_ON).await?,
        ids: ids.try_into().map_err(|_| StoreError::Full("three lives of ids"))?,
        minutes: connected.statement(&minutes("minutes")).await?,
        late: connected.statement(&minutes("late")).await?,
        quarters: connected.statement(&quarters).await?,
    })
}

async fn go_on(
    tx: &Transaction<'_>,
    statements: &Statements,
    step: &Step,
) -> Result<(), CountError> {
    let (to, from) = (Bytes16::from(step.to.position), Bytes16::from(step.from));
    let (partition, epoch) = (i16::from(step.claim.partition.0), step.claim.epoch);
    let row: [&(dyn ToSql + Sync); 5] = [&to, &step.to.promised_us, &partition, &epoch, &from];
    if tx.execute(&statements.go_on, &row).await.map_err(failed)? == 1 {
        return Ok(());
    }
    let sql = "SELECT epoch FROM partitions WHERE partition = $1";
    let now: i64 = tx.query_one(sql, &[&partition]).await.map_err(failed)?.get(0);
    Err(if now == epoch { CountError::Moved } else { CountError::Fenced })
}

/// Notes the ids that are not there yet, and returns the events that they are of.
async fn new_ones<'s>(
    tx: &Transaction<'_>,
    statements: &Statements,
    step: &'s Step,
) -> Result<Vec<&'s Tally>, StoreError> {
    // In the order of the index; of two with one id the first stays first.
    let mut tallies: Vec<&Tally> = step.tallies.iter().collect();
    tallies.sort_by_key(|tally| tally.id);
    let mut new = Vec::with_capacity(tallies.len());
    for (life, insert) in &statements.ids {
        let mut those: Vec<&Tally> =
            tallies.iter().filter(|tally| tally.life == *life).copied().collect();
        those.dedup_by_key(|tally| tally.id);
        if those.is_empty() {
            continue;
        }
        let ids: Vec<Bytes16> = those.iter().map(|tally| tally.id.into()).collect();
        let (partition, now_min) = (i16::from(step.claim.partition.0), minute_of(step.now_us));
        let inserted = tx.query(insert, &[&partition, &ids, &now_min]).await.map_err(failed)?;
        if inserted.len() < those.len() {
            let inserted: HashSet<Bytes16> = inserted.iter().map(|row| row.get(0)).collect();
            those.retain(|tally| inserted.contains(&tally.id.into()));
        }
        new.extend(those);
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

/// Columns of sums: impressions, clicks, conversions, money.
#[derive(Default)]
struct Columns([Vec<i64>; 4]);

impl Columns {
    fn push(&mut self, counts: &Counts) -> Result<(), CountError> {
        let whole = |count: u64| i64::try_from(count).map_err(|_| CountError::Overflow);
        self.0[0].push(whole(counts.impressions)?);
        self.0[1].push(whole(counts.clicks)?);
        self.0[2].push(whole(counts.conversions)?);
        self.0[3].push(counts.spend_nanos);
        Ok(())
    }
}

async fn add_minutes(
    tx: &Transaction<'_>,
    insert: &Statement,
    partition: i16,
    sums: &BTreeMap<MinuteKey, Counts>,
) -> Result<(), CountError> {
    if sums.is_empty() {
        return Ok(());
    }
    let (mut accounts, mut minutes, mut ads) = (Vec::new(), Vec::new(), Vec::new());
    let mut columns = Columns::default();
    for ((account, at, ad), counts) in sums {
        accounts.push(i64::from(account.0));
        minutes.push(minute(*at));
        ads.push(i64::from(ad.0));
        columns.push(counts)?;
    }
    let [i, c, v, s] = &columns.0;
    tx.execute(insert, &[&partition, &accounts, &minutes, &ads, i, c, v, s])
        .await
        .map(drop)
        .map_err(refused)
}

async fn add_quarters(
    tx: &Transaction<'_>,
    insert: &Statement,
    partition: i16,
    sums: &BTreeMap<QuarterKey, Counts>,
) -> Result<(), CountError> {
    if sums.is_empty() {
        return Ok(());
    }
    let (mut accounts, mut quarters) = (Vec::new(), Vec::new());
    let (mut zones, mut ads) = (Vec::new(), Vec::new());
    let mut columns = Columns::default();
    for ((account, quarter, zone, ad), counts) in sums {
        accounts.push(i64::from(account.0));
        quarters.push(minute(*quarter));
        zones.push(i64::from(zone.0));
        ads.push(i64::from(ad.0));
        columns.push(counts)?;
    }
    let [i, c, v, s] = &columns.0;
    tx.execute(insert, &[&partition, &accounts, &quarters, &zones, &ads, i, c, v, s])
        .await
        .map(drop)
        .map_err(refused)
}

/// See [`crate::ports::CountStore::sweep`]. It walks in the order of ids, which is that of issue:
/// what was issued less than a life ago cannot have been counted earlier.
pub(super) async fn sweep(
    connected: &mut Connected,
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
    let after = Bytes16::from(at.after.unwrap_or(EventId([0; 16])));
    let end = Bytes16::from(EventId::first_issued(before_us));
    let table = table(at.life);
    let sql = format!(
        "WITH looked AS (
            SELECT id, counted_min FROM {table}
                WHERE partition = $1 AND id > $2 AND id < $3 ORDER BY id LIMIT $4
        ), gone AS (
            DELETE FROM {table} USING looked
                WHERE {table}.partition = $1 AND {table}.id = looked.id AND looked.counted_min < $5
                RETURNING 1
        )
        SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM looked),
            (SELECT id FROM looked ORDER BY id DESC LIMIT 1)"
    );
    let statement = connected.statement(&sql).await?;
    let (partition, rows_max) = (i16::from(at.partition.0), rows_max.max(1));
    let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let row: [&(dyn ToSql + Sync); 5] = [&partition, &after, &end, &limit, &minute_of(before_us)];
    let row = connected.client.query_one(&statement, &row).await.map_err(failed)?;
    let (gone, looked): (i64, i64) = (row.get(0), row.get(1));
    let last: Option<Bytes16> = row.get(2);
    let next = last.filter(|_| looked == limit).map(|last| EventId(last.0));
    Ok(Swept { gone: u64::try_from(gone).unwrap_or(0), next })
}
