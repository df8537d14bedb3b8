//! Large changes: staged part by part where no reader looks, made visible by one flip of the
//! head, and folded into the objects afterwards, a little at a time.

use std::ops::Range;
use std::sync::Arc;

use redis::Cmd;
use slotwise_proto::v1::CatalogChange;

use super::catalog::RedisCatalog;
use super::commit::{Outcome, fresh_mark, outcome, put_rows, record};
use super::keys::{Keys, array, number};
use super::scripts;
use super::server::Redis;
use crate::limits::{
    REDIS_AUDIT_ROWS_MAX, REDIS_FOLD_ROWS, REDIS_PART_ROWS, REDIS_STAGE_LIFE, REMOVALS_MAX,
    SERIAL_AFTERLIFE,
};
use crate::ports::{AuditRow, Commit, StoreError};

/// A change on its way, under a name that nobody else has.
pub(super) struct Stage(u64);

/// What the flip of a staged change says.
pub(super) struct Flip {
    pub(super) base: u64,
    pub(super) version: u64,
    /// By how much the number of ads changes.
    pub(super) ads: i64,
    pub(super) forced: bool,
    pub(super) mark: u64,
    pub(super) at_us: i64,
    /// What was staged, so that a part that was lost is missed.
    pub(super) rows: i64,
    pub(super) lines: usize,
    /// The change's own line of the audit log: the object's id, and the record.
    pub(super) line: (String, Vec<u8>),
}

/// What one script stages.
#[derive(Default)]
struct Part {
    deletes: Range<usize>,
    puts: Range<usize>,
    lines: Range<usize>,
}

impl Stage {
    pub(super) fn new() -> Result<Self, StoreError> {
        Ok(Self(fresh_mark()?))
    }

    pub(super) fn rows(&self) -> String {
        format!("stage:{:016x}:rows", self.0)
    }

    fn lines(&self) -> String {
        format!("stage:{:016x}:lines", self.0)
    }
}

/// `commit` in parts; its own line of the audit log is left out, as the flip brings it.
fn parts(commit: &Commit) -> Vec<Part> {
    let cut = |from: usize, to: usize| {
        (from..to).step_by(REDIS_PART_ROWS).map(move |at| at..(at + REDIS_PART_ROWS).min(to))
    };
    let deletes = cut(0, commit.deletes.len()).map(|deletes| Part { deletes, ..Part::default() });
    let puts = cut(0, commit.puts.len()).map(|puts| Part { puts, ..Part::default() });
    let lines = cut(1, commit.audit.len()).map(|lines| Part { lines, ..Part::default() });
    deletes.chain(puts).chain(lines).collect()
}

impl RedisCatalog {
    /// Applies a change of any size but of no switches.
    pub(super) async fn commit_staged(
        &self,
        commit: &Commit,
        mark: u64,
    ) -> Result<Outcome, StoreError> {
        // Also finds, before anything is visible, what would keep this change from being folded in.
        fold_all(&self.redis, &self.keys).await?;
        let (version, stage) = (commit.base_version + 1, Stage::new()?);
        let outcome = self.stage_and_flip(commit, mark, version, &stage).await;
        if !matches!(outcome, Ok(Outcome::Done(_))) {
            self.drop_stage(&stage).await;
        }
        outcome
    }

