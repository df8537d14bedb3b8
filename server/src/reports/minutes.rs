//! Minutes: every one of a range, and those of the present as they change.

use std::collections::BTreeMap;

use super::MINUTE_US;
use crate::limits::{WATCH_LATE_MINUTES, WATCH_MINUTES_MAX};
use crate::ports::{Counts, MinuteRow};

/// A minute, whether anything happened in it or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minute {
    /// Which, in minutes of Unix time.
    pub minute: i64,
    /// What came in time.
    pub counts: Counts,
    /// What came too late for it.
    pub late: Counts,
    /// Whether `counts` will never change again.
    pub is_closed: bool,
}

/// Whether `minute` ended by the instant before which nothing comes in time any more.
pub fn is_closed(minute: i64, promised_us: i64) -> bool {
    minute < last_closed(promised_us)
}

/// The first minute that is not closed.
pub fn last_closed(promised_us: i64) -> i64 {
    promised_us.div_euclid(MINUTE_US)
}

/// Every minute of [from, until), those without a row as zeros. `promised_us` must have been read
/// before `rows`: what a minute is closed with is then in them.
pub fn fill(
    rows: &[MinuteRow],
    from_min: i64,
    until_min: i64,
    promised_us: i64,
) -> impl Iterator<Item = Minute> {
    let mut rows = rows.iter().skip_while(move |row| row.minute < from_min).peekable();
    (from_min..until_min).map(move |minute| {
        let row = rows.next_if(|row| row.minute == minute);
        Minute {
            minute,
            counts: row.map(|row| row.counts).unwrap_or_default(),
            late: row.map(|row| row.late).unwrap_or_default(),
            is_closed: is_closed(minute, promised_us),
        }
    })
}

/// What a watcher has seen of the minutes that may still change.
#[derive(Debug, Default)]
pub struct Watched(BTreeMap<i64, Minute>);

impl Watched {
    /// Which minutes to look at: from a while before the first open one, as late events still
    /// come there, to what a clock ahead of ours can have stamped.
    pub fn range(now_us: i64, promised_us: i64) -> (i64, i64) {
        let now_min = now_us.div_euclid(MINUTE_US);
        let from_min = last_closed(promised_us) - WATCH_LATE_MINUTES;
        (from_min.clamp(now_min - WATCH_MINUTES_MAX, now_min), now_min + 2)
    }

    /// What of `minutes`, which are in order, is other than it was seen last. An open minute
    /// without an event is nothing new; that it closed is.
    pub fn news(&mut self, minutes: impl Iterator<Item = Minute>) -> Vec<Minute> {
        let mut news = Vec::new();
        let mut first = None;
        for minute in minutes {
            first.get_or_insert(minute.minute);
            let nothing = Minute {
                counts: Counts::default(),
                late: Counts::default(),
                is_closed: false,
                ..minute
            };
            if *self.0.get(&minute.minute).unwrap_or(&nothing) != minute {
                self.0.insert(minute.minute, minute);
                news.push(minute);
            }
        }
        if let Some(first) = first {
            self.0 = self.0.split_off(&first);
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clicks(clicks: u64) -> Counts {
        Counts { clicks, ..Counts::default() }
    }

    fn row(minute: i64, on_time: u64, late: u64) -> MinuteRow {
        MinuteRow { minute, counts: clicks(on_time), late: clicks(late) }
    }

    #[test]
    fn every_minute_is_there_and_closed_once_its_end_is_promised() {
        let rows = [row(8, 9, 0), row(10, 2, 1), row(12, 3, 0), row(13, 7, 0)];
        let minutes: Vec<_> = fill(&rows, 10, 13, 12 * MINUTE_US - 1).collect();
        let seen: Vec<_> = minutes
            .iter()
            .map(|m| (m.minute, m.counts.clicks, m.late.clicks, m.is_closed))
            .collect();
        assert_eq!(seen, [(10, 2, 1, true), (11, 0, 0, false), (12, 3, 0, false)]);
        assert!(is_closed(11, 12 * MINUTE_US) && !is_closed(11, 12 * MINUTE_US - 1));
        assert!(is_closed(-2, -MINUTE_US) && !is_closed(-1, -1));
    }

    #[test]
    fn a_watcher_sees_each_change_once() {
        let mut watched = Watched::default();
        let mut look = |rows: &[MinuteRow], from, until, promised_min: i64| {
            let news = watched.news(fill(rows, from, until, promised_min * MINUTE_US));
            news.iter()
                .map(|m| (m.minute, m.counts.clicks, m.late.clicks, m.is_closed))
                .collect::<Vec<_>>()
        };
        assert_eq!(look(&[row(10, 2, 0)], 9, 13, 9), [(10, 2, 0, false)]);
        assert_eq!(look(&[row(10, 2, 0)], 9, 13, 9), []);
        assert_eq!(
            look(&[row(10, 3, 0), row(12, 1, 0)], 9, 13, 9),
            [(10, 3, 0, false), (12, 1, 0, false)]
        );
        // Closing is a change, also of a minute in which nothing happened.
        let rows = [row(10, 3, 0), row(12, 1, 0)];
        assert_eq!(look(&rows, 9, 13, 12), [(9, 0, 0, true), (10, 3, 0, true), (11, 0, 0, true)]);
        assert_eq!(look(&[row(10, 3, 4), row(12, 1, 0)], 10, 14, 12), [(10, 3, 4, true)]);
    }

    #[test]
    fn a_watcher_looks_at_what_may_change_and_at_no_more_than_a_day() {
        let now_us = 100_000 * MINUTE_US + 1;
        assert_eq!(Watched::range(now_us, 99_998 * MINUTE_US), (99_983, 100_002));
        assert_eq!(Watched::range(now_us, 0), (100_000 - 1_440, 100_002));
        assert_eq!(Watched::range(now_us, i64::MIN), (100_000 - 1_440, 100_002));
        assert_eq!(Watched::range(now_us, i64::MAX), (100_000, 100_002));
    }
}
