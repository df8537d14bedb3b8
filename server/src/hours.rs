//! The hour of the week in a time zone: pure, and remembered for as long as it lasts.

use std::cell::RefCell;
use std::collections::HashMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use slotwise_core::model::HOURS_OF_WEEK;

use crate::limits::TIME_ZONES_REMEMBERED_MAX;

const MINUTE_US: i64 = 60_000_000;
const HOUR_US: i64 = 60 * MINUTE_US;

thread_local! {
    /// One memory for each thread: nobody waits for another.
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// The hour of the week at `now_us` (microseconds of Unix time) in the zone of this IANA name,
/// UTC where it is empty; 0 is Monday 00:00. An hour that no week has, [`HOURS_OF_WEEK`], where
/// this machine knows no such zone, or there is no such instant: no clause on hours holds then.
pub fn hour_of_week(time_zone: &str, now_us: i64) -> u8 {
    MEMORY.with_borrow_mut(|memory| memory.hour(time_zone, now_us))
}

/// The last hour that was asked for in each zone.
#[derive(Default)]
struct Memory(HashMap<Box<str>, Hour>);

impl Memory {
    fn hour(&mut self, name: &str, now_us: i64) -> u8 {
        if let Some(hour) = self.0.get(name).filter(|hour| hour.lasts(now_us)) {
            return hour.of_week;
        }
        // Looked up anew, so that a time zone database that is replaced is followed. jiff keeps
        // what it has read for some minutes; what is then read is a small file, once an hour.
        let zone = if name.is_empty() { Some(TimeZone::UTC) } else { TimeZone::get(name).ok() };
        let hour =
            zone.and_then(|zone| Hour::of(&zone, now_us)).unwrap_or_else(|| Hour::unknown(now_us));
        if let Some(last) = self.0.get_mut(name) {
            *last = hour;
        } else {
            if self.0.len() == TIME_ZONES_REMEMBERED_MAX {
                self.0.clear();
            }
            self.0.insert(name.into(), hour);
        }
        hour.of_week
    }
}

/// An hour of the week, as long as it lasts without a change of the zone's offset: [from, until),
/// in microseconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hour {
    of_week: u8,
    from_us: i64,
    until_us: i64,
}

impl Hour {
    /// The hour at `now_us`; nothing where there is no such instant.
    fn of(zone: &TimeZone, now_us: i64) -> Option<Self> {
        let now = Timestamp::from_microsecond(now_us).ok()?;
        let local = zone.to_datetime(now);
        let day = u8::try_from(local.date().weekday().to_monday_zero_offset()).ok()?;
        let hour = u8::try_from(local.hour()).ok()?;
        let into_us = i64::from(local.minute()) * 60_000_000
            + i64::from(local.second()) * 1_000_000
            + i64::from(local.subsec_nanosecond() / 1_000);
        // From this instant on, not from the hour's own beginning: a change of the offset may lie
        // between the two. The next one ends it, wherever it lies.
        let end_us = now_us.saturating_add(HOUR_US - into_us);
        let change = zone.following(now).next();
        let change_us = change.map_or(i64::MAX, |change| change.timestamp().as_microsecond());
        Some(Self { of_week: day * 24 + hour, from_us: now_us, until_us: end_us.min(change_us) })
    }

    /// No hour at all, for a minute.
    fn unknown(now_us: i64) -> Self {
        let until_us = now_us.saturating_add(MINUTE_US);
        Self { of_week: HOURS_OF_WEEK, from_us: now_us, until_us }
    }

