//! Changes of single objects: put, delete, and a campaign's switch.

use std::collections::HashSet;

use prost_types::FieldMask;
use slotwise_core::index::Key;
use slotwise_core::model::Status;
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::{Ad, CatalogChange};

use super::ads::ads_of;
use super::object::{Object, encode, key_of, record_from, status_from};
use super::plan::{Intent, PlanError, plan};
use super::problem::{CatalogError, Problem};
use super::{Catalog, mask};
use crate::limits::COMMIT_ATTEMPTS_MAX;
use crate::ports::{AuditRow, Commit, Row, StoreError};

/// What [`Catalog::set_status`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// The version that holds it.
    pub version: u64,
    /// Distinct ads that stop or start serving; 0 when nothing changed.
    pub ads: usize,
    /// Distinct zones that they are in.
    pub zones: usize,
}

impl Catalog {
    /// Makes or changes one object; see [`mask::merge`] for what of it.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing has changed then.
    pub async fn put<O: Object>(
        &self,
        object: O,
        update_mask: Option<&FieldMask>,
        if_version: u64,
        actor: &str,
    ) -> Result<CatalogChange, CatalogError> {
        let _one_at_a_time = self.writing.lock().await;
        let key = object.key();
        let sets_status = update_mask.is_some_and(|m| m.paths.iter().any(|p| p == "status"));
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let (head, current) = self.current(&key).await?;
            expect_version(&key, current.as_ref(), if_version)?;
            let before = match &current {
                Some(row) => O::from_record(stored(row)?),
                None => None,
            };
            let merged = mask::merge(before.clone(), object.clone(), update_mask)?;
            let summary = match &before {
                Some(before) => format!("changed: {}", mask::changed_fields(before, &merged)),
                None => "created".to_owned(),
            };
            let intent = Intent { sets_status, ..Intent::default() };
            let planned =
                plan(&*self.store, &self.index, vec![merged.into_record()], &intent).await;
            let mut planned = match planned {
                Ok(planned) => planned,
                Err(PlanError::Problems(found)) => {
                    let problems = found.into_iter().map(|numbered| numbered.problem);
                    return Err(CatalogError::Refused(problems.collect()));
                }
                Err(PlanError::Moved) => continue,
                Err(PlanError::Store(error)) => return Err(error.into()),
            };
            if planned.base_version != head {
                continue;
            }
            if planned.is_empty() {
                return Ok(change(&key, head, 0, "unchanged", actor));
            }
            planned.head_line(key.kind(), &key.to_string(), &summary, actor);
            if let Some(done) = self.commit(planned.into_commit(self.clock.now_us())).await? {
                return Ok(change(&key, done.version, done.at_us, &summary, actor));
            }
        }
        Err(contended())
    }

    /// Removes the object of `key`; a campaign's ads go with it.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing has changed then.
    pub async fn delete(
        &self,
        key: &Key,
        if_version: u64,
        actor: &str,
    ) -> Result<CatalogChange, CatalogError> {
        let _one_at_a_time = self.writing.lock().await;
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let (head, current) = self.current(key).await?;
            let Some(row) = current else { return Err(not_found(key)) };
            expect_version(key, Some(&row), if_version)?;
            let mut deletes = vec![key.clone()];
            let mut summary = "deleted".to_owned();
            if let Key::Campaign(_) = key {
                let ads = ads_of(&*self.store, key.parts().1).await?;
                deletes.extend(ads.into_iter().map(|row| row.key));
                summary = format!("deleted, with {}", count(deletes.len() - 1, "ad"));
            }
            let line = change(key, 0, 0, &summary, actor);
            let before = Some(encode(stored(&row)?));
            let commit = Commit {
                base_version: head,
                at_us: self.clock.now_us(),
                deletes,
                // Somebody named it: that it may be most of the catalogue is their decision.
                forced: true,
                audit: vec![AuditRow { change: line, before, after: None }],
                ..Commit::default()
            };
            if let Some(done) = self.commit(commit).await? {
                return Ok(change(key, done.version, done.at_us, &summary, actor));
            }
        }
        Err(contended())
    }

    /// Switches a campaign on or off. Asked for what already is, it changes nothing and says the
    /// version at which that holds.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing has changed then.
    pub async fn set_status(
        &self,
        key: &Key,
        status_code: i32,
        actor: &str,
    ) -> Result<StatusChange, CatalogError> {
        let Some(status) = status_from(status_code) else {
            let problem = Problem::invalid("status", "must be ACTIVE or PAUSED");
            return Err(CatalogError::refused(problem));
        };
        let _one_at_a_time = self.writing.lock().await;
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let (head, current) = self.current(key).await?;
            let Some(row) = current else { return Err(not_found(key)) };
            if row.status == Some(status) {
                return Ok(StatusChange { version: head, ads: 0, zones: 0 });
            }
            let after = Row { status: Some(status), ..row.clone() };
            let summary = if status == Status::Paused { "paused" } else { "activated" };
            let audit = AuditRow {
                change: change(key, 0, 0, summary, actor),
                before: Some(encode(stored(&row)?)),
                after: Some(encode(stored(&after)?)),
            };
            let commit = Commit {
                base_version: head,
                at_us: self.clock.now_us(),
                statuses: vec![(key.clone(), status)],
                audit: vec![audit],
                ..Commit::default()
            };
            if let Some(done) = self.commit(commit).await? {
                return self.reach(key, done.version).await;
            }
        }
        Err(contended())
    }

    /// How many ads in how many zones a campaign has.
    async fn reach(&self, key: &Key, version: u64) -> Result<StatusChange, CatalogError> {
        let (mut ads, mut zones) = (0, HashSet::new());
        for row in ads_of(&*self.store, key.parts().1).await? {
            let Some(ad) = Ad::from_record(stored(&row)?) else { continue };
            ads += usize::from(!ad.zones.is_empty());
            zones.extend(ad.zones.into_iter().map(|zone| (zone.site_id, zone.zone_id)));
        }
        Ok(StatusChange { version, ads, zones: zones.len() })
    }

    async fn current(&self, key: &Key) -> Result<(u64, Option<Row>), StoreError> {
        let (head, rows) = self.store.get(std::slice::from_ref(key)).await?;
        Ok((head.version, rows.into_iter().next()))
    }

    /// Commits; nothing when another change came first.
    pub(super) async fn commit(&self, commit: Commit) -> Result<Option<Done>, StoreError> {
        let at_us = commit.at_us;
        match self.store.commit(commit).await {
            Ok(version) => Ok(Some(Done { version, at_us })),
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A commit that is stored.
pub(super) struct Done {
    pub(super) version: u64,
    at_us: i64,
}

/// The object in `row`; a row that is not one is the store's fault, not the caller's.
pub(super) fn stored(row: &Row) -> Result<Record, StoreError> {
    record_from(row).map_err(|error| {
        StoreError::Unavailable(format!("{} {} is damaged: {error}", row.key.kind(), row.key))
    })
}

pub(super) fn contended() -> CatalogError {
    CatalogError::Aborted("other changes kept coming first; try again".to_owned())
}

pub(super) fn count(len: usize, noun: &str) -> String {
    format!("{len} {noun}{}", if len == 1 { "" } else { "s" })
}

pub(super) fn not_found(key: &Key) -> CatalogError {
    CatalogError::NotFound { kind: key.kind(), id: key.to_string() }
}

fn expect_version(key: &Key, row: Option<&Row>, if_version: u64) -> Result<(), CatalogError> {
    let version = row.map_or(0, |row| row.version);
    if if_version == 0 || if_version == version {
        return Ok(());
    }
    let kind = key.kind();
    let now = match row {
        Some(_) => format!("is at version {version}"),
        None => "is not there".to_owned(),
    };
    Err(CatalogError::Aborted(format!("if_version is {if_version}, but {kind} {key} {now}")))
}

fn change(key: &Key, version: u64, at_us: i64, summary: &str, actor: &str) -> CatalogChange {
    CatalogChange {
        catalog_version: version,
        changed_at: (at_us != 0).then(|| crate::time::timestamp(at_us)),
        kind: key.kind().to_owned(),
        id: key.to_string(),
        summary: summary.to_owned(),
        actor: actor.to_owned(),
    }
}

/// Names of objects in a plan, as its audit lines say them.
pub(super) fn name_of(record: &Record) -> (String, String) {
    let key = key_of(record);
    (key.kind().to_owned(), key.to_string())
}
