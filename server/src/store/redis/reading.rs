//! Reading the catalogue: what changed after a version, all of it, lists.
//!
//! What is little is read in one script, at one version. What is much is read part by part while
//! others write, and then patched with what changed since the first part: the result is the
//! catalogue at the version of the patch.

use std::collections::{BTreeMap, BTreeSet};

use redis::Cmd;
use slotwise_core::index::Key;
use tokio::sync::mpsc;

use super::catalog::RedisCatalog;
use super::keys::{
    array, bytes, head_from, key_from, kind_of, number, row_from, rows_from, serial_parts, strange,
};
use super::scripts;
use super::stage::fold_all;
use crate::limits::{COMMIT_ATTEMPTS_MAX, DELTA_ROWS_MAX, REDIS_PART_ROWS, REDIS_SCRIPT_ROWS_MAX};
use crate::ports::{CatalogStore, Delta, Head, ListQuery, Row, Serial, StoreError};

/// Rows that a load hands over at once.
const LOAD_PART_ROWS: usize = 10_000;
/// How often a large read is patched before it gives up: only where changes as large as itself
/// keep coming.
const PATCHES_MAX: usize = 8;

/// Objects by their keys; nothing: it is gone.
type Found = BTreeMap<Key, Option<Row>>;

/// What the script for changes says.
enum Changes {
    /// All of them.
    All(Delta),
    /// More than one script should give.
    Much(Head, usize),
    /// They are no longer kept.
    Gap(u64),
}

impl RedisCatalog {
    /// See [`crate::ports::CatalogStore::delta`].
    pub(super) async fn changed_after(&self, version: u64, mark: u64) -> Result<Delta, StoreError> {
        let (head, many) = match self.ask_changes(version, mark).await? {
            Changes::All(delta) => return Ok(delta),
            Changes::Gap(oldest) => return Err(StoreError::Gap { oldest }),
            Changes::Much(head, many) => (head, many),
        };
        if many > DELTA_ROWS_MAX {
            return Err(StoreError::Gap { oldest: head.version });
        }
        let mut found = Found::new();
        // The overlay first: what is folded in meanwhile is found by its version afterwards.
        let mut names = self.scan("HSCAN", "overlay", &mut |_| true).await?;
        let after = version as f64;
        let mut newer = |score: &[u8]| {
            let score = std::str::from_utf8(score).ok().and_then(|text| text.parse::<f64>().ok());
            score.is_none_or(|score| score > after)
        };
        names.extend(self.scan("ZSCAN", "removed", &mut newer).await?);
        let mut listed = self.scan("ZSCAN", "versions", &mut newer).await?;
        let switched = self.scan("ZSCAN", "status_versions", &mut newer).await?;
        listed.extend(switched.into_iter().map(|id| [b"4\0", id.as_slice()].concat()));
        listed.retain(|name| !names.contains(name));
        self.fetch(&names, &mut found).await?;
        let mut kept = Found::new();
        self.fetch(&listed, &mut kept).await?;
        if kept.values().any(Option::is_none) {
            // Missing, and not deleted: a load counts what is there.
            return Err(StoreError::Gap { oldest: head.version });
        }
        found.append(&mut kept);
        let head = self.patch(head, &mut found).await?;
        let (mut rows, mut removed) = (Vec::new(), Vec::new());
        for (key, row) in found {
            match row {
                Some(row) => rows.push(row),
                None => removed.push(key),
            }
        }
        Ok(Delta { head, rows, removed })
    }

    /// See [`crate::ports::CatalogStore::load`].
    pub(super) async fn load_whole(
        &self,
        parts: mpsc::Sender<Vec<Row>>,
    ) -> Result<Head, StoreError> {
        let head = self.head().await?;
        self.expect_not_emptied(head.version).await?;
        let mut found = Found::new();
        let names = self.scan("ZSCAN", "ids", &mut |_| true).await?;
        self.fetch(&names, &mut found).await?;
        let head = self.patch(head, &mut found).await?;
        let mut part = Vec::new();
        for row in found.into_values().flatten() {
            part.push(row);
            if part.len() == LOAD_PART_ROWS {
                send(&parts, std::mem::take(&mut part)).await?;
            }
        }
        send(&parts, part).await?;
        Ok(head)
    }

