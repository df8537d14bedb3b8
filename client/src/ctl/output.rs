//! What is printed: lines and tables for people, protobuf's JSON for programs, notes on stderr.

use std::io::{self, BufWriter, Stdout, Write};

use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use prost::{Message, Name};
use slotwise_proto::json;

use crate::ctl::error::Error;
use crate::ctl::text::{is_unsafe, safe};

/// Spaces between two columns.
const COLUMN_GAP: u16 = 2;

/// Standard output, in the form that was asked for.
pub(crate) struct Output {
    json: bool,
    out: BufWriter<Stdout>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Output { json, out: BufWriter::new(io::stdout()) }
    }

    /// Whether programs read it.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// One line for people; nothing in it can drive the terminal.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Error> {
        writeln!(self.out, "{}", safe(line)).map_err(Error::output)
    }

    /// A table under a header.
    /// Columns that are empty in every row are left out: a terminal is narrow.
    pub(crate) fn table(&mut self, header: &[&str], rows: Vec<Vec<String>>) -> Result<(), Error> {
        let is_shown = |column: usize| {
            rows.is_empty() || rows.iter().any(|row| row.get(column).is_some_and(|c| !c.is_empty()))
        };
        let shown: Vec<usize> = (0..header.len()).filter(|column| is_shown(*column)).collect();
        let mut table = plain_table();
        let bold = |column: &usize| Cell::new(header[*column]).add_attribute(Attribute::Bold);
        table.set_header(shown.iter().map(bold));
        for row in &rows {
            table.add_row(shown.iter().filter_map(|column| row.get(*column)).map(|c| safe(c)));
        }
        self.write_table(table)
    }

    /// Names and their values, those with an empty value left out.
    pub(crate) fn facts(&mut self, facts: Vec<(&str, String)>) -> Result<(), Error> {
        let mut table = plain_table();
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            table.add_row([Cell::new(name).add_attribute(Attribute::Bold), Cell::new(safe(value))]);
        }
        self.write_table(table)
    }

    fn write_table(&mut self, mut table: Table) -> Result<(), Error> {
        for column in table.column_iter_mut() {
            column.set_padding((0, COLUMN_GAP));
        }
        writeln!(self.out, "{}", table.trim_fmt()).map_err(Error::output)
    }

    /// Text as it is: whoever calls has made it harmless.
    pub(crate) fn raw(&mut self, text: &str) -> Result<(), Error> {
        self.out.write_all(text.as_bytes()).map_err(Error::output)
    }

    /// A message in its JSON form, on one line.
    pub(crate) fn message<M: Message + Name>(&mut self, message: &M) -> Result<(), Error> {
        self.out.write_all(json_line(message).as_bytes()).map_err(Error::output)
    }

    /// Hands on what is buffered: at the end, and where a reader waits for each line.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.out.flush().map_err(Error::output)
    }
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if std::env::var_os("NO_COLOR").is_some() {
        table.force_no_tty();
    }
    table
}

/// A message as a line of NDJSON. JSON leaves some characters bare that act on a terminal; they
/// can only stand inside strings, so their `\u` form means the same.
pub(crate) fn json_line<M: Message + Name>(message: &M) -> String {
    let mut line = json::to_string(message);
    if line.contains(is_unsafe) {
        let bare = std::mem::take(&mut line);
        for c in bare.chars() {
            match c {
                // Every such character lies in the basic plane: four digits do.
                c if is_unsafe(c) => line.push_str(&format!("\\u{:04x}", u32::from(c))),
                c => line.push(c),
            }
        }
    }
    line.push('\n');
    line
}

/// A line to standard error. Nobody reads it when that is closed, which is no failure.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "slotwisectl: {}", safe(line));
}

/// A line to standard error that names a place in a file, as compilers do.
pub(crate) fn problem(place: &str, problem: &str) {
    let _ = writeln!(io::stderr(), "{}: {}", safe(place), safe(problem));
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotwise_proto::v1::Account;

    #[test]
    fn json_cannot_drive_a_terminal_and_means_the_same() {
        let display_name = "a\u{9b}31m\u{1b}\u{202e}=1+1 <b>".to_owned();
        let account = Account { display_name, ..Account::default() };
        let line = json_line(&account);
        assert!(line.ends_with('\n') && !line.trim_end().contains(is_unsafe), "{line}");
        assert!(line.contains("=1+1 <b>"), "{line}");
        assert_eq!(json::from_str::<Account>(&line).unwrap(), account);
    }
}
