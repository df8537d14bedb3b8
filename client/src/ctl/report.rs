//! Counts as tables, as CSV for spreadsheets, and as JSON.

use std::borrow::Cow;
use std::io::IsTerminal;

use prost::{Message, Name};
use slotwise_proto::v1::Counts;

use crate::ctl::accounts::Locale;
use crate::ctl::chart::bars;
use crate::ctl::cli::reports::{Form, Format};
use crate::ctl::error::Error;
use crate::ctl::money::format_nanos;
use crate::ctl::output::Output;
use crate::ctl::text::safe;

/// A cell of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Somebody's words: a spreadsheet must not take them for a formula.
    Text(String),
    /// A number as it is written; a negative one stays one.
    Number(String),
    /// Money, in nanos: with its currency for people, bare for programs.
    Nanos(i64),
}

/// Rows under a header; what `value` of each is drawn as a bar.
pub(crate) struct Report<M> {
    pub(crate) header: Vec<&'static str>,
    pub(crate) rows: Vec<(M, Vec<Cell>)>,
    /// A last row, for people only.
    pub(crate) total: Option<Vec<Cell>>,
    /// What is drawn.
    pub(crate) values: Vec<u64>,
}

/// The form that is asked for, with `--json` of all commands.
pub(crate) fn format(out: &Output, form: &Form) -> Format {
    if out.is_json() { Format::Json } else { form.format }
}

/// Prints a whole report.
pub(crate) fn print<M: Message + Name>(
    out: &mut Output,
    form: &Form,
    locale: &Locale,
    report: Report<M>,
) -> Result<(), Error> {
    match format(out, form) {
        Format::Json => report.rows.iter().try_for_each(|(message, _)| out.message(message)),
        Format::Csv => {
            out.raw(&csv_line(&header_cells(&report.header)))?;
            report.rows.iter().try_for_each(|(_, cells)| out.raw(&csv_line(cells)))
        }
        Format::Table => {
            let has_chart = !form.no_chart && std::io::stdout().is_terminal();
            let chart = has_chart.then(|| bars(&report.values));
            let (header, rows) = table(report, locale, chart);
            let header: Vec<_> = header.iter().map(String::as_str).collect();
            out.table(&header, rows)
        }
    }
}

fn table<M>(
    report: Report<M>,
    locale: &Locale,
    chart: Option<Vec<String>>,
) -> (Vec<String>, Vec<Vec<String>>) {
    let mut header: Vec<_> = report.header.iter().map(|name| name.to_uppercase()).collect();
    let rows = report.rows.into_iter().map(|(_, cells)| cells);
    let mut rows: Vec<Vec<_>> =
        rows.map(|cells| cells.iter().map(|cell| shown(cell, locale)).collect()).collect();
    if let Some(bars) = chart {
        header.push(String::new());
        rows.iter_mut().zip(bars).for_each(|(row, bar)| row.push(bar));
    }
    if let Some(total) = report.total {
        rows.push(total.iter().map(|cell| shown(cell, locale)).collect());
    }
    (header, rows)
}

/// A cell for people.
pub(crate) fn shown(cell: &Cell, locale: &Locale) -> String {
    match cell {
        Cell::Text(text) | Cell::Number(text) => text.clone(),
        Cell::Nanos(nanos) => locale.nanos(*nanos),
    }
}

pub(crate) fn header_cells(header: &[&str]) -> Vec<Cell> {
    header.iter().map(|name| Cell::Text((*name).to_owned())).collect()
}

/// A line of CSV (RFC 4180, but for its end).
pub(crate) fn csv_line(cells: &[Cell]) -> String {
    let cells = cells.iter().map(|cell| match cell {
        Cell::Text(text) => quoted(&safe(&harmless(text))),
        Cell::Number(number) => number.clone(),
        Cell::Nanos(nanos) => format_nanos(*nanos),
    });
    let mut line = cells.collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

/// Spreadsheets run what begins with one of these; after an apostrophe it is text to them.
fn harmless(text: &str) -> Cow<'_, str> {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// The names of [`counts`].
pub(crate) const COUNTS_HEADER: [&str; 4] = ["impressions", "clicks", "conversions", "spend"];

/// Counts as cells.
pub(crate) fn counts(counts: &Option<Counts>) -> [Cell; 4] {
    let counts = counts.unwrap_or_default();
    [
        Cell::Number(counts.impressions.to_string()),
        Cell::Number(counts.clicks.to_string()),
        Cell::Number(counts.conversions.to_string()),
        Cell::Nanos(counts.spend_nanos),
    ]
}

/// What is drawn of counts: impressions, or clicks where nothing was seen at all.
pub(crate) fn drawn(all: &[Option<Counts>]) -> Vec<u64> {
    let of = |pick: fn(&Counts) -> u64| all.iter().map(|c| pick(&c.unwrap_or_default())).collect();
    let impressions: Vec<u64> = of(|counts| counts.impressions);
    if impressions.iter().all(|count| *count == 0) {
        of(|counts| counts.clicks)
    } else {
        impressions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }

    #[test]
    fn text_is_no_formula_and_numbers_stay_numbers() {
        let cells = [
            text("=1+1"),
            text("<b>x</b>"),
            text("-2"),
            text("@cmd"),
            text("+1"),
            text("\t=1"),
            text("\r=1"),
            Cell::Number("-5".into()),
            Cell::Nanos(-12_345 * 10_000_000),
        ];
        let line = csv_line(&cells);
        assert_eq!(line, "'=1+1,<b>x</b>,'-2,'@cmd,'+1,'\\t=1,'\\r=1,-5,-123.45\n");
    }

    #[test]
    fn what_has_a_meaning_in_csv_is_quoted() {
        let line = csv_line(&[text("a,b"), text("say \"hi\""), text("=\"x\""), text("plain")]);
        assert_eq!(line, "\"a,b\",\"say \"\"hi\"\"\",\"'=\"\"x\"\"\",plain\n");
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
        let read = reader.records().next().unwrap().unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), ["a,b", "say \"hi\"", "'=\"x\"", "plain"]);
        assert_eq!(csv_line(&[text("\u{1b}[2J")]), "\\u{1b}[2J\n");
    }

    #[test]
    fn clicks_are_drawn_where_nothing_was_seen() {
        let of = |impressions, clicks| Some(Counts { impressions, clicks, ..Counts::default() });
        assert_eq!(drawn(&[of(5, 1), None, of(0, 7)]), [5, 0, 0]);
        assert_eq!(drawn(&[of(0, 1), None]), [1, 0]);
    }
}
