//! Many objects at once, all or nothing.

use slotwise_proto::v1::ImportProblem;
use slotwise_proto::v1::catalog_record::Record;

use super::change::{contended, count};
use super::object::key_of;
use super::plan::{Intent, Numbered, PlanError, plan};
use super::problem::CatalogError;
use super::{Catalog, Problem};
use crate::limits::{COMMIT_ATTEMPTS_MAX, IMPORT_PROBLEMS_MAX};

/// How an import is meant.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions {
    /// What it does not name is deleted.
    pub replace: bool,
    /// More than half of the ads may go.
    pub force: bool,
    /// Only checked, not written.
    pub validate_only: bool,
}

/// What became of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOutcome {
    /// The version that holds it; the head where nothing changed.
    pub version: u64,
    /// At most [`IMPORT_PROBLEMS_MAX`]. Not empty: nothing has changed.
    pub problems: Vec<ImportProblem>,
    /// How many there are in all.
    pub problem_count: u32,
}

impl Catalog {
    /// Writes `records`, each whole but for a campaign's status.
    ///
    /// # Errors
    /// See [`CatalogError`]. Problems of the records are no error but the outcome.
    pub async fn import(
        &self,
        records: Vec<Record>,
        options: ImportOptions,
        actor: &str,
    ) -> Result<ImportOutcome, CatalogError> {
        let _one_at_a_time = self.writing.lock().await;
        let intent = Intent { replace: options.replace, force: options.force, sets_status: false };
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let planned = plan(&*self.store, &self.index, &records, &intent).await;
            let mut planned = match planned {
                Ok(planned) => planned,
                Err(PlanError::Problems(found)) => return refused(self, found, &records).await,
                Err(PlanError::Moved) => continue,
                Err(PlanError::Store(error)) => return Err(error.into()),
            };
            if options.validate_only || planned.is_empty() {
                let version = planned.base_version;
                return Ok(ImportOutcome { version, ..ImportOutcome::default() });
            }
            let summary = format!(
                "{} added, {} changed, {} deleted",
                planned.added,
                planned.changed,
                planned.deletes.len()
            );
            planned.head_line("import", "", &summary, actor);
            if let Some(done) = self.commit(planned.into_commit(self.clock.now_us())).await? {
                let records = count(records.len(), "record");
                tracing::info!(version = done.version, records, summary, "imported");
                return Ok(ImportOutcome { version: done.version, ..ImportOutcome::default() });
            }
        }
        Err(contended())
    }
}

async fn refused(
    catalog: &Catalog,
    found: Vec<Numbered>,
    records: &[Record],
) -> Result<ImportOutcome, CatalogError> {
    // About the import as a whole, not about a record of it.
    if let Some(whole) = found.iter().find(|numbered| numbered.record_number == 0) {
        return Err(CatalogError::refused(whole.problem.clone()));
    }
    let name = |Numbered { record_number, problem: Problem { field, message, .. } }| {
        let record = records.get(record_number as usize - 1);
        let kind = record.map_or("", |record| key_of(record).kind());
        ImportProblem { record_number, field: format!("{kind}.{field}"), message }
    };
    Ok(ImportOutcome {
        version: catalog.store.head().await?.version,
        problem_count: u32::try_from(found.len()).unwrap_or(u32::MAX),
        problems: found.into_iter().take(IMPORT_PROBLEMS_MAX).map(name).collect(),
    })
}
