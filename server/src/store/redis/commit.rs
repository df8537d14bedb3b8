//! Writing one change of the catalogue: in one script where it is small, else in stages (see
//! [`super::stage`]).

use std::ops::Range;

use prost::Message;
use redis::{Cmd, Value};
use slotwise_proto::v1::{CatalogChange, ChangeRecord};

use super::catalog::RedisCatalog;
use super::keys::{array, bytes, name_of, number, status_code, strange};
use super::scripts;
use super::stage::fold_all;
use crate::limits::{
    COMMIT_ATTEMPTS_MAX, REDIS_AUDIT_ROWS_MAX, REDIS_PART_ROWS, REMOVALS_MAX, SERIAL_AFTERLIFE,
    SERIALS_SWEPT,
};
use crate::ports::{AuditRow, CatalogStore, Commit, StoreError};
use crate::time::timestamp;

/// What a script made of a change.
pub(super) enum Outcome {
    /// It is done; with the number that the script says of it.
    Done(i64),
    /// A staged change has to be folded in first.
    Fold,
}

impl RedisCatalog {
    /// Applies `commit`; see [`crate::ports::CatalogStore::commit`].
    pub(super) async fn apply(&self, commit: Commit) -> Result<u64, StoreError> {
        if commit.base_version == 0 {
            self.expect_not_emptied(self.head().await?.version).await?;
        }
        let parts = commit.puts.len() + commit.deletes.len() + commit.audit.len();
        let is_small = parts <= REDIS_PART_ROWS;
        if !is_small && !commit.statuses.is_empty() {
            return Err(StoreError::Full(
                "campaigns are not switched by a large change: do it apart",
            ));
        }
        let mark = fresh_mark()?;
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let outcome = if is_small {
                self.commit_at_once(&commit, mark).await?
            } else {
                self.commit_staged(&commit, mark).await?
            };
            match outcome {
                Outcome::Done(version) => return Ok(version.unsigned_abs()),
                Outcome::Fold => fold_all(&self.redis, &self.keys).await?,
            }
        }
        let why = "large changes keep coming first, or one cannot be folded in";
        Err(StoreError::Unavailable(why.to_owned()))
    }

    async fn commit_at_once(&self, commit: &Commit, mark: u64) -> Result<Outcome, StoreError> {
        let keys = [
            "head",
            "objects",
            "ids",
            "owned",
            "versions",
            "removed",
            "statuses",
            "status_versions",
            "log",
            "changes",
            "lines",
            "line_order",
            "ended",
            "serials",
            "buried",
        ];
        let version = commit.base_version + 1;
        let afterlife_us = i64::try_from(SERIAL_AFTERLIFE.as_micros()).unwrap_or(i64::MAX);
        let arguments = |command: &mut Cmd| {
            command
                .arg(commit.base_version)
                .arg(commit.at_us)
                .arg(u8::from(commit.forced))
                .arg(mark)
                .arg(self.keys.prefix())
                .arg(REMOVALS_MAX)
                .arg(REDIS_AUDIT_ROWS_MAX)
                .arg(commit.at_us.saturating_sub(afterlife_us))
                .arg(SERIALS_SWEPT)
                .arg(commit.deletes.len())
                .arg(commit.puts.len())
                .arg(commit.statuses.len())
                .arg(commit.audit.len());
            put_rows(command, commit, 0..commit.deletes.len(), 0..commit.puts.len());
            for (key, status) in &commit.statuses {
                command.arg(key.parts().1).arg(status_code(Some(*status)));
            }
            for line in &commit.audit {
                command.arg(&line.change.id).arg(record(line, version, commit.at_us));
            }
        };
        outcome(&self.run(scripts::commit(), keys, arguments).await?)
    }
}

/// The arguments of deletes and puts, as the scripts take them.
pub(super) fn put_rows(
    command: &mut Cmd,
    commit: &Commit,
    deletes: Range<usize>,
    puts: Range<usize>,
) {
    for key in &commit.deletes[deletes] {
        command.arg(name_of(key));
    }
    for put in &commit.puts[puts] {
        command.arg(name_of(&put.key)).arg(&put.owner).arg(status_code(put.status)).arg(&put.body);
    }
}

/// A line of the audit log as it is kept.
pub(super) fn record(line: &AuditRow, version: u64, at_us: i64) -> Vec<u8> {
    let change = CatalogChange {
        catalog_version: version,
        changed_at: Some(timestamp(at_us)),
        ..line.change.clone()
    };
    let decode = |bytes: &Option<Vec<u8>>| {
        let bytes = bytes.as_ref()?;
        Message::decode(bytes.as_slice()).ok()
    };
    let (before, after) = (decode(&line.before), decode(&line.after));
    ChangeRecord { change: Some(change), before, after }.encode_to_vec()
}

/// A number that no other change has.
pub(super) fn fresh_mark() -> Result<u64, StoreError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Unavailable(format!("random numbers: {error}")))?;
    // 0 stands for any.
    Ok(u64::from_le_bytes(bytes).max(1))
}

/// `{"ok", number}`, `{"conflict", head}`, `{"fold"}`, `{"lapsed"}`
pub(super) fn outcome(reply: &Value) -> Result<Outcome, StoreError> {
    let parts = array(reply)?;
    match (parts.first().map(bytes).transpose()?, parts.get(1)) {
        (Some(b"ok"), Some(value)) => Ok(Outcome::Done(number(value)?)),
        (Some(b"fold"), _) => Ok(Outcome::Fold),
        (Some(b"conflict"), Some(head)) => {
            Err(StoreError::Conflict { head: number(head)?.unsigned_abs() })
        }
        (Some(b"lapsed"), _) => {
            Err(StoreError::Unavailable("the staged change lapsed before it was whole".to_owned()))
        }
        _ => Err(strange(reply)),
    }
}
