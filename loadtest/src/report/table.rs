//! The table.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::{Kind, QUANTILES, Report, ms};

/// The whole report, line by line.
pub(super) fn render(report: &Report) -> String {
    let mut text = format!("{}\n", heading(report));
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["LATENCY, ms", "RATE"];
    header.extend(QUANTILES.map(|(name, _)| name));
    table.set_header(header);
    for kind in &report.kinds {
        table.add_row(latencies(kind));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    push_table(&mut text, &table);
    push_table(&mut text, &counts(report));
    for kind in &report.kinds {
        for (wrong, count) in &kind.meter.wrong {
            push(&mut text, &format!("WRONG: {} x {wrong}", grouped(*count)));
        }
        for (how, count) in &kind.meter.refused {
            push(&mut text, &format!("refused: {} x {how}", grouped(*count)));
        }
    }
    if let Some(fault) = &report.last_fault {
        push(&mut text, &format!("the last connection that broke: {fault}"));
    }
    push(&mut text, &generator(report));
    if let Some(server) = server(report) {
        push(&mut text, &server);
    }
    for note in &report.notes {
        push(&mut text, note);
    }
    text
}

/// What was run.
pub(crate) fn heading(report: &Report) -> String {
    let making = &report.making;
    let how = match (report.batch, making.closed) {
        (_, Some(in_flight)) => format!(
            "{in_flight} calls always under way (a closed loop: waits that a slow server causes are \
             left out of the latencies)"
        ),
        (None, None) => format!("{} a second, {:?} arrivals", short(making.rate), making.arrivals),
        (Some(batch), None) => format!(
            "{} a second in calls of {batch}, {:?} arrivals",
            short(making.rate),
            making.arrivals
        ),
    };
    format!(
        "{}: {how}, {} s after {} s of warm-up, {} connections",
        report.mode, making.seconds, making.warm_up, making.connections
    )
}

fn latencies(kind: &Kind) -> Vec<String> {
    let mut row = vec![kind.name.to_owned(), format!("{}/s", short(kind.meter.rate()))];
    for (_, quantile) in QUANTILES {
        let us = kind.meter.latency_us.value_at_quantile(quantile);
        row.push(if kind.meter.latency_us.is_empty() {
            "-".to_owned()
        } else {
            format!("{:.2}", ms(us))
        });
    }
    row
}

fn counts(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "COUNTS",
        "intended",
        "answered",
        "late",
        "WRONG",
        "refused",
        "broken",
        "unanswered",
        "not sent",
    ]);
    for kind in &report.kinds {
        let counts = kind.meter.counts;
        let mut row = vec![kind.name.to_owned()];
        row.extend(
            [
                counts.intended,
                counts.answered,
                counts.late,
                counts.wrong,
                counts.refused,
                counts.broken,
                counts.unanswered,
                counts.not_sent,
            ]
            .map(grouped),
        );
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn generator(report: &Report) -> String {
    let mut text = format!("generator: {:.0} % of one core", report.own_cpu_share() * 100.0);
    for kind in &report.kinds {
        let lateness = &kind.meter.own_lateness_us;
        if lateness.is_empty() {
            continue;
        }
        let (p50, p99) = (lateness.value_at_quantile(0.5), lateness.value_at_quantile(0.99));
        let _ = write!(
            text,
            "; came to {} late by p50 {:.2}, p99 {:.2}, at most {:.2} ms",
            kind.name,
            ms(p50),
            ms(p99),
            ms(lateness.max())
        );
    }
    if report.checked_whole > 0 {
        let checked = grouped(report.checked_whole);
        let _ = write!(text, "; every answer looked through, {checked} held against the catalogue");
    }
    for limit in report.own_limits() {
        let _ = write!(text, "\nTHE GENERATOR WAS THE LIMIT, not the server: {limit}");
    }
    text
}

fn server(report: &Report) -> Option<String> {
    let (cores, each) = (report.server_cores()?, report.server_us_each()?);
    let mut text = format!("server: {cores:.2} cores, {each:.1} us of processor for each answer");
    if let Some(bytes) = report.answer_bytes {
        let _ = write!(text, "; {bytes:.0} bytes an answer");
    }
    Some(text)
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn push_table(text: &mut String, table: &Table) {
    for line in table.lines() {
        push(text, line.trim_end());
    }
}

/// A rate, to four digits or so.
fn short(rate: f64) -> String {
    if rate < 100.0 {
        return format!("{rate:.1}");
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
    let whole = rate.round() as u64;
    grouped(whole)
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")]
        {
            assert_eq!(grouped(number), text);
        }
        assert_eq!((short(2.5), short(69_999.7)), ("2.5".to_owned(), "70,000".to_owned()));
    }
}
