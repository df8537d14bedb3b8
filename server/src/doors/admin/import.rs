//! Import and Export: the whole catalogue, or a part, as a stream of records.

use std::sync::Arc;

use futures_util::stream::Stream;
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::import_request::Step;
use slotwise_proto::v1::{
    Account, Ad, Campaign, CatalogRecord, ImportProblem, ImportRequest, ImportResponse, Site, Zone,
};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::Admin;
use crate::catalog::{ImportOptions, record_from};
use crate::doors::refusal::Refusal;
use crate::limits::{
    EXPORT_STALL_MAX, EXPORTS_MAX, IMPORT_BYTES_MAX, IMPORT_PROBLEMS_MAX, IMPORT_RECORDS_MAX,
    IMPORT_STALL_MAX,
};
use crate::ports::Row;

pub(super) async fn import(
    admin: &Admin,
    mut steps: Streaming<ImportRequest>,
    actor: &str,
) -> Result<ImportResponse, Status> {
    let _one_at_a_time = admin.importing.acquire().await.map_err(|_| Status::cancelled(""))?;
    let (mut options, mut records, mut bytes) = (ImportOptions::default(), Vec::new(), 0_usize);
    let (mut problems, mut is_first) = (Vec::new(), true);
    while let Some(step) = next(&mut steps).await? {
        match step?.step {
            Some(Step::Options(given)) if is_first => {
                options = ImportOptions {
                    replace: given.replace,
                    force: given.force,
                    validate_only: given.validate_only,
                };
            }
            Some(Step::Options(_)) => {
                return Err(Refusal::invalid("options", "must come before all records").into());
            }
            Some(Step::Record(CatalogRecord { record: Some(record) })) => {
                bytes += size_of::<Record>() + record.encoded_len();
                records.push(record);
            }
            Some(Step::Record(CatalogRecord { record: None })) | None => {
                let number = records.len() + problems.len() + 1;
                problems.push(ImportProblem {
                    record_number: u32::try_from(number).unwrap_or(u32::MAX),
                    field: "record".to_owned(),
                    message: "holds no account, site, zone, campaign or ad".to_owned(),
                });
            }
        }
        is_first = false;
        if records.len() + problems.len() > IMPORT_RECORDS_MAX || bytes > IMPORT_BYTES_MAX {
            let problem = format!(
                "are more than {IMPORT_RECORDS_MAX}, or than {IMPORT_BYTES_MAX} bytes; import in parts"
            );
            return Err(Refusal::invalid("records", problem).into());
        }
    }
    let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    let read = count(records.len() + problems.len());
    if !problems.is_empty() {
        let problem_count = count(problems.len());
        problems.truncate(IMPORT_PROBLEMS_MAX);
        let catalog_version = admin.served.borrow().version;
        return Ok(ImportResponse { catalog_version, records: read, problems, problem_count });
    }
    let outcome = admin.catalog.import(records, options, actor).await?;
    Ok(ImportResponse {
        catalog_version: outcome.version,
        records: read,
        problems: outcome.problems,
        problem_count: outcome.problem_count,
    })
}

/// The next step; an import that stalls is given up, as others wait for their turn.
async fn next(
    steps: &mut Streaming<ImportRequest>,
) -> Result<Option<Result<ImportRequest, Status>>, Status> {
    let step = tokio::time::timeout(IMPORT_STALL_MAX, steps.next()).await;
    step.map_err(|_| Status::deadline_exceeded("the import was given up: nothing comes any more"))
}

/// Every record at one version, in an order in which each comes after what it names.
pub(super) fn export(
    admin: &Admin,
) -> Result<impl Stream<Item = Result<CatalogRecord, Status>> + use<>, Refusal> {
    let slot = Arc::clone(&admin.exporting).try_acquire_owned().map_err(|_| {
        Refusal::unavailable(format!("{EXPORTS_MAX} exports are under way; try again later"))
    })?;
    let (sender, records) = mpsc::channel(256);
    let store = Arc::clone(admin.catalog.store());
    tokio::spawn(async move {
        let _slot = slot;
        let (parts, rows) = mpsc::channel::<Vec<Row>>(1);
        // The receiver moves in, so that a caller who has gone, or takes nothing, ends the load.
        let (loaded, sent) = tokio::join!(store.load(parts), send(rows, &sender));
        let end = sent.and_then(|()| loaded.map_err(|error| Refusal::from(error).into()));
        if let Err(status) = end {
            // Waits for the caller as long as it takes: an export that was given up must never
            // look like a whole one.
            let _ = sender.send(Err(status)).await;
        }
    });
    Ok(ReceiverStream::new(records))
}

async fn send(
    mut rows: mpsc::Receiver<Vec<Row>>,
    sender: &mpsc::Sender<Result<CatalogRecord, Status>>,
) -> Result<(), Status> {
    while let Some(part) = rows.recv().await {
        for row in part {
            let record = record_from(&row).map(unversioned).map_err(|error| {
                Status::data_loss(format!("{} {}: {error}", row.key.kind(), row.key))
            })?;
            let sent = sender.send_timeout(Ok(record), EXPORT_STALL_MAX).await;
            sent.map_err(|_| Status::unavailable("the export was given up: nobody takes it"))?;
        }
    }
    Ok(())
}

/// Two catalogues that are the same export the same, whatever their histories.
fn unversioned(record: Record) -> CatalogRecord {
    let record = match record {
        Record::Account(object) => Record::Account(Account { version: 0, ..object }),
        Record::Site(object) => Record::Site(Site { version: 0, ..object }),
        Record::Zone(object) => Record::Zone(Zone { version: 0, ..object }),
        Record::Campaign(object) => Record::Campaign(Campaign { version: 0, ..object }),
        Record::Ad(object) => Record::Ad(Ad { version: 0, ..object }),
    };
    CatalogRecord { record: Some(record) }
}
