//! Days of a time zone, in minutes of Unix time.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::{MINUTE_US, QUARTER_MIN};
use crate::limits::REPORT_DAYS_MAX;

/// A day: [from, until), in minutes of Unix time. It may have 23, 25 or other hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    /// Its date.
    pub date: Date,
    /// Its first minute.
    pub from_min: i64,
    /// The first minute that is not of it.
    pub until_min: i64,
}

/// Days that cannot be reported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDays {
    /// The first is none.
    #[error("{0:?} is no day; write it as 2026-11-30")]
    First(String),
    /// The last is none.
    #[error("{0:?} is no day; write it as 2026-11-30")]
    Last(String),
    /// They are in the wrong order.
    #[error("lies before first_day, {0}")]
    Order(Date),
    /// They are too many.
    #[error("makes the range {0} days long; the limit is {REPORT_DAYS_MAX}")]
    TooMany(i64),
    /// The calendar ends before.
    #[error("lies beyond the calendar")]
    Beyond,
}

/// The days from `first` to `last`, both included, as `zone` cuts them. Each begins where the one
/// before ends.
///
/// # Errors
/// [`BadDays`], where they are no days or too many.
pub fn cut(zone: &TimeZone, first: &str, last: &str) -> Result<Vec<Day>, BadDays> {
    let from = date(first).ok_or_else(|| BadDays::First(first.to_owned()))?;
    let until = date(last).ok_or_else(|| BadDays::Last(last.to_owned()))?;
    let length = i64::from((until - from).get_days()) + 1;
    if length < 1 {
        return Err(BadDays::Order(from));
    }
    if length > REPORT_DAYS_MAX {
        return Err(BadDays::TooMany(length));
    }
    let mut days = Vec::new();
    let mut begin = start(zone, from)?;
    let mut day = from;
    while day <= until {
        let next = day.tomorrow().map_err(|_| BadDays::Beyond)?;
        let end = start(zone, next)?;
        days.push(Day { date: day, from_min: begin, until_min: end });
        (day, begin) = (next, end);
    }
    Ok(days)
}

/// Dates are written in one way only: what prints otherwise than it was read is refused.
fn date(text: &str) -> Option<Date> {
    text.parse::<Date>().ok().filter(|date| date.to_string() == text)
}

/// The first minute of a day: midnight, or, where the clocks skip midnight, the first instant
/// after. Offsets that are no whole quarters of an hour ended in 1972; before, the quarter that
/// the day begins in is taken.
fn start(zone: &TimeZone, day: Date) -> Result<i64, BadDays> {
    let start = day.to_zoned_datetime(zone.clone()).map_err(|_| BadDays::Beyond)?;
    let minute = start.timestamp().as_microsecond().div_euclid(MINUTE_US);
    Ok(minute.div_euclid(QUARTER_MIN) * QUARTER_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(zone: &str, first: &str, last: &str) -> Vec<Day> {
        cut(&TimeZone::get(zone).unwrap(), first, last).unwrap()
    }

    fn minute(instant: &str) -> i64 {
        instant.parse::<jiff::Timestamp>().unwrap().as_second() / 60
    }

    #[test]
    fn a_day_begins_and_ends_where_its_zone_says() {
        let day = days("America/Chicago", "2026-09-07", "2026-09-07")[0];
        assert_eq!(day.from_min, minute("2026-09-07T05:00:00Z"));
        assert_eq!(day.until_min, minute("2026-09-08T05:00:00Z"));
        let late = minute("2026-09-08T02:23:34Z");
        assert!((day.from_min..day.until_min).contains(&late));
        let day = days("America/New_York", "2015-11-01", "2015-11-01")[0];
        assert_eq!(day.from_min, minute("2015-11-01T04:00:00Z"));
    }

    #[test]
    fn days_have_as_many_hours_as_the_clocks_show() {
        for (zone, day, minutes) in [
            ("America/Detroit", "2016-03-13", 23 * 60),
            ("America/New_York", "2018-11-04", 25 * 60),
            ("Europe/London", "2019-10-27", 25 * 60),
            // Half an hour of summer time.
            ("Australia/Lord_Howe", "2026-04-05", 24 * 60 + 30),
            // Midnight is skipped: the day begins at one.
            ("America/Sao_Paulo", "2018-11-04", 23 * 60),
            // A day that never was.
            ("Pacific/Apia", "2011-12-30", 0),
            ("Asia/Kathmandu", "2026-01-01", 24 * 60),
            ("UTC", "2026-01-01", 24 * 60),
        ] {
            let day = days(zone, day, day)[0];
            assert_eq!(day.until_min - day.from_min, minutes, "{zone} {}", day.date);
            assert_eq!(day.from_min % 15, 0);
        }
    }

    #[test]
    fn days_leave_no_gap() {
        for zone in ["Europe/Vienna", "Pacific/Apia", "America/Havana", "Africa/Casablanca"] {
            let days = days(zone, "2011-06-01", "2012-06-30");
            assert_eq!(days.len(), 396);
            assert!(days.windows(2).all(|pair| pair[0].until_min == pair[1].from_min), "{zone}");
        }
    }

    #[test]
    fn what_is_no_range_of_days_is_refused() {
        let refused = |first: &str, last: &str| cut(&TimeZone::UTC, first, last).unwrap_err();
        for bad in ["", "2026-11-31", "20261130", "2026-11-30T00:00", "26-11-30", "+002026-11-30"] {
            assert_eq!(refused(bad, "2026-11-30"), BadDays::First(bad.to_owned()));
            assert_eq!(refused("2026-11-30", bad), BadDays::Last(bad.to_owned()));
        }
        let order = refused("2026-11-30", "2026-11-29");
        assert!(matches!(order, BadDays::Order(_)), "{order}");
        assert_eq!(refused("2025-01-01", "2026-02-05"), BadDays::TooMany(401));
        assert_eq!(cut(&TimeZone::UTC, "2025-01-01", "2026-02-04").unwrap().len(), 400);
        assert_eq!(refused("9999-12-31", "9999-12-31"), BadDays::Beyond);
    }
}
