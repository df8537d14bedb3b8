//! The catalogue in SQLite: its tables, and what reads them.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use slotwise_core::index::Key;
use slotwise_proto::v1::CatalogChange;
use tokio::sync::{mpsc, watch};

use super::database::{Database, failed};
use super::keys::{key_from, kind_code, serial_code, status_from};
use super::{audit, commit};
use crate::limits::DELTA_ROWS_MAX;
use crate::ports::{
    AuditPage, AuditQuery, CatalogStore, Commit, Delta, Head, ListQuery, Row, Serial, StoreError,
};

/// Rows that a load hands over at once.
const LOAD_PART_ROWS: usize = 10_000;

const MIGRATIONS: [&str; 2] = [
    "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE objects (
        kind INTEGER NOT NULL, parent TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL,
        serial INTEGER NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (kind, parent, id)) WITHOUT ROWID;
    CREATE INDEX objects_by_owner ON objects (kind, owner, id) WHERE owner <> '';
    CREATE INDEX objects_by_version ON objects (version);
    CREATE TABLE statuses (
        campaign TEXT PRIMARY KEY, status INTEGER NOT NULL, version INTEGER NOT NULL)
        WITHOUT ROWID;
    CREATE INDEX statuses_by_version ON statuses (version);
    CREATE TABLE removed (
        kind INTEGER NOT NULL, parent TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL,
        PRIMARY KEY (kind, parent, id)) WITHOUT ROWID;
    CREATE INDEX removed_by_version ON removed (version);
    CREATE TABLE ended_serials (
        kind INTEGER NOT NULL, serial INTEGER NOT NULL, parent TEXT NOT NULL, id TEXT NOT NULL,
        ended_at_us INTEGER NOT NULL, PRIMARY KEY (kind, serial)) WITHOUT ROWID;
    CREATE INDEX ended_serials_by_time ON ended_serials (ended_at_us);
    CREATE TABLE audit (
        version INTEGER NOT NULL, line INTEGER NOT NULL, at_us INTEGER NOT NULL,
        kind TEXT NOT NULL, id TEXT NOT NULL, summary TEXT NOT NULL, actor TEXT NOT NULL,
        before BLOB, after BLOB, PRIMARY KEY (version, line)) WITHOUT ROWID;
    CREATE INDEX audit_by_id ON audit (id, version, line);
",
    // What was deleted is kept as it was; without a body: deleted before this.
    "ALTER TABLE ended_serials ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ended_serials ADD COLUMN body BLOB;
    CREATE INDEX objects_by_serial ON objects (kind, serial);",
];

/// No protobuf message: stands for a body that cannot be read.
const UNREADABLE: &[u8] = &[0xff];

/// Columns in the order of [`row_from`].
const ROW: &str = "SELECT o.kind, o.parent, o.id, o.serial, o.version, o.body, s.status, s.version
    FROM objects o LEFT JOIN statuses s ON o.kind = 4 AND s.campaign = o.id ";

/// The catalogue in one SQLite file.
pub struct EmbeddedCatalog {
    database: Database,
    hints: watch::Sender<u64>,
}

impl EmbeddedCatalog {
    /// Opens or makes `catalog.sqlite` in `dir`.
    ///
    /// # Errors
    /// When the file cannot be opened, or a newer version of slotwise wrote it.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let database = Database::open(&dir.join("catalog.sqlite"), &MIGRATIONS)?;
        let head = database.write_blocking(|writer| head(writer))?;
        Ok(Self { database, hints: watch::Sender::new(head.version) })
    }
}

#[async_trait]
impl CatalogStore for EmbeddedCatalog {
    async fn head(&self) -> Result<Head, StoreError> {
        self.database.read(|reader| head(reader)).await
    }

    async fn load(&self, parts: mpsc::Sender<Vec<Row>>) -> Result<Head, StoreError> {
        self.database
            .read(move |reader| {
                let tx = reader.transaction().map_err(failed)?;
                let at = head(&tx)?;
                let sql = format!("{ROW} ORDER BY o.kind, o.parent, o.id");
                let mut statement = tx.prepare(&sql).map_err(failed)?;
                let mut rows = statement.query([]).map_err(failed)?;
                let mut part = Vec::with_capacity(LOAD_PART_ROWS);
                while let Some(row) = rows.next().map_err(failed)? {
                    part.push(row_from(row).map_err(failed)?);
                    if part.len() == LOAD_PART_ROWS {
                        let next = Vec::with_capacity(LOAD_PART_ROWS);
                        send(&parts, std::mem::replace(&mut part, next))?;
                    }
                }
                send(&parts, part)?;
                Ok(at)
            })
            .await
    }

