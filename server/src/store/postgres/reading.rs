//! What one server counted, joined over its partitions.

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use tokio_postgres::Row;

use super::failed;
use super::link::Connected;
use super::values::minute;
use crate::counting::sums::QUARTER_MIN;
use crate::ports::{Counts, MinuteQuery, MinuteRow, PairRow, StoreError};

/// Sums of `bigint`s are `numeric`s; beyond 64 bits they stay at the largest.
const SUMS: &str = "
    least(sum(impressions), 9223372036854775807)::bigint,
    least(sum(clicks), 9223372036854775807)::bigint,
    least(sum(conversions), 9223372036854775807)::bigint,
    least(greatest(sum(spend_nanos), -9223372036854775808), 9223372036854775807)::bigint";

/// See [`crate::ports::CountReader::minutes`].
pub(super) async fn minutes(
    connected: &mut Connected,
    query: &MinuteQuery,
) -> Result<Vec<MinuteRow>, StoreError> {
    let part = |table: &str, is_late: bool| {
        format!(
            "SELECT minute, {is_late}, {SUMS} FROM {table}
                WHERE account = $1 AND minute >= $2 AND minute < $3
                    AND ($4::bigint[] IS NULL OR ad = ANY ($4)) GROUP BY minute"
        )
    };
    let sql = format!("{} UNION ALL {}", part("minutes", false), part("late", true));
    let statement = connected.statement(&sql).await?;
    let ads: Option<Vec<i64>> =
        query.ads.as_ref().map(|ads| ads.iter().map(|ad| i64::from(ad.0)).collect());
    let (from, until) = (minute(query.from_min), minute(query.until_min));
    let account = i64::from(query.account.0);
    let rows = connected.client.query(&statement, &[&account, &from, &until, &ads]).await;
    let sums = rows.map_err(failed)?;
    let sums = sums
        .iter()
        .map(|row| (i64::from(row.get::<_, i32>(0)), row.get::<_, bool>(1), counts(row, 2)));
    Ok(MinuteRow::joined(sums))
}

/// See [`crate::ports::CountReader::pairs`].
pub(super) async fn pairs(
    connected: &mut Connected,
    account: AccountSerial,
    from_min: i64,
    until_min: i64,
) -> Result<Vec<PairRow>, StoreError> {
    let sql = format!(
        "SELECT zone, ad, {SUMS} FROM quarters
            WHERE account = $1 AND quarter >= $2 AND quarter < $3 GROUP BY zone, ad
            ORDER BY zone, ad"
    );
    let statement = connected.statement(&sql).await?;
    let (from, until) = (from_min.div_euclid(QUARTER_MIN), until_min.div_euclid(QUARTER_MIN));
    let range: (i64, i32, i32) = (account.0.into(), minute(from), minute(until));
    let rows = connected.client.query(&statement, &[&range.0, &range.1, &range.2]).await;
    let pair = |row: &Row| PairRow {
        zone: ZoneSerial(serial(row, 0)),
        ad: AdSerial(serial(row, 1)),
        counts: counts(row, 2),
    };
    Ok(rows.map_err(failed)?.iter().map(pair).collect())
}

/// See [`crate::ports::CountReader::promised_us`].
pub(super) async fn promised_us(connected: &mut Connected) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(min(promised_us), $1) FROM partitions";
    // A server without partitions holds nobody up.
    let row = connected.client.query_one(sql, &[&i64::MAX]).await.map_err(failed)?;
    Ok(row.get(0))
}

/// Numbers of 32 bits: nobody else writes there.
pub(super) fn serial(row: &Row, at: usize) -> u32 {
    u32::try_from(row.get::<_, i64>(at)).unwrap_or(u32::MAX)
}

fn counts(row: &Row, at: usize) -> Counts {
    let count = |at| u64::try_from(row.get::<_, i64>(at)).unwrap_or(0);
    Counts {
        impressions: count(at),
        clicks: count(at + 1),
        conversions: count(at + 2),
        spend_nanos: row.get(at + 3),
    }
}
