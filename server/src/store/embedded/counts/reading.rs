//! What was counted, joined over partitions.

use rusqlite::{Connection, Row, params};
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::super::database::failed;
use crate::counting::sums::QUARTER_MIN;
use crate::ports::{Counts, MinuteQuery, MinuteRow, PairRow, StoreError};

/// See [`crate::ports::CountReader::minutes`].
pub(super) fn minutes(
    reader: &mut Connection,
    query: &MinuteQuery,
) -> Result<Vec<MinuteRow>, StoreError> {
    let ads: Option<String> = query.ads.as_ref().map(|ads| {
        let ads: Vec<_> = ads.iter().map(|ad| ad.0.to_string()).collect();
        format!("[{}]", ads.join(","))
    });
    let is_meant =
        if ads.is_some() { "ad IN (SELECT value FROM json_each(?4))" } else { "?4 IS NULL" };
    let part = |table: &str, is_late: u8| {
        format!(
            "SELECT minute, {is_late}, sum(impressions), sum(clicks), sum(conversions),
                    sum(spend_nanos)
                FROM {table}
                WHERE account = ?1 AND minute >= ?2 AND minute < ?3 AND {is_meant}
                GROUP BY minute"
        )
    };
    let sql = format!("{} UNION ALL {} ORDER BY minute", part("minutes", 0), part("late", 1));
    let mut rows = reader.prepare_cached(&sql).map_err(failed)?;
    let found = rows
        .query_map(params![query.account.0, query.from_min, query.until_min, ads], |row| {
            Ok((row.get(0)?, row.get(1)?, counts(row, 2)?))
        })
        .map_err(failed)?;
    let found = found.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?;
    Ok(MinuteRow::joined(found))
}

/// See [`crate::ports::CountReader::pairs`].
pub(super) fn pairs(
    reader: &mut Connection,
    account: AccountSerial,
    from_min: i64,
    until_min: i64,
) -> Result<Vec<PairRow>, StoreError> {
    let sql = "SELECT zone, ad, sum(impressions), sum(clicks), sum(conversions), sum(spend_nanos)
                FROM quarters WHERE account = ?1 AND quarter >= ?2 AND quarter < ?3
                GROUP BY zone, ad ORDER BY zone, ad";
    let mut rows = reader.prepare_cached(sql).map_err(failed)?;
    let (from, until) = (from_min.div_euclid(QUARTER_MIN), until_min.div_euclid(QUARTER_MIN));
    let found = rows
        .query_map(params![account.0, from, until], |row| {
            let (zone, ad) = (ZoneSerial(row.get(0)?), AdSerial(row.get(1)?));
            Ok(PairRow { zone, ad, counts: counts(row, 2)? })
        })
        .map_err(failed)?;
    found.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// See [`crate::ports::CountReader::promised_us`].
pub(super) fn promised_us(reader: &Connection) -> Result<i64, StoreError> {
    let sql = "SELECT min(promised_us) FROM partitions";
    reader.query_row(sql, [], |row| row.get(0)).map_err(failed)
}

fn counts(row: &Row<'_>, at: usize) -> rusqlite::Result<Counts> {
    Ok(Counts {
        impressions: row.get(at)?,
        clicks: row.get(at + 1)?,
        conversions: row.get(at + 2)?,
        spend_nanos: row.get(at + 3)?,
    })
}