    async fn stage_and_flip(
        &self,
        commit: &Commit,
        mark: u64,
        version: u64,
        stage: &Stage,
    ) -> Result<Outcome, StoreError> {
        let names = ["head", "objects", "ids", "owned", &stage.rows(), &stage.lines()];
        let (mut ads, mut rows) = (0, 0);
        for part in parts(commit) {
            let arguments = |command: &mut Cmd| {
                command
                    .arg(commit.base_version)
                    .arg(REDIS_STAGE_LIFE.as_secs() * 1_000)
                    .arg(part.deletes.len())
                    .arg(part.puts.len())
                    .arg(part.lines.len());
                put_rows(command, commit, part.deletes, part.puts);
                for line in &commit.audit[part.lines] {
                    command.arg(&line.change.id).arg(record(line, version, commit.at_us));
                }
            };
            let reply = self.run(scripts::stage(), names, arguments).await?;
            match outcome(&reply)? {
                Outcome::Done(change) => ads += change,
                Outcome::Fold => return Ok(Outcome::Fold),
            }
            rows += array(&reply)?.get(2).map(number).transpose()?.unwrap_or(0);
        }
        let nameless = AuditRow { change: CatalogChange::default(), before: None, after: None };
        let line = commit.audit.first().unwrap_or(&nameless);
        let flip = Flip {
            base: commit.base_version,
            version,
            ads,
            forced: commit.forced,
            mark,
            at_us: commit.at_us,
            rows,
            lines: commit.audit.len().saturating_sub(1),
            line: (line.change.id.clone(), record(line, version, commit.at_us)),
        };
        self.flip(stage, flip, |_| {}).await
    }

    /// Makes room at once; what cannot be dropped lapses.
    pub(super) async fn drop_stage(&self, stage: &Stage) {
        let mut drop = redis::cmd("UNLINK");
        drop.arg(self.keys.one(&stage.rows())).arg(self.keys.one(&stage.lines()));
        if let Err(error) = self.call(&drop).await {
            tracing::debug!(%error, "a staged change lapses by itself");
        }
    }

    /// Makes what was staged visible; `more` adds what a refill brings beside.
    pub(super) async fn flip(
        &self,
        stage: &Stage,
        flip: Flip,
        more: impl FnOnce(&mut Cmd),
    ) -> Result<Outcome, StoreError> {
        let (rows, lines) = (stage.rows(), stage.lines());
        let names = [
            "head",
            "overlay",
            "overlay_lines",
            &rows,
            &lines,
            "log",
            "changes",
            "lines",
            "secrets",
        ];
        let arguments = |command: &mut Cmd| {
            command
                .arg(flip.base)
                .arg(flip.version)
                .arg(flip.ads)
                .arg(u8::from(flip.forced))
                .arg(flip.mark)
                .arg(self.keys.prefix())
                .arg(flip.at_us)
                .arg(flip.line.0)
                .arg(flip.line.1)
                .arg(flip.rows)
                .arg(flip.lines);
            more(command);
        };
        let outcome = outcome(&self.run(scripts::flip(), names, arguments).await?)?;
        if let Outcome::Done(_) = outcome {
            self.fold_aside();
        }
        Ok(outcome)
    }

    /// Folds in what was flipped, while nobody waits for it; whoever finds it undone goes on.
    fn fold_aside(&self) {
        let (redis, keys) = (Arc::downgrade(&self.redis), Arc::clone(&self.keys));
        self.redis.runtime().spawn(async move {
            let folded = match redis.upgrade() {
                Some(redis) => fold_all(&redis, &keys).await,
                None => Ok(()),
            };
            if let Err(error) = folded {
                tracing::warn!(%error, "a large change is not folded in yet; the next change will");
            }
        });
    }
}

/// Folds in all that is flipped and not folded in.
pub(super) async fn fold_all(redis: &Redis, keys: &Keys) -> Result<(), StoreError> {
    let keys = keys.all([
        "head",
        "overlay",
        "overlay_lines",
        "objects",
        "ids",
        "owned",
        "versions",
        "removed",
        "statuses",
        "status_versions",
        "ended",
        "log",
        "lines",
        "line_order",
        "serials",
        "buried",
    ]);
    loop {
        let arguments = |command: &mut Cmd| {
            command
                .arg(REDIS_FOLD_ROWS)
                .arg(REMOVALS_MAX)
                .arg(REDIS_AUDIT_ROWS_MAX)
                .arg(i64::try_from(SERIAL_AFTERLIFE.as_micros()).unwrap_or(i64::MAX));
        };
        let left = redis.run(redis.prefix(), scripts::fold(), &keys, arguments).await?;
        if number(&left)? == 0 {
            return Ok(());
        }
    }
}
