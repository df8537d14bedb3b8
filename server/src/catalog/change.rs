//! Changes of single objects: put, delete, and a campaign's switch.

use std::collections::HashSet;

use prost_types::FieldMask;
use slotwise_core::index::{Change, Key};
use slotwise_core::model::Status;
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::{Ad, CatalogChange};

use super::ads::ads_of;
use super::object::{Object, as_stored, encode, record_from, status_from};
use super::plan::{Intent, PlanError, plan};
use super::problem::{CatalogError, Problem};
use super::{Catalog, check, mask};
use crate::limits::COMMIT_ATTEMPTS_MAX;
use crate::ports::{AuditRow, Commit, Head, Row, StoreError};

/// What a status may be set to.
pub const STATUS_WANTED: &str = "must be ACTIVE or PAUSED";

/// What [`Catalog::set_status`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// The version that holds it.
    pub version: u64,
    /// Whether it was otherwise before.
    pub is_new: bool,
}

impl StatusChange {
    /// The version that may have been served before this change was asked for, at most, unless
    /// the store went back.
    pub fn served_before_max(self) -> u64 {
        self.version - u64::from(self.is_new)
    }
}

impl Catalog {
    /// Makes or changes one object: the fields that the mask names; without a mask those that are
    /// set, down to the leaves; with `*` all of them.
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
        if let (true, Record::Campaign(campaign)) = (sets_status, object.clone().into_record())
            && status_from(campaign.status).is_none()
        {
            return Err(CatalogError::refused(Problem::invalid("status", STATUS_WANTED)));
        }
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let (head, current) = self.current(&key).await?;
            expect_version(&key, current.as_ref(), if_version)?;
            // A damaged object is made anew: that is how it is mended.
            let before = current.as_ref().and_then(|row| O::from_record(record_from(row).ok()?));
            let merged = mask::merge(before.clone(), object.clone(), update_mask)?;
            let merged = match (&current, merged.into_record()) {
                (Some(row), Record::Campaign(campaign)) if !sets_status => {
                    as_stored(&Record::Campaign(campaign), row.status)
                }
                (_, record) => record,
            };
            let summary = match before.zip(O::from_record(merged.clone())) {
                Some((before, after)) => {
                    format!("changed: {}", mask::changed_fields(&before, &after))
                }
                None => "created".to_owned(),
            };
            let summary = summary + unserved(&merged);
            let intent = Intent { sets_status, ..Intent::default() };
            let planned = plan(&*self.store, &self.index, &[merged], &intent).await;
            let mut planned = match planned {
                Ok(planned) => planned,
                Err(PlanError::Problems(found)) => {
                    let problems = found.into_iter().map(|numbered| numbered.problem);
                    return Err(CatalogError::Refused(problems.collect()));
                }
                Err(PlanError::Moved) => continue,
                Err(PlanError::Store(error)) => return Err(error.into()),
            };
            if planned.base_version != head.version {
                continue;
            }
            if planned.is_empty() {
                return Ok(change(&key, head.version, 0, "unchanged", actor));
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
            let (mut summary, mut ads) = ("deleted".to_owned(), Vec::new());
            if let Key::Campaign(_) = key {
                ads = ads_of(&*self.store, key.parts().1).await?;
                summary = format!("deleted, with {}", count(ads.len(), "ad"));
            }
            let gone = |row: &Row, summary: &str| AuditRow {
                change: change(&row.key, 0, 0, summary, actor),
                before: audited(row),
                after: None,
            };
            let mut audit = vec![gone(&row, &summary)];
            audit.extend(ads.iter().map(|ad| gone(ad, "deleted with its campaign")));
            let commit = Commit {
                base_version: head.version,
                at_us: self.clock.now_us(),
                // Somebody named it: that it is most of the catalogue is their decision.
                forced: 2 * ads.len() as u64 > head.ads,
                deletes: std::iter::once(row).chain(ads).map(|row| row.key).collect(),
                audit,
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
    /// Waits for no import that is being checked: the commit decides who came first.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing has changed then.
    pub async fn set_status(
        &self,
        key: &Key,
        status: Status,
        actor: &str,
    ) -> Result<StatusChange, CatalogError> {
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let (head, current) = self.current(key).await?;
            let Some(row) = current else { return Err(not_found(key)) };
            if row.status == Some(status) {
                return Ok(StatusChange { version: head.version, is_new: false });
            }
            let after = Row { status: Some(status), ..row.clone() };
            let summary = if status == Status::Paused { "paused" } else { "activated" };
            let audit = AuditRow {
                change: change(key, 0, 0, summary, actor),
                before: audited(&row),
                after: audited(&after),
            };
            let commit = Commit {
                base_version: head.version,
                at_us: self.clock.now_us(),
                statuses: vec![(key.clone(), status)],
                audit: vec![audit],
                ..Commit::default()
            };
            if let Some(done) = self.commit(commit).await? {
                return Ok(StatusChange { version: done.version, is_new: true });
            }
        }
        Err(contended())
    }

    /// How many distinct ads in how many distinct zones a campaign has.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn reach(&self, key: &Key) -> Result<(usize, usize), CatalogError> {
        let (mut ads, mut zones) = (0, HashSet::new());
        for row in ads_of(&*self.store, key.parts().1).await? {
            // What is damaged is not served: nothing of it stops.
            let Some(ad) = record_from(&row).ok().and_then(Ad::from_record) else { continue };
            ads += usize::from(!ad.zones.is_empty());
            zones.extend(ad.zones.into_iter().map(|zone| (zone.site_id, zone.zone_id)));
        }
        Ok((ads, zones.len()))
    }

    async fn current(&self, key: &Key) -> Result<(Head, Option<Row>), StoreError> {
        let (head, rows) = self.store.get(std::slice::from_ref(key)).await?;
        Ok((head, rows.into_iter().next()))
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

/// The object in `row` as the audit log keeps it; nothing where it is damaged.
pub(super) fn audited(row: &Row) -> Option<Vec<u8>> {
    record_from(row).ok().map(encode)
}

/// What a person who puts a campaign must know of this version.
fn unserved(record: &Record) -> &'static str {
    match check::check(record, 0, Status::Active) {
        Ok(Change::Campaign(campaign)) if campaign.has_budget => {
            "; not served, as this version keeps no budgets"
        }
        _ => "",
    }
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
