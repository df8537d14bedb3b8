//! Files of events: CSV with a header, or NDJSON. Read line by line, with what is wrong in words.

mod hashed;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};
use slotwise_proto::v1::{EventKind, ReplayedEvent};

use crate::ctl::cli::reports::FileFormat;
use crate::ctl::money::parse_micros;
use crate::ctl::time::to_wire;
use hashed::Hashed;

/// Reads of a file, few and large.
const BUFFER_BYTES: usize = 256 << 10;
/// The longest line: some ids of full length and what else a foreign log has.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// What a file says of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Column {
    Time,
    Ad,
    Zone,
    Kind,
    Visitor,
    Value,
}

impl Column {
    /// In the order in which they are listed.
    pub(crate) const ALL: [Self; 6] =
        [Self::Time, Self::Ad, Self::Zone, Self::Kind, Self::Visitor, Self::Value];

    /// What it is called where nobody says otherwise.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Ad => "ad",
            Self::Zone => "zone",
            Self::Kind => "kind",
            Self::Visitor => "visitor",
            Self::Value => "value",
        }
    }

    fn is_needed(self) -> bool {
        !matches!(self, Self::Visitor | Self::Value)
    }
}

/// What each column is called in a file.
#[derive(Clone, Debug)]
pub(crate) struct Names(HashMap<Column, String>);

impl Names {
    /// Their own names, but for those of `renamed`.
    pub(crate) fn new(renamed: &[(Column, String)]) -> Self {
        let own = Column::ALL.map(|column| (column, column.name().to_owned()));
        Self(own.into_iter().chain(renamed.iter().cloned()).collect())
    }

    fn of(&self, column: Column) -> &str {
        self.0.get(&column).map_or(column.name(), String::as_str)
    }
}

/// A line that is no event, or a file that cannot be read on.
#[derive(Debug)]
pub(crate) enum Bad {
    /// What is wrong with this line; the next may do.
    Line(u64, String),
    /// What is wrong with the file as a whole, and where that was seen.
    File(u64, String),
    /// The system could not read it.
    Io(io::Error),
}

/// The events of a file, in order.
pub(crate) struct Events {
    lines: Lines,
    names: Names,
}

enum Lines {
    Csv { reader: Box<csv::Reader<Hashed>>, at: HashMap<Column, usize>, row: csv::StringRecord },
    Ndjson { reader: BufReader<Hashed>, line: u64 },
}

impl Events {
    /// Opens a file.
    ///
    /// # Errors
    /// Where it cannot be read, or has no such header.
    pub(crate) fn open(path: &Path, format: FileFormat, names: &Names) -> Result<Self, Bad> {
        Self::read(Box::new(File::open(path).map_err(Bad::Io)?), format, names)
    }

    /// Reads what was opened already.
    ///
    /// # Errors
    /// Where it cannot be read, or has no such header.
    pub(crate) fn read(
        file: Box<dyn Read + Send>,
        format: FileFormat,
        names: &Names,
    ) -> Result<Self, Bad> {
        let lines = match format {
            FileFormat::Ndjson => {
                let file = Hashed::new(file);
                let reader = BufReader::with_capacity(BUFFER_BYTES, file);
                Lines::Ndjson { reader, line: 0 }
            }
            FileFormat::Csv => csv_lines(Hashed::with_lines(file), names)?,
        };
        Ok(Self { lines, names: names.clone() })
    }

    /// The next event; nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<ReplayedEvent>, Bad> {
        match &mut self.lines {
            Lines::Csv { reader, at, row } => {
                match reader.read_record(row) {
                    Ok(true) => {}
                    Ok(false) => return Ok(None),
                    Err(error) => return Err(csv_problem(error, reader.get_mut())),
                }
                let line = row.position().map_or(0, |at| reader.get_mut().line_at(at.byte()));
                let field = |column| at.get(&column).and_then(|at| row.get(*at)).map(str::to_owned);
                event(line, &self.names, |column| Ok(field(column))).map(Some)
            }
            Lines::Ndjson { reader, line } => loop {
                *line += 1;
                let Some(text) = read_line(reader, *line)? else { return Ok(None) };
                if text.trim().is_empty() {
                    continue;
                }
                let object: Map<String, Value> = serde_json::from_str(&text)
                    .map_err(|error| Bad::Line(*line, format!("no JSON object: {error}")))?;
                let names = &self.names;
                return event(*line, names, |column| text_of(&object, names.of(column))).map(Some);
            },
        }
    }

    /// The SHA-256 of all that was read: of the whole file once it has ended.
    pub(crate) fn sha256(self) -> [u8; 32] {
        match self.lines {
            Lines::Csv { reader, .. } => reader.into_inner().sha256(),
            Lines::Ndjson { reader, .. } => reader.into_inner().sha256(),
        }
    }
}

