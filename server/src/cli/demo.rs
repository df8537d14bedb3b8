//! The sample catalogue of `serve --demo`.

use slotwise_proto::json;
use slotwise_proto::v1::CatalogRecord;

use crate::app::App;
use crate::catalog::ImportOptions;
use crate::refresh::wait_for_version;

/// One record a line, as `slotwisectl import` takes it.
const CATALOG: &str = include_str!("../../demo/catalog.ndjson");

/// Imports the sample into an empty catalogue; what is there stays as it is.
pub(super) async fn import(app: &App) -> anyhow::Result<()> {
    if app.admin.served.borrow().version > 0 {
        tracing::info!("there is a catalogue already; the sample is left out");
        return Ok(());
    }
    let records = CATALOG.lines().map(json::from_str::<CatalogRecord>);
    let records = records.collect::<Result<Vec<_>, _>>()?;
    let records = records.into_iter().filter_map(|record| record.record).collect();
    let done = app.admin.catalog.import(records, ImportOptions::default(), "demo").await?;
    let problems = done.problems.iter().map(|p| format!("{}: {}", p.field, p.message));
    let problems: Vec<_> = problems.collect();
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("; "));
    let wait = crate::limits::STATUS_WAIT_MAX;
    let is_served = wait_for_version(&mut app.admin.served.clone(), done.version, wait).await;
    anyhow::ensure!(is_served, "it is stored, but not served within {wait:?}");
    Ok(())
}
