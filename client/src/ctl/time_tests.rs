//! Tests of `time.rs`: days of 23 and 25 hours, and that what is printed reads back.

use super::*;

fn start_of(day: &str, zone_name: &str) -> Timestamp {
    day.parse::<When>().unwrap().resolve(&zone(zone_name).unwrap()).unwrap()
}

#[test]
fn a_local_day_is_its_first_instant_and_reads_back() {
    let start = start_of("2015-11-01", "America/New_York");
    assert_eq!(start.to_string(), "2015-11-01T04:00:00Z");
    assert_eq!(format_in(&zone("America/New_York").unwrap(), start), "2015-11-01");
    // Here the clocks skip midnight: the day begins at one.
    let start = start_of("2018-11-04", "America/Sao_Paulo");
    assert_eq!(start.to_string(), "2018-11-04T03:00:00Z");
    assert_eq!(format_in(&zone("America/Sao_Paulo").unwrap(), start), "2018-11-04");
    assert_eq!(start_of("2026-09-07", "America/Chicago").to_string(), "2026-09-07T05:00:00Z");
    assert_eq!(start_of("2026-09-07", "").to_string(), "2026-09-07T00:00:00Z");
}

#[test]
fn days_have_23_or_25_hours_where_the_clocks_change() {
    let hours = |from: &str, to: &str, name: &str| {
        (start_of(to, name).as_second() - start_of(from, name).as_second()) / 3_600
    };
    assert_eq!(hours("2016-03-13", "2016-03-14", "America/Detroit"), 23);
    assert_eq!(hours("2018-11-04", "2018-11-05", "America/New_York"), 25);
    assert_eq!(hours("2019-10-27", "2019-10-28", "Europe/London"), 25);
}

#[test]
fn local_times_read_in_the_zone_unless_they_happen_twice_or_never() {
    let vienna = zone("Europe/Vienna").unwrap();
    let read = |text: &str| text.parse::<When>().unwrap().resolve(&vienna);
    assert_eq!(read("2026-07-01T20:00").unwrap().to_string(), "2026-07-01T18:00:00Z");
    assert_eq!(read("2026-12-01 20:00").unwrap().to_string(), "2026-12-01T19:00:00Z");
    assert_eq!(read("2026-12-01T20:00+00:00").unwrap().to_string(), "2026-12-01T20:00:00Z");
    assert!(read("2026-10-25T02:30").unwrap_err().contains("Europe/Vienna"));
    assert!(read("2026-03-29T02:30").unwrap_err().contains("offset"));
    assert_eq!(format_in(&vienna, read("2026-07-01T20:00").unwrap()), "2026-07-01T20:00:00+02:00");
}

#[test]
fn what_is_no_time_is_refused() {
    for bad in ["", "tomorrow", "2015-11-31", "2015-13-01T00:00Z", "2015", "20:00", "2015-11-01x"] {
        assert!(bad.parse::<When>().is_err(), "{bad}");
    }
    assert!(zone("Mars/Olympus").unwrap_err().contains("Mars/Olympus"));
}

#[test]
fn instants_cross_the_wire_on_both_sides_of_1970() {
    for text in ["2026-12-01T09:30:00.25Z", "1969-12-31T23:59:59.75Z", "1970-01-01T00:00:00Z"] {
        let instant: Timestamp = text.parse().unwrap();
        let wire = to_wire(instant);
        assert!((0..1_000_000_000).contains(&wire.nanos), "{wire:?}");
        assert_eq!(from_wire(&wire), Some(instant));
    }
}

#[test]
fn spans_read_and_print() {
    assert_eq!(parse_span("24h"), parse_span("1d"));
    assert_eq!(parse_span("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(parse_span("2w"), Ok(Duration::from_secs(14 * DAY_S)));
    for bad in ["", "24", "h", "1.5h", "-1h", "1y", "1 h", "99999999999999999999h"] {
        assert!(parse_span(bad).is_err(), "{bad}");
    }
    let wire = |seconds, nanos| prost_types::Duration { seconds, nanos };
    assert_eq!(format_span(&wire(86_400, 0)), "1d");
    assert_eq!(format_span(&wire(7_200, 0)), "2h");
    assert_eq!(format_span(&wire(90, 0)), "90s");
    assert_eq!(format_span(&wire(0, 500_000_000)), "500ms");
    assert_eq!(format_elapsed(&wire(0, 3_240_000)), "3.2 ms");
    assert_eq!(format_elapsed(&wire(1, 40_000_000)), "1.04 s");
}

#[test]
fn an_age_has_its_largest_unit() {
    let ago = |ms| format_ago(Duration::from_millis(ms));
    assert_eq!(ago(440), "0.4s ago");
    assert_eq!(ago(12_900), "12s ago");
    assert_eq!(ago(60_000), "1m ago");
    assert_eq!(ago(3 * 3_600_000), "3h ago");
    assert_eq!(ago(50 * 3_600_000), "2d ago");
}