    fn lasts(&self, now_us: i64) -> bool {
        (self.from_us..self.until_us).contains(&now_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zone, instant, day of the week from Monday, hour there: what the rules of each zone say, and
    /// what Python's `zoneinfo` makes of them.
    const KNOWN: [(&str, &str, u8, u8); 31] = [
        ("Europe/Vienna", "2026-07-15T17:59:59.999999Z", 2, 19),
        ("Europe/Vienna", "2026-07-15T18:00:00Z", 2, 20),
        ("Europe/Vienna", "2026-01-14T18:59:59.999999Z", 2, 19),
        ("Europe/Vienna", "2026-01-14T19:00:00Z", 2, 20),
        ("Europe/Vienna", "2026-03-29T00:59:59.999999Z", 6, 1),
        ("Europe/Vienna", "2026-03-29T01:00:00Z", 6, 3),
        ("", "2026-11-29T23:59:59.999999Z", 6, 23),
        ("", "2026-11-30T00:00:00Z", 0, 0),
        ("UTC", "1969-12-31T23:59:59.999999Z", 2, 23),
        ("America/New_York", "2018-11-04T05:30:00Z", 6, 1),
        ("America/New_York", "2018-11-04T06:30:00Z", 6, 1),
        ("America/New_York", "2018-11-04T07:00:00Z", 6, 2),
        ("America/Detroit", "2016-03-13T06:59:59.999999Z", 6, 1),
        ("America/Detroit", "2016-03-13T07:00:00Z", 6, 3),
        ("Europe/London", "2019-10-27T00:30:00Z", 6, 1),
        ("Europe/London", "2019-10-27T01:30:00Z", 6, 1),
        ("Asia/Kolkata", "2026-06-01T18:29:59.999999Z", 0, 23),
        ("Asia/Kolkata", "2026-06-01T18:30:00Z", 1, 0),
        ("Asia/Kathmandu", "2026-06-01T18:14:59.999999Z", 0, 23),
        ("Asia/Kathmandu", "2026-06-01T18:15:00Z", 1, 0),
        // Half an hour of summer time.
        ("Australia/Lord_Howe", "2026-04-04T14:59:59.999999Z", 6, 1),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z", 6, 1),
        ("Australia/Lord_Howe", "2026-04-04T15:30:00Z", 6, 2),
        ("Australia/Lord_Howe", "2026-10-03T15:29:59.999999Z", 6, 1),
        ("Australia/Lord_Howe", "2026-10-03T15:30:00Z", 6, 2),
        ("Australia/Lord_Howe", "2026-10-03T16:00:00Z", 6, 3),
        // A Friday that Samoa never had.
        ("Pacific/Apia", "2011-12-30T09:59:59.999999Z", 3, 23),
        ("Pacific/Apia", "2011-12-30T10:00:00Z", 5, 0),
        ("Pacific/Kiritimati", "2026-11-29T10:00:00Z", 0, 0),
        ("Pacific/Niue", "2026-11-30T10:59:59.999999Z", 6, 23),
        ("Pacific/Niue", "2026-11-30T11:00:00Z", 0, 0),
    ];

    fn micros(instant: &str) -> i64 {
        instant.parse::<Timestamp>().unwrap().as_microsecond()
    }

    #[test]
    fn hours_are_those_of_the_zones_rules_in_whatever_order_they_are_asked() {
        let (mut forth, mut back) = (Memory::default(), Memory::default());
        for (zone, instant, day, hour) in KNOWN {
            let found = forth.hour(zone, micros(instant));
            assert_eq!((found / 24, found % 24), (day, hour), "{zone} {instant}");
            assert_eq!(hour_of_week(zone, micros(instant)), found, "{zone} {instant}");
        }
        for (zone, instant, day, hour) in KNOWN.into_iter().rev() {
            let found = back.hour(zone, micros(instant));
            assert_eq!((found / 24, found % 24), (day, hour), "{zone} {instant}, going back");
        }
    }

    #[test]
    fn each_hour_of_a_day_has_the_minutes_that_it_has() {
        // Zone, the day's first instant, a weekday from Monday, the hours that are not of 60
        // minutes.
        for (zone, midnight, day, unusual) in [
            ("Europe/Vienna", "2026-07-14T22:00:00Z", 2, &[][..]),
            ("America/Detroit", "2016-03-13T05:00:00Z", 6, &[(2, 0)]),
            ("America/New_York", "2018-11-04T04:00:00Z", 6, &[(1, 120)]),
            ("Europe/London", "2019-10-26T23:00:00Z", 6, &[(1, 120)]),
            ("Australia/Lord_Howe", "2026-04-04T13:00:00Z", 6, &[(1, 90)]),
            ("Australia/Lord_Howe", "2026-10-03T13:30:00Z", 6, &[(2, 30)]),
            ("Asia/Kathmandu", "2026-06-01T18:15:00Z", 1, &[]),
        ] {
            let expected = |hour: u8| {
                let found = unusual.iter().find(|(unusual, _)| *unusual == hour);
                found.map_or(60, |(_, minutes)| *minutes)
            };
            let mut memory = Memory::default();
            let mut found = [0; 24];
            let start_us = micros(midnight);
            // From a minute before, and up to where the longest day is over.
            for minute in -1..=25 * 60 {
                let of_week = memory.hour(zone, start_us + minute * MINUTE_US);
                if of_week / 24 == day {
                    found[usize::from(of_week % 24)] += 1;
                }
            }
            let hours: [u32; 24] =
                std::array::from_fn(|hour| expected(u8::try_from(hour).unwrap()));
            assert_eq!(found, hours, "{zone} {midnight}");
        }
    }

    #[test]
    fn an_hour_is_remembered_for_as_long_as_it_lasts() {
        let zone = TimeZone::get("Australia/Lord_Howe").unwrap();
        let hour = |instant| Hour::of(&zone, micros(instant)).unwrap();
        let quiet = hour("2026-07-01T00:45:00Z");
        assert_eq!(quiet.until_us, micros("2026-07-01T01:30:00Z"), "the zone is 10:30 ahead");
        assert_eq!(hour("2026-04-04T14:40:00Z").until_us, micros("2026-04-04T15:00:00Z"));
        assert!(quiet.lasts(micros("2026-07-01T01:29:59.999999Z")));
        assert!(!quiet.lasts(quiet.until_us) && !quiet.lasts(quiet.from_us - 1));
    }

    #[test]
    fn what_nobody_knows_is_no_hour() {
        for (zone, now_us) in [("Europe/Atlantis", 0), ("", i64::MAX), ("Europe/Vienna", i64::MIN)]
        {
            assert_eq!(hour_of_week(zone, now_us), HOURS_OF_WEEK, "{zone} {now_us}");
            assert_eq!(hour_of_week(zone, now_us), HOURS_OF_WEEK, "again");
        }
        assert_eq!(hour_of_week("", 0), 3 * 24, "the epoch was a Thursday");
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut memory = Memory::default();
        for n in 0..=TIME_ZONES_REMEMBERED_MAX {
            memory.hour(&format!("No/Zone{n}"), 0);
            assert!(memory.0.len() <= TIME_ZONES_REMEMBERED_MAX);
        }
        assert_eq!(memory.hour("Europe/Vienna", 0), 3 * 24 + 1);
    }
}
