//! `replay`: files of events, checked whole and then sent, each line counted once.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use indicatif::ProgressBar;
use slotwise_proto::v1::{ReplayEventsRequest, ReplayEventsResponse, ReplayedEvent};
use tokio::sync::oneshot;
use tokio_stream::Stream;

use super::Context;
use super::import::bar;
use crate::ctl::cli::reports::{FileFormat, Replay};
use crate::ctl::connect::Replays;
use crate::ctl::error::Error;
use crate::ctl::events::{Bad, Events, Names};
use crate::ctl::output::{note, problem};
use crate::ctl::text;

/// Events of one message: half of what the server takes.
const BATCH: usize = 500;
/// Problems of one file that are told one by one; all are counted.
const PROBLEMS_MAX: usize = 100;
/// The bar moves once for so many lines: drawing must not cost more than reading.
const PROGRESS_STEP: u64 = 512;

/// A file that was read to its end without a fault.
struct Checked {
    path: PathBuf,
    format: FileFormat,
    sha256: [u8; 32],
    events: u64,
}

pub(super) async fn run(context: &mut Context, args: Replay) -> Result<(), Error> {
    let names = Names::new(&args.column);
    // All are checked before the first is sent.
    let mut files = Vec::with_capacity(args.files.len());
    for path in &args.files {
        files.push(check(path, args.format.unwrap_or_else(|| format_of(path)), &names)?);
    }
    if args.dry_run {
        for file in &files {
            let (name, events) = (file.path.display(), text::count(file.events, "event"));
            context.out.line(&format!("checked {name}: {events}, nothing was sent"))?;
        }
        return Ok(());
    }
    let replays = context.replays().await?;
    for file in &files {
        let answer = send(&replays, file, &names).await?;
        if context.out.is_json() {
            context.out.message(&answer)?;
        } else {
            let (name, events) = (file.path.display(), text::count(answer.lines, "event"));
            context.out.line(&format!("replayed {name}: {events}, each counted once"))?;
        }
    }
    Ok(())
}

fn format_of(path: &Path) -> FileFormat {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
    match extension.to_ascii_lowercase().as_str() {
        "ndjson" | "jsonl" | "json" => FileFormat::Ndjson,
        _ => FileFormat::Csv,
    }
}

/// Reads a file to its end; prints what is wrong with it.
fn check(path: &Path, format: FileFormat, names: &Names) -> Result<Checked, Error> {
    let name = path.display().to_string();
    if name == "-" {
        let why = "standard input cannot be replayed: a file is read twice, first to name it by \
                   its contents";
        return Err(Error::Usage(why.to_owned()));
    }
    let reading = bar("reading", None);
    let (mut events, mut problems) = (0_u64, 0_u64);
    let mut tell = |line, what: &str| {
        problems += 1;
        if problems <= PROBLEMS_MAX as u64 {
            problem(&format!("{name}:{line}"), what);
        }
    };
    let file = match Events::open(path, format, names) {
        Ok(mut file) => loop {
            match file.next() {
                Ok(Some(_)) => events += 1,
                Ok(None) => break Some(file),
                Err(Bad::Line(line, what)) => tell(line, &what),
                Err(Bad::File(line, what)) => {
                    tell(line, &what);
                    break None;
                }
                Err(Bad::Io(error)) => return Err(Error::io(name)(error)),
            }
            if events.is_multiple_of(PROGRESS_STEP) {
                reading.set_position(events);
            }
        },
        Err(Bad::Line(line, what) | Bad::File(line, what)) => {
            tell(line, &what);
            None
        }
        Err(Bad::Io(error)) => return Err(Error::io(name)(error)),
    };
    reading.finish_and_clear();
    match file {
        Some(file) if problems == 0 => {
            Ok(Checked { path: path.to_owned(), format, sha256: file.sha256(), events })
        }
        _ => {
            if problems > PROBLEMS_MAX as u64 {
                note(&format!("and {} more", problems - PROBLEMS_MAX as u64));
            }
            let count = text::count(problems, "problem");
            Err(Error::Input(format!("{count} in {name}: nothing was sent")))
        }
    }
}

