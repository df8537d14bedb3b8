//! The formats of the files that the tool reads, for whoever has their bytes and no file: tests
//! that hold the formats against rules of their own.

use std::io::Cursor;

use slotwise_proto::v1::{CatalogRecord, ReplayedEvent};

use super::cli::reports::FileFormat;
use super::error::Error;
use super::events::{Bad, Events, Names};
use super::spool;

/// What was read of a file, each with its line, counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines<T> {
    /// What is sound, in the order of the file.
    pub sound: Vec<(u64, T)>,
    /// What is wrong, in words, in the order of the file.
    pub problems: Vec<(u64, String)>,
    /// Whether the file was read to its end; else the last problem is why it was not.
    pub is_whole: bool,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self { sound: Vec::new(), problems: Vec::new(), is_whole: true }
    }
}

/// An import file, as `slotwisectl import` reads it. Where something is wrong nothing is given
/// out, and at most 100 problems are told.
///
/// # Errors
/// In words, where the temporary file that records wait in fails.
pub fn catalogue(bytes: &[u8]) -> Result<Lines<CatalogRecord>, String> {
    let failed = |error: Error| error.to_string();
    let mut lines = Lines::default();
    match spool::read("the file", bytes, |_| {}).map_err(failed)? {
        Ok(mut spool) => {
            for line in spool.lines() {
                let record = spool.next().map_err(|error| error.to_string())?;
                lines.sound.extend(record.map(|record| (line, record)));
            }
        }
        Err(problems) => lines.problems = problems.shown,
    }
    Ok(lines)
}

/// How a file of events is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Columns under a header.
    Csv,
    /// One JSON object a line.
    Ndjson,
}

/// A file of events, as `slotwisectl replay` reads it, with the SHA-256 that names it: of as much
/// as was read.
pub fn events(bytes: Vec<u8>, form: Form) -> (Lines<ReplayedEvent>, Option<[u8; 32]>) {
    let form = match form {
        Form::Csv => FileFormat::Csv,
        Form::Ndjson => FileFormat::Ndjson,
    };
    let mut lines = Lines::default();
    let mut file = match Events::read(Box::new(Cursor::new(bytes)), form, &Names::new(&[])) {
        Ok(file) => file,
        Err(bad) => {
            lines.tell(bad);
            lines.is_whole = false;
            return (lines, None);
        }
    };
    loop {
        match file.next() {
            Ok(Some(event)) => lines.sound.push((event.line, event)),
            Ok(None) => break,
            Err(bad @ Bad::Line(..)) => lines.tell(bad),
            Err(bad) => {
                lines.tell(bad);
                lines.is_whole = false;
                break;
            }
        }
    }
    (lines, Some(file.sha256()))
}

impl<T> Lines<T> {
    fn tell(&mut self, bad: Bad) {
        self.problems.push(match bad {
            Bad::Line(line, what) | Bad::File(line, what) => (line, what),
            Bad::Io(error) => (0, error.to_string()),
        });
    }
}
