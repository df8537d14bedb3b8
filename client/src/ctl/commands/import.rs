//! `import`: a file into the catalogue, all or nothing.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use slotwise_proto::v1::import_request::Step;
use slotwise_proto::v1::{ImportOptions, ImportRequest, ImportResponse};
use tokio::sync::oneshot;
use tokio_stream::{Stream, StreamExt};

use super::Context;
use crate::ctl::cli::bulk::Import;
use crate::ctl::error::Error;
use crate::ctl::output::{note, problem};
use crate::ctl::spool::{self, Problems, Spool};
use crate::ctl::{input, text};

/// The bar moves once for so many lines: drawing must not cost more than reading.
const PROGRESS_STEP: u64 = 512;

pub(super) async fn run(context: &mut Context, args: Import) -> Result<(), Error> {
    let name = args.file.display().to_string();
    let reading = bar("reading", None);
    let source = input::open(&args.file)?;
    let read = spool::read(&name, source, |line| {
        if line.is_multiple_of(PROGRESS_STEP) {
            reading.set_position(line);
        }
    });
    reading.finish_and_clear();
    let spool = match read? {
        Ok(spool) => spool,
        Err(problems) => return Err(bad_file(&name, &problems)),
    };
    let lines = spool.lines();
    let answer = send(context, &args, spool).await?;
    if context.out.is_json() {
        context.out.message(&answer)?;
    }
    if !answer.problems.is_empty() || answer.problem_count > 0 {
        return Err(refused(&name, &lines, &answer));
    }
    if context.out.is_json() {
        return Ok(());
    }
    let (records, version) = (text::count(answer.records, "record"), answer.catalog_version);
    context.out.line(&match args.check {
        true => {
            format!("checked {records}: good, nothing was changed (catalogue version {version})")
        }
        false => format!("imported {records}: catalogue version {version}"),
    })
}

/// Sends all records, and returns the server's answer.
async fn send(context: &Context, args: &Import, spool: Spool) -> Result<ImportResponse, Error> {
    let catalog = context.catalog().await?;
    let options =
        ImportOptions { replace: args.replace, force: args.force, validate_only: args.check };
    let options = ImportRequest { step: Some(Step::Options(options)) };
    let sending = bar("sending", Some(spool.len() as u64));
    let (failed_sender, failed) = oneshot::channel();
    let feed = Feed { spool, sent: 0, bar: sending.clone(), failed: Some(failed_sender) };
    let stream = tokio_stream::once(options).chain(feed);
    let outcome = tokio::select! {
        answer = catalog.send(stream, async |stub, steps| stub.import(steps).await) => answer,
        Ok(failure) = failed => Err(Error::io("temporary file")(failure)),
    };
    sending.finish_and_clear();
    outcome
}

/// The records on their way. Ends only when all were given out: after a failure it waits for
/// ever, as an end would tell the server that the part it has is the whole.
struct Feed {
    spool: Spool,
    sent: u64,
    bar: ProgressBar,
    failed: Option<oneshot::Sender<std::io::Error>>,
}

impl Stream for Feed {
    type Item = ImportRequest;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<ImportRequest>> {
        match self.spool.next() {
            Ok(None) => Poll::Ready(None),
            Ok(Some(record)) => {
                self.sent += 1;
                if self.sent.is_multiple_of(PROGRESS_STEP) {
                    self.bar.set_position(self.sent);
                }
                Poll::Ready(Some(ImportRequest { step: Some(Step::Record(record)) }))
            }
            Err(failure) => {
                if let Some(failed) = self.failed.take() {
                    let _ = failed.send(failure);
                }
                Poll::Pending
            }
        }
    }
}

/// Prints what is wrong with the lines of a file that was not sent.
fn bad_file(name: &str, problems: &Problems) -> Error {
    for (line, what) in &problems.shown {
        problem(&format!("{name}:{line}"), what);
    }
    cut(problems.shown.len() as u64, problems.count);
    let count = text::count(problems.count, "problem");
    Error::Input(format!("{count} in {name}: nothing was sent"))
}

/// Prints the server's problems, each with its line.
fn refused(name: &str, lines: &[u64], answer: &ImportResponse) -> Error {
    for found in &answer.problems {
        let place = place(name, lines, found.record_number);
        match found.field.as_str() {
            "" => problem(&place, &found.message),
            field => problem(&place, &format!("{field}: {}", found.message)),
        }
    }
    let shown = answer.problems.len() as u64;
    let count = u64::from(answer.problem_count).max(shown);
    cut(shown, count);
    Error::Input(format!("{} in {name}: nothing was changed", text::count(count, "problem")))
}

/// Where record `number`, counted from 1 in the order sent, stands; a problem of the whole
/// import has no record.
fn place(name: &str, lines: &[u64], number: u32) -> String {
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    match index.and_then(|index| lines.get(index)) {
        Some(line) => format!("{name}:{line}"),
        None => name.to_owned(),
    }
}

fn cut(shown: u64, count: u64) {
    if shown < count {
        note(&format!("and {} more", text::count(count - shown, "problem")));
    }
}

/// A progress bar on a terminal, else nothing.
pub(super) fn bar(doing: &'static str, length: Option<u64>) -> ProgressBar {
    // indicatif draws nothing where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    let template = match length {
        Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} records",
        None => "{msg} {human_pos} lines",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.with_message(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_number_leads_to_its_line() {
        assert_eq!(place("f.ndjson", &[1, 4, 5], 2), "f.ndjson:4");
        assert_eq!(place("f.ndjson", &[1, 4, 5], 0), "f.ndjson");
        assert_eq!(place("f.ndjson", &[1, 4, 5], 9), "f.ndjson");
    }
}
