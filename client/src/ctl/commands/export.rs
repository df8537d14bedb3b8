//! `export`: the whole catalogue as NDJSON, to standard output or to a file that appears whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use slotwise_proto::v1::ExportRequest;
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use tempfile::NamedTempFile;

use super::Context;
use crate::ctl::cli::bulk::Export;
use crate::ctl::error::Error;
use crate::ctl::output::json_line;
use crate::ctl::text;

pub(super) async fn run(context: &mut Context, args: Export) -> Result<(), Error> {
    let Some(path) = args.file.filter(|path| path != Path::new("-")) else {
        let mut stdout = BufWriter::new(io::stdout());
        write_all(context, &mut stdout, Error::output).await?;
        return Ok(());
    };
    let name = path.display().to_string();
    // A link is followed: the file that it names is replaced, not the link.
    let target = fs::canonicalize(&path).unwrap_or(path);
    let records = if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        // A pipe or a device is written to; only files are replaced.
        let mut sink = File::create(&target).map_err(Error::io(&name))?;
        write_all(context, &mut sink, |e| Error::io(&name)(e)).await?
    } else {
        replace(context, &target, &name).await?
    };
    if context.out.is_json() {
        return Ok(());
    }
    context.out.line(&format!("exported {} to {name}", text::count(records, "record")))
}

/// Writes beside the file, then renames: nobody sees half a catalogue, whatever fails.
async fn replace(context: &Context, target: &Path, name: &str) -> Result<u64, Error> {
    let failed = || Error::io(name);
    let directory = match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".slotwisectl-export-");
    readable_by_umask(&mut builder);
    let beside: NamedTempFile = builder.tempfile_in(directory).map_err(failed())?;
    let mut sink = BufWriter::new(beside);
    let records = write_all(context, &mut sink, |e| failed()(e)).await?;
    let beside = sink.into_inner().map_err(|e| e.into_error()).map_err(failed())?;
    beside.as_file().sync_all().map_err(failed())?;
    beside.persist(target).map_err(|e| failed()(e.error))?;
    Ok(records)
}

/// Temporary files are private; an export is a file like any other.
fn readable_by_umask(builder: &mut tempfile::Builder<'_, '_>) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    #[cfg(not(unix))]
    let _ = builder;
}

/// Writes every record as a line, and returns how many there were.
async fn write_all(
    context: &Context,
    sink: &mut impl Write,
    failed: impl Fn(io::Error) -> Error,
) -> Result<u64, Error> {
    let catalog = context.catalog().await?;
    let mut records = catalog.open(ExportRequest {}, CatalogServiceClient::export).await?;
    let mut count = 0;
    while let Some(record) = records.message().await.map_err(|e| catalog.failure(e))? {
        sink.write_all(json_line(&record).as_bytes()).map_err(&failed)?;
        count += 1;
    }
    sink.flush().map_err(&failed)?;
    Ok(count)
}