    /// Brings `found`, which was read since `head`, to one version.
    async fn patch(&self, mut head: Head, found: &mut Found) -> Result<Head, StoreError> {
        for _ in 0..PATCHES_MAX {
            match self.ask_changes(head.version, head.mark).await? {
                Changes::All(delta) => {
                    found.extend(delta.rows.into_iter().map(|row| (row.key.clone(), Some(row))));
                    found.extend(delta.removed.into_iter().map(|key| (key, None)));
                    return Ok(delta.head);
                }
                Changes::Much(now, many) if many <= DELTA_ROWS_MAX => {
                    let delta = Box::pin(self.changed_after(head.version, head.mark)).await?;
                    found.extend(delta.rows.into_iter().map(|row| (row.key.clone(), Some(row))));
                    found.extend(delta.removed.into_iter().map(|key| (key, None)));
                    head = Head { version: delta.head.version.max(now.version), ..delta.head };
                }
                Changes::Much(..) | Changes::Gap(_) => break,
            }
        }
        Err(StoreError::Unavailable("the catalogue changes faster than it can be read".to_owned()))
    }

    async fn ask_changes(&self, version: u64, mark: u64) -> Result<Changes, StoreError> {
        // Beyond this, numbers are not exact in a script; no catalogue gets there.
        if version >= 1 << 53 {
            return Ok(Changes::Gap(0));
        }
        let keys = [
            "head",
            "objects",
            "overlay",
            "versions",
            "removed",
            "statuses",
            "status_versions",
            "changes",
        ];
        let ask = |command: &mut Cmd| {
            command.arg(version).arg(mark).arg(REDIS_SCRIPT_ROWS_MAX);
        };
        let reply = self.run(scripts::delta(), keys, ask).await?;
        let parts = array(&reply)?;
        match (parts.first().map(bytes).transpose()?, parts) {
            (Some(b"ok"), [_, head, rows, gone]) => {
                let gone = array(gone)?.iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
                Ok(Changes::All(Delta {
                    head: head_from(head)?,
                    rows: rows_from(rows)?,
                    removed: gone.into_iter().filter_map(key_from).collect(),
                }))
            }
            (Some(b"much"), [_, head, many]) => {
                let many = usize::try_from(number(many)?).unwrap_or(usize::MAX);
                Ok(Changes::Much(head_from(head)?, many))
            }
            (Some(b"gap"), [_, oldest]) => {
                Ok(Changes::Gap(u64::try_from(number(oldest)?).unwrap_or(0)))
            }
            _ => Err(strange(&reply)),
        }
    }

    /// The names in a hash or a sorted set whose value or score `wanted` takes. What is there
    /// all the while is found; what comes and goes meanwhile may be.
    async fn scan(
        &self,
        command: &str,
        key: &str,
        wanted: &mut (dyn FnMut(&[u8]) -> bool + Send),
    ) -> Result<BTreeSet<Vec<u8>>, StoreError> {
        let (mut names, mut cursor) = (BTreeSet::new(), b"0".to_vec());
        loop {
            let mut ask = redis::cmd(command);
            ask.arg(self.keys.one(key)).arg(&cursor).arg("COUNT").arg(REDIS_PART_ROWS);
            let reply = self.call(&ask).await?;
            let [next, found] = array(&reply)? else { return Err(strange(&reply)) };
            for pair in array(found)?.chunks(2) {
                let [name, value] = pair else { return Err(strange(&reply)) };
                if wanted(bytes(value)?) {
                    names.insert(bytes(name)?.to_vec());
                }
            }
            cursor = bytes(next)?.to_vec();
            if cursor == b"0" {
                return Ok(names);
            }
        }
    }

