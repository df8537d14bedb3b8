//! Forgetting on the disk: no file holds a byte of a forgotten visitor any more.
//!
//! Entries are overwritten in place. A row of unchanged length is overwritten by SQLite where it
//! lies, the log is cut off, and deletes leave zeros behind. What SQLite may still have left in a
//! corner of a page, when it moved rows between pages, is found by looking at the bytes of the
//! file; then the file is written anew.

use std::fs::File;
use std::io::Read;

use rusqlite::{Connection, OptionalExtension, params};
use slotwise_core::model::AccountSerial;

use super::Forget;
use super::batch::{BatchError, KEY_BYTES, erase};
use super::journal::{Done, Journal};
use crate::limits::FORGET_STEP_BYTES;
use crate::ports::{Forgotten, StoreError, VisitorKey};
use crate::store::embedded::database::failed;

/// Bytes of the file that are looked at together.
const LOOK_BYTES: usize = 1 << 20;

/// A table with visitors in it: how to find its next row, and how to change one.
struct Table {
    last: &'static str,
    next: &'static str,
    update: &'static str,
    delete: &'static str,
}

const TABLES: [Table; 2] = [
    Table {
        last: "SELECT coalesce(max(part), 0) FROM profiles",
        next: "SELECT part, body FROM profiles WHERE part > ?1 AND part <= ?2
            ORDER BY part LIMIT 1",
        update: "UPDATE profiles SET body = ?2 WHERE part = ?1",
        delete: "DELETE FROM profiles WHERE part = ?1",
    },
    Table {
        last: "SELECT coalesce(max(batch), 0) FROM journal",
        next: "SELECT batch, body FROM journal WHERE batch > ?1 AND batch <= ?2
            ORDER BY batch LIMIT 1",
        update: "UPDATE journal SET body = ?2 WHERE batch = ?1",
        delete: "DELETE FROM journal WHERE batch = ?1",
    },
];

/// Visitors to erase, each with whether anything of them was found.
struct Erasing(Vec<(Forget, bool)>);

impl Erasing {
    /// Whether the visitor is to be erased, who then counts as found.
    fn finds(&mut self, visitor: VisitorKey) -> bool {
        let mut is_meant = false;
        for (forget, is_found) in &mut self.0 {
            if forget.means(visitor) {
                (*is_found, is_meant) = (true, true);
            }
        }
        is_meant
    }

    /// Whether `bytes` hold any of the visitors as an entry would.
    fn are_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|(forget, _)| holds(bytes, forget))
    }
}

impl Journal {
    /// Forgets visitors, in memory and on the disk, all in one go.
    pub(super) fn forget(&mut self, asked: Vec<(Forget, Done<Forgotten>)>) {
        let forgets: Vec<Forget> = asked.iter().map(|(forget, _)| *forget).collect();
        let mut erasing = Erasing(forgets.iter().map(|forget| (*forget, false)).collect());
        for visitor in self.state.forget(&forgets) {
            erasing.finds(visitor);
        }
        let until_us = forgets.iter().map(|forget| forget.now_us).max();
        let noted = self.note_forgotten(until_us.unwrap_or(i64::MIN));
        let erased = noted.and_then(|()| self.erase(&mut erasing));
        if let Err(error) = &erased {
            tracing::error!(%error, "a visitor could not be forgotten");
        }
        for ((_, held_something), (_, done)) in erasing.0.into_iter().zip(asked) {
            let answer = erased.clone().map(|()| {
                self.state.forgets.send_modify(|number| *number += 1);
                Forgotten { held_something, number: *self.state.forgets.borrow() }
            });
            let _ = done.send(answer);
        }
    }

    /// Keeps the instant for the processes to come, and nobody's name.
    fn note_forgotten(&self, until_us: i64) -> Result<(), StoreError> {
        self.database.write_blocking(|writer| {
            let note = "UPDATE forgotten SET until_us = max(until_us, ?1)";
            writer.execute(note, params![until_us]).map(drop).map_err(failed)
        })
    }