fn csv_lines(file: Hashed, names: &Names) -> Result<Lines, Bad> {
    let mut reader =
        Box::new(csv::ReaderBuilder::new().buffer_capacity(BUFFER_BYTES).from_reader(file));
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => return Err(csv_problem(error, reader.get_mut())),
    };
    let mut at = HashMap::new();
    for column in Column::ALL {
        let name = names.of(column);
        // Excel begins a file with a byte order mark.
        let is_named = |field: &str| field.trim_start_matches('\u{feff}') == name;
        let mut found = header.iter().enumerate().filter(|(_, field)| is_named(field));
        match (found.next(), found.next()) {
            (Some((found, _)), None) => drop(at.insert(column, found)),
            (Some(_), Some(_)) => {
                return Err(Bad::File(1, format!("there are two columns \"{name}\"")));
            }
            (None, _) if column.is_needed() => {
                return Err(Bad::File(1, format!("there is no column \"{name}\" in the header")));
            }
            (None, _) => {}
        }
    }
    Ok(Lines::Csv { reader, at, row: csv::StringRecord::new() })
}

fn csv_problem(error: csv::Error, file: &mut Hashed) -> Bad {
    let line = error.position().map_or(1, |at| file.line_at(at.byte()));
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Bad::Io(error),
        csv::ErrorKind::Utf8 { err, .. } => {
            Bad::Line(line, format!("column {}: not UTF-8", err.field() + 1))
        }
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            Bad::Line(line, format!("has {len} columns, where the header has {expected_len}"))
        }
        other => Bad::File(line, format!("{other:?}")),
    }
}

/// A line without its end; nothing at the end of the file.
fn read_line(reader: &mut BufReader<Hashed>, line: u64) -> Result<Option<String>, Bad> {
    let mut bytes = Vec::new();
    let length = reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).map_err(Bad::Io)?;
    if length as u64 == LINE_BYTES_MAX && bytes.last() != Some(&b'\n') {
        return Err(Bad::File(line, format!("longer than {LINE_BYTES_MAX} bytes")));
    }
    if length == 0 {
        return Ok(None);
    }
    String::from_utf8(bytes).map(Some).map_err(|_| Bad::Line(line, "not UTF-8".to_owned()))
}

fn text_of(object: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err("not a string".to_owned()),
    }
}

/// The event that the columns of a line make.
fn event(
    line: u64,
    names: &Names,
    field: impl Fn(Column) -> Result<Option<String>, String>,
) -> Result<ReplayedEvent, Bad> {
    let bad = |column, what: String| Bad::Line(line, format!("{}: {what}", names.of(column)));
    let text = |column| match field(column).map_err(|what| bad(column, what))? {
        Some(text) if !text.is_empty() => Ok(text),
        _ if column.is_needed() => Err(bad(column, "is missing".to_owned())),
        _ => Ok(String::new()),
    };
    let read = |column, parse: fn(&str) -> Result<[String; 2], String>| {
        parse(&text(column)?).map_err(|what| bad(column, what))
    };
    let at = instant(&text(Column::Time)?).map_err(|what| bad(Column::Time, what))?;
    let [campaign_id, ad_unit_id] = read(Column::Ad, |text| pair(text, "CAMPAIGN/UNIT"))?;
    let [site_id, zone_id] = read(Column::Zone, |text| pair(text, "SITE/ZONE"))?;
    let kind = kind(&text(Column::Kind)?).map_err(|what| bad(Column::Kind, what))?;
    let value_micros = match text(Column::Value)?.as_str() {
        "" => 0,
        _ if kind != EventKind::Conversion => {
            return Err(bad(Column::Value, "only a conversion has one".to_owned()));
        }
        value => parse_micros(value).map_err(|what| bad(Column::Value, what))?,
    };
    Ok(ReplayedEvent {
        line,
        kind: kind.into(),
        occurred_at: Some(to_wire(at)),
        campaign_id,
        ad_unit_id,
        site_id,
        zone_id,
        user_id: text(Column::Visitor)?,
        value_micros,
    })
}

/// RFC 3339, also with a space in place of the T; without an offset it is UTC.
fn instant(text: &str) -> Result<Timestamp, String> {
    let bad = || {
        format!(
            "\"{text}\" is neither like 2026-11-30T12:00:00Z nor like 2026-11-30 12:00:00.123456"
        )
    };
    // Both formats name the second; the parsers would take less.
    let has_second = text.as_bytes().get(10..19).is_some_and(|time| {
        matches!(time[0], b'T' | b't' | b' ') && time[3] == b':' && time[6] == b':'
    });
    if !has_second {
        return Err(bad());
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant);
    }
    // In bytes, as a character may begin before the end of the second and end after it.
    let is_local = text.bytes().skip(19).all(|byte| byte.is_ascii_digit() || byte == b'.');
    let local = text.parse::<DateTime>().ok().filter(|_| is_local).ok_or_else(bad)?;
    TimeZone::UTC.to_timestamp(local).map_err(|_| bad())
}

/// The two sides of the last slash: a campaign's or site's name may hold one.
fn pair(text: &str, form: &str) -> Result<[String; 2], String> {
    match text.rsplit_once('/') {
        Some((of, name)) if !of.is_empty() && !name.is_empty() => {
            Ok([of.to_owned(), name.to_owned()])
        }
        _ => Err(format!("\"{text}\" is not {form}")),
    }
}

fn kind(text: &str) -> Result<EventKind, String> {
    match text {
        "impression" => Ok(EventKind::Impression),
        "click" => Ok(EventKind::Click),
        "conversion" => Ok(EventKind::Conversion),
        other => Err(format!("\"{other}\" is none of impression, click, conversion")),
    }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
