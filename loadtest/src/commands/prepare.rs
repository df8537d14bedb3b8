//! `prepare`: the catalogue of a load, into the server or a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;

use anyhow::Context;
use slotwise_client::stubs::CatalogServiceClient;
use slotwise_client::v1::import_request::Step;
use slotwise_client::v1::{ImportOptions, ImportRequest, ListNodesRequest};
use slotwise_client::{Catalog, Options};
use slotwise_proto::json;

use crate::cli::Prepare;
use crate::limits::SERVED_MAX;
use crate::workload::{Catalogue, records};

/// How often it is asked whether the catalogue is served.
const ASK_AGAIN: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &Prepare) -> anyhow::Result<()> {
    let catalogue = Catalogue::new(&args.shape)?;
    if let Some(path) = &args.write {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        let mut out = BufWriter::new(file);
        for record in records::records(&catalogue) {
            writeln!(out, "{}", json::to_string(&record))?;
        }
        return Ok(out.flush()?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let said = runtime.block_on(import(args.doors.admin_addr, catalogue))?;
    println!("{said}");
    Ok(())
}

/// Imports the catalogue, and returns when every node serves it. What is there and not in it goes.
pub(crate) async fn import(
    admin: std::net::SocketAddr,
    catalogue: Catalogue,
) -> anyhow::Result<String> {
    let options = Options::parse([admin.to_string()])?;
    let client = Catalog::connect(&options).await?;
    let shape = catalogue.shape.clone();
    let steps = all_steps(catalogue);
    let answer = client.send(steps, async |stub, steps| stub.import(steps).await).await?;
    if let Some(problem) = answer.problems.first() {
        anyhow::bail!(
            "{} records were refused; record {}: {}: {}",
            answer.problem_count,
            problem.record_number,
            problem.field,
            problem.message
        );
    }
    let version = answer.catalog_version;
    served(&client, version).await?;
    Ok(format!(
        "prepared {} zones of {} ads, {} campaigns, every second one with a cap: catalogue version {version}",
        shape.zones, shape.ads, shape.campaigns
    ))
}

fn all_steps(catalogue: Catalogue) -> impl tokio_stream::Stream<Item = ImportRequest> {
    // Whatever else is there goes: a load is measured on what it was made for.
    let options = ImportOptions { replace: true, force: true, validate_only: false };
    let (sender, receiver) = tokio::sync::mpsc::channel(RECORDS_AHEAD);
    std::thread::spawn(move || {
        let first = std::iter::once(Step::Options(options));
        for step in first.chain(records::records(&catalogue).map(Step::Record)) {
            // Nobody takes it any more: the call has ended, and says why.
            if sender.blocking_send(ImportRequest { step: Some(step) }).is_err() {
                return;
            }
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(receiver)
}

/// Records that are made before they are sent.
const RECORDS_AHEAD: usize = 1_024;

/// Waits until every node that lives has `version`.
async fn served(client: &Catalog, version: u64) -> anyhow::Result<()> {
    let until = std::time::Instant::now() + SERVED_MAX;
    loop {
        let ask = ListNodesRequest::default();
        let nodes = client.call(ask, CatalogServiceClient::list_nodes).await?.nodes;
        if !nodes.is_empty() && nodes.iter().all(|node| node.catalog_version >= version) {
            return Ok(());
        }
        anyhow::ensure!(
            std::time::Instant::now() < until,
            "version {version} is stored, but not served by every node after {SERVED_MAX:?}"
        );
        tokio::time::sleep(ASK_AGAIN).await;
    }
}