    /// Reads the objects of `names`, part by part.
    async fn fetch(&self, names: &BTreeSet<Vec<u8>>, found: &mut Found) -> Result<(), StoreError> {
        let names: Vec<&Vec<u8>> = names.iter().collect();
        for part in names.chunks(REDIS_PART_ROWS) {
            // A script, and no transaction: that is refused where memory is short.
            let (_, rows) = self.get_named(part).await?;
            found.extend(part.iter().filter_map(|name| Some((key_from(name)?, None))));
            found.extend(rows.into_iter().map(|row| (row.key.clone(), Some(row))));
        }
        Ok(())
    }

    /// See [`crate::ports::CatalogStore::by_serial`].
    pub(super) async fn numbered(&self, serial: Serial) -> Result<Option<Row>, StoreError> {
        let names = ["head", "serials", "objects", "overlay", "statuses", "buried"];
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let ask = |command: &mut Cmd| {
                let (kind, number) = serial_parts(serial);
                command.arg(kind).arg(number);
            };
            let reply = self.run(scripts::by_serial(), names, ask).await?;
            let parts = array(&reply)?;
            let row = |key, value, status| -> Result<Option<Row>, StoreError> {
                let key = key_from(bytes(key)?).ok_or_else(|| strange(&reply))?;
                Ok(Some(row_from(key, bytes(value)?, status)))
            };
            match (parts.first().map(bytes).transpose()?, parts) {
                (Some(b"there"), [_, key, value, status]) => {
                    return row(key, value, bytes(status)?);
                }
                (Some(b"buried"), [_, key, value]) => {
                    let buried = row(key, value, &[])?;
                    return Ok(buried.map(|row| Row { status: None, ..row }));
                }
                (Some(b"fold"), _) => fold_all(&self.redis, &self.keys).await?,
                (Some(b"unknown"), _) => {
                    self.expect_not_emptied(self.head().await?.version).await?;
                    return Ok(None);
                }
                _ => return Err(strange(&reply)),
            }
        }
        Err(StoreError::Unavailable("large changes keep coming first".to_owned()))
    }

    /// See [`crate::ports::CatalogStore::list`].
    pub(super) async fn list_now(&self, query: &ListQuery) -> Result<Vec<Row>, StoreError> {
        let kind = (b'0' + kind_of(&query.after)) as char;
        let (parent, after) = query.after.parts();
        let is_owned = !query.owner.is_empty();
        let before_id = if is_owned { &query.owner } else { parent };
        let stem = format!("{kind}{before_id}\0");
        // An id that begins with the prefix sorts at or after it, and below its successor.
        let from = if after.as_bytes() >= query.id_prefix.as_bytes() && !after.is_empty() {
            [b"(", stem.as_bytes(), after.as_bytes()].concat()
        } else {
            [b"[", stem.as_bytes(), query.id_prefix.as_bytes()].concat()
        };
        let to = match successor(query.id_prefix.as_bytes()) {
            Some(end) => [b"(", stem.as_bytes(), &end].concat(),
            None => [b"(", stem.trim_end_matches('\0').as_bytes(), &[1]].concat(),
        };
        let ask = |command: &mut Cmd| {
            let kind = if is_owned { kind.to_string() } else { String::new() };
            command.arg(from).arg(to).arg(query.limit).arg(kind).arg(&query.owner);
        };
        let index = if is_owned { "owned" } else { "ids" };
        let keys = [index, "objects", "overlay", "statuses"];
        let rows = rows_from(&self.run(scripts::list(), keys, ask).await?)?;
        if rows.is_empty() {
            self.expect_not_emptied(self.head().await?.version).await?;
        }
        Ok(rows)
    }
}

/// The first string of bytes after all that begin with `prefix`; nothing: there is none.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

async fn send(parts: &mpsc::Sender<Vec<Row>>, part: Vec<Row>) -> Result<(), StoreError> {
    let given_up = |_| StoreError::Unavailable("the load was given up".to_owned());
    parts.send(part).await.map_err(given_up)
}