    fn erase(&mut self, erasing: &mut Erasing) -> Result<(), StoreError> {
        for table in &TABLES {
            // What is written from here on is of another visit.
            let last = self.database.write_blocking(|writer| {
                writer.query_row(table.last, [], |row| row.get::<_, i64>(0)).map_err(failed)
            })?;
            // Rows of profiles may be below 0, see `fold`.
            let mut at = i64::MIN;
            while at < last {
                let step = |writer: &mut Connection| erase_step(writer, table, at, last, erasing);
                at = self.database.write_blocking(step)?;
                if at < last {
                    self.write_pending()?;
                }
            }
        }
        self.cut_log()?;
        if self.file_holds(erasing)? {
            self.vacuum()?;
        }
        Ok(())
    }

    /// Writes the file anew, without what is deleted.
    pub(super) fn vacuum(&self) -> Result<(), StoreError> {
        self.database.write_blocking(|writer| writer.execute_batch("VACUUM").map_err(failed))?;
        self.cut_log()
    }

    /// Puts the log into the file and cuts it off.
    fn cut_log(&self) -> Result<(), StoreError> {
        self.database.write_blocking(|writer| {
            let is_busy = |row: &rusqlite::Row<'_>| row.get::<_, bool>(0);
            let pragma = "PRAGMA wal_checkpoint(TRUNCATE)";
            if writer.query_row(pragma, [], is_busy).map_err(failed)? {
                let problem = "another program reads the profiles: their log cannot be cut off";
                return Err(StoreError::Unavailable(problem.to_owned()));
            }
            Ok(())
        })
    }

    /// Whether any of the visitors is anywhere in the file.
    fn file_holds(&self, erasing: &Erasing) -> Result<bool, StoreError> {
        let unreadable = |error: std::io::Error| StoreError::Unavailable(error.to_string());
        let mut file = File::open(self.database.path()).map_err(unreadable)?;
        let (mut bytes, mut kept) = (vec![0; LOOK_BYTES], 0);
        loop {
            let read = file.read(&mut bytes[kept..]).map_err(unreadable)?;
            if read == 0 {
                return Ok(false);
            }
            let end = kept + read;
            if erasing.are_in(&bytes[..end]) {
                return Ok(true);
            }
            // One may lie across the border.
            kept = end.min(KEY_BYTES - 1);
            bytes.copy_within(end - kept..end, 0);
        }
    }
}

/// Erases from the rows after `at`, up to some bytes or to the `last`; returns how far it came.
fn erase_step(
    writer: &mut Connection,
    table: &Table,
    mut at: i64,
    last: i64,
    erasing: &mut Erasing,
) -> Result<i64, StoreError> {
    let tx = writer.transaction().map_err(failed)?;
    let mut bytes = 0;
    while bytes < FORGET_STEP_BYTES {
        let next = tx
            .prepare_cached(table.next)
            .and_then(|mut next| next.query_row([at, last], |row| Ok((row.get(0)?, row.get(1)?))))
            .optional();
        let Some((row, mut body)): Option<(i64, Vec<u8>)> = next.map_err(failed)? else {
            at = last;
            break;
        };
        (at, bytes) = (row, bytes + body.len());
        match erase(&mut body, |visitor| erasing.finds(visitor)) {
            Ok(false) => {}
            Ok(true) => drop(tx.execute(table.update, params![row, body]).map_err(failed)?),
            Err(error @ BatchError::Newer(_)) => {
                return Err(StoreError::Unavailable(error.to_string()));
            }
            // Nobody can read it; it goes where it would keep what has to go.
            Err(BatchError::Damaged) if erasing.are_in(&body) => {
                tracing::warn!("a damaged batch names a visitor who is forgotten: deleted");
                tx.execute(table.delete, params![row]).map_err(failed)?;
            }
            Err(BatchError::Damaged) => {}
        }
    }
    tx.commit().map_err(failed)?;
    Ok(at)
}

/// Whether `bytes` hold the visitor: the hash, behind the account's serial where it is meant in
/// one account only.
fn holds(bytes: &[u8], forget: &Forget) -> bool {
    let hash = forget.visitor.to_le_bytes();
    let mut from = 0;
    while let Some(next) = bytes[from..].iter().position(|byte| *byte == hash[0]) {
        let (before, rest) = bytes.split_at(from + next);
        let is_of_account =
            |account: AccountSerial| before.ends_with(account.0.to_le_bytes().as_slice());
        if rest.starts_with(&hash) && forget.account.is_none_or(is_of_account) {
            return true;
        }
        from += next + 1;
    }
    false
}
