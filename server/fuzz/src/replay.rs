//! Files of events to be replayed, CSV and NDJSON: each line of the file is one event or one
//! problem under its own number, and an event that is written down again, in either form, is read
//! as itself.

use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use slotwise_client::ctl::files::{Form, Lines, events};
use slotwise_client::v1::{EventKind, ReplayedEvent};

const HEADER: &str = "time,ad,zone,kind,visitor,value\n";

/// Holds `data`, a file of this form, against the rules of such files.
pub fn check(data: &[u8], form: Form) {
    let (read, sha256) = events(data.to_vec(), form);
    if read.is_whole {
        let whole: [u8; 32] = Sha256::digest(data).into();
        assert_eq!(sha256, Some(whole), "the hash names the whole file");
    } else {
        assert!(!read.problems.is_empty(), "it says why it was not read on");
    }
    let mut lines: Vec<u64> = read.sound.iter().map(|(line, _)| *line).collect();
    lines.extend(read.problems.iter().map(|(line, _)| *line));
    lines.sort_unstable();
    match form {
        Form::Ndjson => are_those_of_ndjson(data, &lines, &read),
        Form::Csv => are_those_of_csv(data, &lines, &read),
    }
    for (_, what) in &read.problems {
        assert!(!what.is_empty());
    }
    let read: Vec<ReplayedEvent> = read.sound.into_iter().map(|(_, event)| event).collect();
    read.iter().for_each(is_sound);
    for (form, written) in [(Form::Csv, csv(&read)), (Form::Ndjson, ndjson(&read))] {
        let (again, _) = events(written.clone().into_bytes(), form);
        assert_eq!(again.problems, [], "{written}");
        let plain = |event: &ReplayedEvent| ReplayedEvent { line: 0, ..event.clone() };
        let again: Vec<_> = again.sound.iter().map(|(_, event)| plain(event)).collect();
        assert_eq!(again, read.iter().map(plain).collect::<Vec<_>>(), "{written}");
    }
}

/// Lines end with a line feed; each that is not blank is one event or one problem.
fn are_those_of_ndjson(data: &[u8], lines: &[u64], read: &Lines<ReplayedEvent>) {
    if !read.is_whole {
        return;
    }
    let is_blank = |line: &[u8]| str::from_utf8(line).is_ok_and(|text| text.trim().is_empty());
    let expected = (1..).zip(data.split(|byte| *byte == b'\n'));
    let expected = expected.filter(|(_, line)| !is_blank(line)).map(|(number, _)| number);
    assert_eq!(lines, expected.collect::<Vec<u64>>(), "{}", data.escape_ascii());
}

/// Lines end as on any system. Without quotes each that is not empty is a row, and the first is
/// the header; with them a row may take several lines, and has the number of its first.
fn are_those_of_csv(data: &[u8], lines: &[u64], read: &Lines<ReplayedEvent>) {
    let mut rows: Vec<u64> = Vec::new();
    let (mut line, mut is_empty, mut last) = (1, true, 0);
    // Excel begins a file with a byte order mark, which is in no line.
    for byte in data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data) {
        match byte {
            b'\n' if last == b'\r' => {}
            b'\n' | b'\r' => (line, is_empty) = (line + 1, true),
            _ if is_empty => {
                rows.push(line);
                is_empty = false;
            }
            _ => {}
        }
        last = *byte;
    }
    assert!(lines.is_sorted_by(|line, next| line < next), "{lines:?}: {}", data.escape_ascii());
    if !read.is_whole {
        return;
    }
    let rows = rows.get(1..).unwrap_or_default();
    if data.contains(&b'"') {
        let others = lines.iter().filter(|line| !rows.contains(line));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&u64>::new(), "{}", data.escape_ascii());
    } else {
        assert_eq!(lines, rows, "{}", data.escape_ascii());
    }
}

/// What every event promises, whatever the file says.
fn is_sound(event: &ReplayedEvent) {
    let at = event.occurred_at.unwrap();
    assert!((0..1_000_000_000).contains(&at.nanos), "{event:?}");
    let known = [EventKind::Impression, EventKind::Click, EventKind::Conversion];
    assert!(known.contains(&event.kind()), "{event:?}");
    assert!(event.value_micros == 0 || event.kind() == EventKind::Conversion, "{event:?}");
    assert!(event.value_micros >= 0, "{event:?}");
    let ids = [&event.campaign_id, &event.ad_unit_id, &event.site_id, &event.zone_id];
    assert!(ids.iter().all(|id| !id.is_empty()), "{event:?}");
    let last = [&event.ad_unit_id, &event.zone_id];
    assert!(last.iter().all(|id| !id.contains('/')), "the last slash divides: {event:?}");
}

/// The columns of an event, in the order of the header.
fn columns(event: &ReplayedEvent) -> [String; 6] {
    let at = event.occurred_at.unwrap();
    let at = Timestamp::from_second(at.seconds).unwrap() + jiff::SignedDuration::new(0, at.nanos);
    let kind = match event.kind() {
        EventKind::Impression => "impression",
        EventKind::Click => "click",
        _ => "conversion",
    };
    let (whole, micros) = (event.value_micros / 1_000_000, event.value_micros % 1_000_000);
    let value =
        if event.value_micros == 0 { String::new() } else { format!("{whole}.{micros:06}") };
    [
        at.to_string(),
        format!("{}/{}", event.campaign_id, event.ad_unit_id),
        format!("{}/{}", event.site_id, event.zone_id),
        kind.to_owned(),
        event.user_id.clone(),
        value,
    ]
}

fn csv(events: &[ReplayedEvent]) -> String {
    let quoted = |column: String| format!("\"{}\"", column.replace('"', "\"\""));
    let row = |event| columns(event).map(quoted).join(",") + "\r\n";
    HEADER.to_owned() + &events.iter().map(row).collect::<String>()
}

fn ndjson(events: &[ReplayedEvent]) -> String {
    let names = HEADER.trim_end().split(',').map(str::to_owned);
    let row = |event| {
        let columns = columns(event).map(Value::String);
        let object: Map<_, _> = names.clone().zip(columns).collect();
        Value::Object(object).to_string() + "\n"
    };
    events.iter().map(row).collect()
}