    /// The file is this process's own: it does not go back under it, so marks say nothing.
    async fn delta(&self, version: u64, _mark: u64) -> Result<Delta, StoreError> {
        self.database.read(move |reader| read_delta(reader, version)).await
    }

    async fn get(&self, keys: &[Key]) -> Result<(Head, Vec<Row>), StoreError> {
        let keys = keys.to_vec();
        self.database
            .read(move |reader| {
                let tx = reader.transaction().map_err(failed)?;
                let at = head(&tx)?;
                let sql = format!("{ROW} WHERE o.kind = ?1 AND o.parent = ?2 AND o.id = ?3");
                let mut statement = tx.prepare_cached(&sql).map_err(failed)?;
                let mut rows = Vec::with_capacity(keys.len());
                for key in &keys {
                    let (parent, id) = key.parts();
                    let found = statement
                        .query_row(params![kind_code(key), parent, id], row_from)
                        .optional();
                    rows.extend(found.map_err(failed)?);
                }
                Ok((at, rows))
            })
            .await
    }

    async fn by_serial(&self, serial: Serial) -> Result<Option<Row>, StoreError> {
        let deleted = "SELECT kind, parent, id, serial, version, body, NULL, NULL
            FROM ended_serials WHERE kind = ?1 AND serial = ?2 AND body IS NOT NULL";
        self.database
            .read(move |reader| {
                // One state for both: an object is in one of them, and in one only.
                let tx = reader.transaction().map_err(failed)?;
                for sql in [&format!("{ROW} WHERE o.kind = ?1 AND o.serial = ?2"), deleted] {
                    let mut statement = tx.prepare_cached(sql).map_err(failed)?;
                    let row = statement.query_row(serial_code(serial), row_from).optional();
                    if let Some(row) = row.map_err(failed)? {
                        return Ok(Some(row));
                    }
                }
                Ok(None)
            })
            .await
    }

    async fn list(&self, query: &ListQuery) -> Result<Vec<Row>, StoreError> {
        let query = query.clone();
        self.database.read(move |reader| read_list(reader, &query)).await
    }

    async fn commit(&self, commit: Commit) -> Result<u64, StoreError> {
        let version = self
            .database
            .write(move |writer| {
                // Immediate: a deferred transaction that comes to write late fails with BUSY.
                let tx = writer
                    .transaction_with_behavior(TransactionBehavior::Immediate)
                    .map_err(failed)?;
                let version = commit::apply(&tx, &commit)?;
                tx.commit().map_err(failed)?;
                Ok(version)
            })
            .await?;
        self.hints.send_if_modified(|hint| {
            let newer = version > *hint;
            *hint = version.max(*hint);
            newer
        });
        Ok(version)
    }

    async fn changes(&self, version: u64, limit: usize) -> Result<Vec<CatalogChange>, StoreError> {
        self.database.read(move |reader| audit::changes(reader, version, limit)).await
    }

    async fn audit(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        let query = query.clone();
        self.database.read(move |reader| audit::page(reader, &query)).await
    }

    async fn secret(&self, name: &str) -> Result<[u8; 32], StoreError> {
        let mut fresh = [0_u8; 32];
        getrandom::fill(&mut fresh)
            .map_err(|error| StoreError::Unavailable(format!("random numbers: {error}")))?;
        let name = name.to_owned();
        self.database
            .write(move |writer| {
                writer
                    .execute(
                        "INSERT INTO secrets VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                        params![name, fresh],
                    )
                    .map_err(failed)?;
                let kept = "SELECT value FROM secrets WHERE name = ?1";
                writer.query_row(kept, params![name], |row| row.get(0)).map_err(failed)
            })
            .await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }
}

/// The value that the store counts under `name`; 0 where it has not begun.
pub(super) fn meta(connection: &Connection, name: &str) -> Result<u64, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT value FROM meta WHERE name = ?1").map_err(failed)?;
    let value = statement.query_row([name], |row| row.get(0)).optional().map_err(failed)?;
    Ok(value.unwrap_or(0))
}

