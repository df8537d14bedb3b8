//! The audit log: who changed what, when, from what to what.

use prost::Message;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use slotwise_proto::v1::{CatalogChange, CatalogRecord, ChangeRecord};

use super::catalog::meta;
use super::commit::execute;
use super::database::failed;
use crate::limits::AUDIT_ROWS_MAX;
use crate::ports::{AuditPage, AuditQuery, Commit, StoreError};
use crate::time::timestamp;

const LINE: &str =
    "SELECT version, at_us, kind, id, summary, actor, before, after, line FROM audit ";

/// Writes the lines of `commit`, and forgets the oldest once there are too many. The changes
/// themselves (line 0) and the objects of imports (the other lines) are counted apart, so that
/// one large import does not push out everybody else's history.
pub(super) fn append(
    tx: &Transaction<'_>,
    commit: &Commit,
    version: u64,
) -> Result<(), StoreError> {
    for (line, entry) in commit.audit.iter().enumerate() {
        let change = &entry.change;
        execute(
            tx,
            "INSERT INTO audit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                version,
                line,
                commit.at_us,
                change.kind,
                change.id,
                change.summary,
                change.actor,
                entry.before,
                entry.after
            ],
        )?;
    }
    if version > AUDIT_ROWS_MAX {
        let gone = version - AUDIT_ROWS_MAX;
        execute(tx, "DELETE FROM audit WHERE version <= ?1", params![gone])?;
    }
    if commit.audit.len() > 1 {
        trim_lines(tx)?;
    }
    Ok(())
}

fn trim_lines(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let last_gone: Option<(u64, u64)> = tx
        .prepare_cached(
            "SELECT version, line FROM audit WHERE line > 0
                ORDER BY version DESC, line DESC LIMIT 1 OFFSET ?1",
        )
        .and_then(|mut statement| {
            let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            statement.query_row([AUDIT_ROWS_MAX], pair).optional()
        })
        .map_err(failed)?;
    if let Some((version, line)) = last_gone {
        execute(
            tx,
            "DELETE FROM audit WHERE line > 0 AND (version, line) <= (?1, ?2)",
            params![version, line],
        )?;
    }
    Ok(())
}

/// At most `limit` changes after `version`, oldest first.
pub(super) fn changes(
    reader: &mut Connection,
    version: u64,
    limit: usize,
) -> Result<Vec<CatalogChange>, StoreError> {
    let tx = reader.transaction().map_err(failed)?;
    // The version is a caller's number: beyond the head it need not even fit SQLite's integers.
    if version >= meta(&tx, "version")? {
        return Ok(Vec::new());
    }
    let oldest: Option<u64> =
        tx.query_row("SELECT min(version) FROM audit", [], |row| row.get(0)).map_err(failed)?;
    let oldest = oldest.unwrap_or(1);
    if version + 1 < oldest {
        return Err(StoreError::Gap { oldest });
    }
    let sql = format!("{LINE} WHERE line = 0 AND version > ?1 ORDER BY version LIMIT ?2");
    let mut statement = tx.prepare_cached(&sql).map_err(failed)?;
    let found = statement.query_map(params![version, limit], change_from).map_err(failed)?;
    found.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// A page of the log, newest first.
pub(super) fn page(reader: &mut Connection, query: &AuditQuery) -> Result<AuditPage, StoreError> {
    let of = if query.id.is_empty() { "line = 0 AND ?1 = ''" } else { "id = ?1" };
    let sql = format!(
        "{LINE} WHERE {of} AND (version, line) < (?2, ?3)
            ORDER BY version DESC, line DESC LIMIT ?4"
    );
    // SQLite's integers end here.
    let end = (i64::MAX.unsigned_abs(), i64::MAX.unsigned_abs());
    let (version, line) = query.before.unwrap_or(end);
    let mut statement = reader.prepare_cached(&sql).map_err(failed)?;
    let found = statement
        .query_map(params![query.id, version, line, query.limit + 1], |row| {
            let position: (u64, u64) = (row.get(0)?, row.get(8)?);
            let record = ChangeRecord {
                change: Some(change_from(row)?),
                before: record_from(row, 6)?,
                after: record_from(row, 7)?,
            };
            Ok((position, record))
        })
        .map_err(failed)?;
    let mut lines = found.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?;
    let is_cut = lines.len() > query.limit;
    lines.truncate(query.limit);
    let next_before = lines.last().filter(|_| is_cut).map(|(position, _)| *position);
    Ok(AuditPage { records: lines.into_iter().map(|(_, record)| record).collect(), next_before })
}

fn change_from(row: &rusqlite::Row<'_>) -> rusqlite::Result<CatalogChange> {
    Ok(CatalogChange {
        catalog_version: row.get(0)?,
        changed_at: Some(timestamp(row.get(1)?)),
        kind: row.get(2)?,
        id: row.get(3)?,
        summary: row.get(4)?,
        actor: row.get(5)?,
    })
}

fn record_from(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<CatalogRecord>> {
    let bytes: Option<Vec<u8>> = row.get(at)?;
    let decoded = bytes.map(|bytes| CatalogRecord::decode(bytes.as_slice())).transpose();
    decoded.map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Blob, error.into())
    })
}