async fn send(
    replays: &Replays,
    file: &Checked,
    names: &Names,
) -> Result<ReplayEventsResponse, Error> {
    let name = file.path.display().to_string();
    let events = Events::open(&file.path, file.format, names).map_err(|bad| changed(&name, bad))?;
    let sending = bar("sending", Some(file.events));
    let (failed_sender, failed) = oneshot::channel();
    let feed = Feed {
        events: Some(events),
        sha256: file.sha256,
        is_first: true,
        sent: 0,
        bar: sending.clone(),
        failed: Some(failed_sender),
    };
    let outcome = tokio::select! {
        answer = replays.send(feed, async |stub, events| stub.replay_events(events).await) => {
            answer.map_err(|error| placed(&name, error))
        }
        Ok(bad) = failed => Err(changed(&name, bad)),
    };
    sending.finish_and_clear();
    outcome
}

/// A file that was good a moment ago.
fn changed(name: &str, bad: Bad) -> Error {
    match bad {
        Bad::Io(error) => Error::io(name)(error),
        Bad::Line(_, what) | Bad::File(_, what) => Error::Input(format!(
            "{name}: the file has changed while it was sent ({what}); some of its lines may be \
             counted"
        )),
    }
}

/// The server names a line: so does the tool, as it names its own.
fn placed(name: &str, error: Error) -> Error {
    let Error::Refused(status) = &error else { return error };
    let place = status.message().split_once(": line ").and_then(|(field, rest)| {
        let (line, what) = rest.split_once(": ")?;
        line.parse::<u64>().ok().map(|line| format!("{name}:{line}: {field}: {what}"))
    });
    match place {
        Some(told) => Error::Input(format!(
            "{told}; lines before it may be counted: mend the catalogue and send the file again"
        )),
        None => error,
    }
}

/// The events on their way. Ends only when all were given out: after a failure it waits for ever,
/// as an end would tell the server that the part it has is the whole.
struct Feed {
    events: Option<Events>,
    sha256: [u8; 32],
    is_first: bool,
    sent: u64,
    bar: ProgressBar,
    failed: Option<oneshot::Sender<Bad>>,
}

impl Feed {
    /// The next few events; nothing at the end of the file.
    fn batch(&mut self) -> Result<Vec<ReplayedEvent>, Bad> {
        let mut batch = Vec::new();
        while let Some(events) = &mut self.events
            && batch.len() < BATCH
        {
            match events.next()? {
                Some(event) => batch.push(event),
                None => self.end()?,
            }
        }
        Ok(batch)
    }

    /// Sees that what was sent is what was checked: its lines would count under another's name.
    fn end(&mut self) -> Result<(), Bad> {
        let sha256 = self.events.take().map(Events::sha256);
        if sha256.is_some_and(|sha256| sha256 != self.sha256) {
            return Err(Bad::File(self.sent, "is another now".to_owned()));
        }
        Ok(())
    }
}

impl Stream for Feed {
    type Item = ReplayEventsRequest;

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
    ) -> Poll<Option<ReplayEventsRequest>> {
        match self.batch() {
            Ok(events) if events.is_empty() && !self.is_first => Poll::Ready(None),
            Ok(events) => {
                let is_first = std::mem::take(&mut self.is_first);
                let file_sha256 = if is_first { self.sha256.to_vec() } else { Vec::new() };
                self.sent += events.len() as u64;
                self.bar.set_position(self.sent);
                Poll::Ready(Some(ReplayEventsRequest { file_sha256, events }))
            }
            Err(bad) => {
                if let Some(failed) = self.failed.take() {
                    let _ = failed.send(bad);
                }
                Poll::Pending
            }
        }
    }
}