pub(super) fn head(connection: &Connection) -> Result<Head, StoreError> {
    let mut serials = [0; 5];
    for (kind, serial) in (1..).zip(&mut serials) {
        *serial = u32::try_from(meta(connection, &format!("serials_{kind}"))?).unwrap_or(u32::MAX);
    }
    Ok(Head {
        mark: 0,
        serials,
        version: meta(connection, "version")?,
        ads: meta(connection, "ads")?,
        forced_version: meta(connection, "forced_version")?,
    })
}

fn row_from(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    // Somebody may have written here by hand. Whatever can still be named goes on as a row that
    // no check lets pass, so that it is told and left out while the others are served.
    let status: Option<i64> = row.get(6).unwrap_or_default();
    let status_version: Option<u64> = row.get(7).unwrap_or_default();
    let (serial, version) = (row.get(3), row.get::<_, u64>(4));
    let body = match row.get_ref(5)? {
        ValueRef::Blob(body) | ValueRef::Text(body) if serial.is_ok() && version.is_ok() => body,
        _ => UNREADABLE,
    };
    Ok(Row {
        key: key_from(row, 0)?,
        serial: serial.unwrap_or_default(),
        version: version.unwrap_or_default().max(status_version.unwrap_or(0)),
        status: status.map(status_from),
        body: body.to_vec(),
    })
}

fn read_delta(reader: &mut Connection, version: u64) -> Result<Delta, StoreError> {
    let tx = reader.transaction().map_err(failed)?;
    let at = head(&tx)?;
    let oldest = meta(&tx, "removed_from")?;
    if version < oldest || version > at.version {
        return Err(StoreError::Gap { oldest });
    }
    let mut rows = Vec::new();
    let sql = format!("{ROW} WHERE o.version > ?1 LIMIT ?2");
    // Campaigns of which the status alone is newer: apart, so that both indexes are used.
    let of_status =
        "SELECT o.kind, o.parent, o.id, o.serial, o.version, o.body, s.status, s.version
        FROM statuses s JOIN objects o ON o.kind = 4 AND o.parent = '' AND o.id = s.campaign
        WHERE s.version > ?1 AND o.version <= ?1 LIMIT ?2";
    for sql in [sql.as_str(), of_status] {
        let mut statement = tx.prepare_cached(sql).map_err(failed)?;
        let found =
            statement.query_map(params![version, DELTA_ROWS_MAX + 1], row_from).map_err(failed)?;
        for row in found {
            rows.push(row.map_err(failed)?);
        }
    }
    if rows.len() > DELTA_ROWS_MAX {
        return Err(StoreError::Gap { oldest: at.version });
    }
    let mut statement = tx
        .prepare_cached("SELECT kind, parent, id FROM removed WHERE version > ?1")
        .map_err(failed)?;
    let removed = statement.query_map([version], |row| key_from(row, 0)).map_err(failed)?;
    let removed = removed.collect::<rusqlite::Result<_>>().map_err(failed)?;
    Ok(Delta { head: at, rows, removed })
}

fn read_list(reader: &Connection, query: &ListQuery) -> Result<Vec<Row>, StoreError> {
    let (parent, after) = query.after.parts();
    // An id that begins with the prefix sorts at or after it, and below its successor.
    let end = prefix_end(&query.id_prefix);
    let owned = if query.owner.is_empty() { "" } else { "AND o.owner <> '' AND o.owner = ?6" };
    let sql = format!(
        "{ROW} WHERE o.kind = ?1 AND o.parent = ?2 AND o.id > ?3 AND o.id >= ?4
            AND (?5 IS NULL OR o.id < ?5) AND (?6 = '' OR ?6 <> '') {owned}
            ORDER BY o.id LIMIT ?7"
    );
    let mut statement = reader.prepare_cached(&sql).map_err(failed)?;
    let rows = statement
        .query_map(
            params![
                kind_code(&query.after),
                parent,
                after,
                query.id_prefix,
                end,
                query.owner,
                query.limit
            ],
            row_from,
        )
        .map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// The first string after all that begin with `prefix`; nothing: there is none.
fn prefix_end(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

fn send(parts: &mpsc::Sender<Vec<Row>>, part: Vec<Row>) -> Result<(), StoreError> {
    let given_up = |_| StoreError::Unavailable("the load was given up".to_owned());
    parts.blocking_send(part).map_err(given_up)
}
