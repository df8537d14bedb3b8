//! Instants, days and spans: read as people write them, printed so that they read back.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

const DAY_S: u64 = 86_400;

/// A point in time as it was typed: only an account's time zone makes an instant of a local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// RFC 3339, with an offset or `Z`.
    Instant(Timestamp),
    /// A local day: its first instant.
    Day(Date),
    /// A local date and time of day.
    Local(DateTime),
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(instant) = text.parse() {
            return Ok(When::Instant(instant));
        }
        // "2015-11-01" reads as a date and time too, at midnight: the length tells them apart.
        if text.len() == "2015-11-01".len() {
            return text.parse().map(When::Day).map_err(|e| e.to_string());
        }
        text.parse().map(When::Local).map_err(|_| {
            "neither an instant (2015-11-01T04:00:00Z), nor a local day (2015-11-01), nor a \
             local time (2015-11-01T09:30)"
                .to_owned()
        })
    }
}

impl When {
    /// The instant that is meant in `zone`. A local time that happens twice there, or never, is
    /// refused; a day starts at its first instant, whatever the clocks show then.
    pub(crate) fn resolve(self, zone: &TimeZone) -> Result<Timestamp, String> {
        match self {
            When::Instant(instant) => Ok(instant),
            When::Day(day) => {
                let start = day.to_zoned_datetime(zone.clone()).map_err(|e| e.to_string())?;
                Ok(start.timestamp())
            }
            When::Local(local) => {
                let ambiguous = zone.to_ambiguous_timestamp(local);
                if ambiguous.is_ambiguous() {
                    return Err(format!(
                        "{local} happens twice or never in {}, where the clocks change: give it \
                         with its offset, such as {local}-05:00",
                        zone.iana_name().unwrap_or("that time zone"),
                    ));
                }
                ambiguous.unambiguous().map_err(|e| e.to_string())
            }
        }
    }
}

/// The time zone of an account: its IANA name, empty for UTC.
pub(crate) fn zone(name: &str) -> Result<TimeZone, String> {
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| format!("time zone \"{name}\" is not known to this tool"))
}

/// An instant in `zone`, as [`When`] reads it: a day when it is the start of one.
pub(crate) fn format_in(zone: &TimeZone, instant: Timestamp) -> String {
    let local = instant.to_zoned_datetime(zone.clone());
    match local.start_of_day() {
        Ok(start) if start == local => local.date().to_string(),
        _ if *zone == TimeZone::UTC => instant.to_string(),
        _ => instant.display_with_offset(local.offset()).to_string(),
    }
}

/// An instant of the wire; none when it lies outside the years 1 to 9999.
pub(crate) fn from_wire(wire: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(wire.seconds, wire.nanos).ok()
}

/// An instant for the wire.
pub(crate) fn to_wire(instant: Timestamp) -> prost_types::Timestamp {
    // Below the second, protobuf counts up from the second before; jiff counts towards 1970.
    let (seconds, nanos) = (instant.as_second(), instant.subsec_nanosecond());
    if nanos < 0 {
        return prost_types::Timestamp { seconds: seconds - 1, nanos: nanos + 1_000_000_000 };
    }
    prost_types::Timestamp { seconds, nanos }
}

/// A span with its unit: `500ms`, `30s`, `5m`, `24h`, `1d`, `2w`.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    let bad = || format!("\"{text}\" is not a span such as 30s, 5m, 24h or 1d");
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (number, unit) = text.split_at(unit_at);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => DAY_S * 1_000,
        "w" => 7 * DAY_S * 1_000,
        _ => return Err(bad()),
    };
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(bad)
}

/// A span of the wire in its largest whole unit up to days, as [`parse_span`] reads it.
pub(crate) fn format_span(wire: &prost_types::Duration) -> String {
    let Ok(span) = Duration::try_from(*wire) else {
        return format!("{}s", wire.seconds);
    };
    if span.subsec_nanos() != 0 {
        return format!("{}ms", span.as_millis());
    }
    match span.as_secs() {
        0 => "0s".to_owned(),
        s if s % DAY_S == 0 => format!("{}d", s / DAY_S),
        s if s % 3_600 == 0 => format!("{}h", s / 3_600),
        s if s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

/// A measured time: `3.2 ms`, `1.04 s`.
pub(crate) fn format_elapsed(wire: &prost_types::Duration) -> String {
    match Duration::try_from(*wire).unwrap_or_default() {
        elapsed if elapsed < Duration::from_secs(1) => {
            format!("{:.1} ms", elapsed.as_secs_f64() * 1e3)
        }
        elapsed => format!("{:.2} s", elapsed.as_secs_f64()),
    }
}

/// How long ago something was, in its largest whole unit: `0.4s ago`, `12s ago`, `3h ago`.
pub(crate) fn format_ago(age: Duration) -> String {
    match age.as_secs() {
        0..10 => format!("{:.1}s ago", age.as_secs_f64()),
        s @ 10..60 => format!("{s}s ago"),
        s @ 60..3_600 => format!("{}m ago", s / 60),
        s @ 3_600..DAY_S => format!("{}h ago", s / 3_600),
        s => format!("{}d ago", s / DAY_S),
    }
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
