//! Writing one change of the catalogue, inside one transaction.

use rusqlite::{OptionalExtension, Transaction, params};
use slotwise_core::index::Key;
use slotwise_core::model::Status;

use super::audit;
use super::catalog::{head, meta};
use super::database::failed;
use super::keys::{kind_code, status_code};
use crate::limits::{REMOVALS_MAX, SERIAL_AFTERLIFE, SERIALS_SWEPT};
use crate::ports::{Commit, Put, StoreError};

/// Applies `commit` and returns the version that it became.
pub(super) fn apply(tx: &Transaction<'_>, commit: &Commit) -> Result<u64, StoreError> {
    let at = head(tx)?;
    if at.version != commit.base_version {
        return Err(StoreError::Conflict { head: at.version });
    }
    let version = at.version + 1;
    let mut ads = at.ads;
    for key in &commit.deletes {
        if delete(tx, key, version, commit.at_us)? && matches!(key, Key::Ad(..)) {
            ads -= 1;
        }
    }
    for object in &commit.puts {
        if put(tx, object, version)? && matches!(object.key, Key::Ad(..)) {
            ads += 1;
        }
    }
    for (key, status) in &commit.statuses {
        set_status(tx, key, *status, version)?;
    }
    audit::append(tx, commit, version)?;
    sweep_ended(tx, commit)?;
    if !commit.deletes.is_empty() {
        trim_removed(tx)?;
    }
    set_meta(tx, "version", version)?;
    set_meta(tx, "ads", ads)?;
    if commit.forced {
        set_meta(tx, "forced_version", version)?;
    }
    Ok(version)
}

pub(super) fn set_meta(tx: &Transaction<'_>, name: &str, value: u64) -> Result<(), StoreError> {
    execute(
        tx,
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value",
        params![name, value],
    )?;
    Ok(())
}

/// Runs one statement, prepared once; returns the number of rows it changed.
pub(super) fn execute(
    tx: &Transaction<'_>,
    sql: &str,
    values: impl rusqlite::Params,
) -> Result<usize, StoreError> {
    tx.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).map_err(failed)
}

/// Writes one object; returns whether it is new.
fn put(tx: &Transaction<'_>, object: &Put, version: u64) -> Result<bool, StoreError> {
    let (kind, (parent, id)) = (kind_code(&object.key), object.key.parts());
    let changed = execute(
        tx,
        "UPDATE objects SET owner = ?4, version = ?5, body = ?6
            WHERE kind = ?1 AND parent = ?2 AND id = ?3",
        params![kind, parent, id, object.owner, version, object.body],
    )?;
    let is_new = changed == 0;
    if is_new {
        execute(
            tx,
            "INSERT INTO objects (kind, parent, id, owner, version, body, serial)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![kind, parent, id, object.owner, version, object.body, next_serial(tx, kind)?],
        )?;
        execute(
            tx,
            "DELETE FROM removed WHERE kind = ?1 AND parent = ?2 AND id = ?3",
            params![kind, parent, id],
        )?;
    }
    if matches!(object.key, Key::Campaign(_)) {
        let status = object.status.or(is_new.then_some(Status::Active));
        if let Some(status) = status {
            set_status(tx, &object.key, status, version)?;
        }
    }
    Ok(is_new)
}

/// Removes one object; returns whether it was there.
fn delete(tx: &Transaction<'_>, key: &Key, version: u64, at_us: i64) -> Result<bool, StoreError> {
    let (kind, (parent, id)) = (kind_code(key), key.parts());
    // A damaged row may have no serial of its own: it goes all the same.
    execute(
        tx,
        "INSERT OR IGNORE INTO ended_serials
            (kind, serial, parent, id, ended_at_us, version, body)
            SELECT kind, serial, parent, id, ?4, version, body FROM objects
            WHERE kind = ?1 AND parent = ?2 AND id = ?3",
        params![kind, parent, id, at_us],
    )?;
    let gone = execute(
        tx,
        "DELETE FROM objects WHERE kind = ?1 AND parent = ?2 AND id = ?3",
        params![kind, parent, id],
    )?;
    if gone == 0 {
        return Ok(false);
    }
    execute(tx, "INSERT INTO removed VALUES (?1, ?2, ?3, ?4)", params![kind, parent, id, version])?;
    if matches!(key, Key::Campaign(_)) {
        execute(tx, "DELETE FROM statuses WHERE campaign = ?1", params![id])?;
    }
    Ok(true)
}

/// Forgets what was deleted so long ago that nobody can name it any more.
fn sweep_ended(tx: &Transaction<'_>, commit: &Commit) -> Result<(), StoreError> {
    let afterlife_us = i64::try_from(SERIAL_AFTERLIFE.as_micros()).unwrap_or(i64::MAX);
    execute(
        tx,
        "DELETE FROM ended_serials WHERE (kind, serial) IN (SELECT kind, serial
            FROM ended_serials WHERE ended_at_us < ?1 ORDER BY ended_at_us LIMIT ?2)",
        params![
            commit.at_us.saturating_sub(afterlife_us),
            SERIALS_SWEPT + 2 * commit.deletes.len()
        ],
    )?;
    Ok(())
}

fn set_status(
    tx: &Transaction<'_>,
    key: &Key,
    status: Status,
    version: u64,
) -> Result<(), StoreError> {
    execute(
        tx,
        "INSERT INTO statuses VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE
            SET status = excluded.status, version = excluded.version",
        params![key.parts().1, status_code(status), version],
    )?;
    Ok(())
}

fn next_serial(tx: &Transaction<'_>, kind: i64) -> Result<u32, StoreError> {
    let name = format!("serials_{kind}");
    let serial = meta(tx, &name)? + 1;
    set_meta(tx, &name, serial)?;
    u32::try_from(serial).map_err(|_| StoreError::Full("all serials of a kind are used up"))
}

/// Forgets the oldest removals once there are many: who is further behind loads everything.
fn trim_removed(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let oldest_kept: Option<u64> = tx
        .prepare_cached("SELECT version FROM removed ORDER BY version DESC LIMIT 1 OFFSET ?1")
        .and_then(|mut statement| statement.query_row([REMOVALS_MAX], |row| row.get(0)).optional())
        .map_err(failed)?;
    let Some(version) = oldest_kept else { return Ok(()) };
    execute(tx, "DELETE FROM removed WHERE version <= ?1", params![version])?;
    set_meta(tx, "removed_from", version)
}
