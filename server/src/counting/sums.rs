//! From events to the rows that they are added to.

use std::collections::BTreeMap;

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::promise::Promise;
use crate::events::{Event, Kind};
use crate::ports::{Counts, IdLife, Tally};

/// Minutes of a quarter of an hour.
pub const QUARTER_MIN: i64 = 15;

/// A sum that no 64 bits hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sum of counts or money does not fit 64 bits")]
pub struct Overflow;

/// An ad's minute: account, minute of Unix time, ad.
pub type MinuteKey = (AccountSerial, i64, AdSerial);
/// An ad's quarter of an hour in a zone: account, quarter of Unix time, zone, ad.
pub type QuarterKey = (AccountSerial, i64, ZoneSerial, AdSerial);

/// What a step adds to the counts, by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Events in time.
    pub minutes: BTreeMap<MinuteKey, Counts>,
    /// Late ones.
    pub late: BTreeMap<MinuteKey, Counts>,
    /// All of them.
    pub quarters: BTreeMap<QuarterKey, Counts>,
}

/// What counting `event` takes; nothing where it is not counted, as it is not a person's. Either
/// way it moves `promise`. `now_us`: when the log took it.
pub fn tally(event: &Event, promise: &mut Promise, now_us: i64) -> Option<Tally> {
    let is_late = promise.takes(event.at_us, now_us);
    if event.filtered_by.is_some() {
        return None;
    }
    let life = match (event.kind, event.tag.is_empty()) {
        (Kind::Conversion, _) => IdLife::Conversion,
        (_, true) => IdLife::Short,
        (_, false) => IdLife::ForGood,
    };
    Some(Tally {
        id: event.id(),
        life,
        kind: event.kind,
        account: event.showing.account,
        zone: event.showing.zone,
        ad: event.showing.ad,
        minute: event.at_us.div_euclid(60_000_000),
        price_nanos: event.price_nanos(),
        is_late,
    })
}

impl Sums {
    /// The sums over `tallies`, which are all different.
    ///
    /// # Errors
    /// [`Overflow`]
    pub fn of<'t>(tallies: impl IntoIterator<Item = &'t Tally>) -> Result<Self, Overflow> {
        let mut sums = Self::default();
        for tally in tallies {
            let minute = (tally.account, tally.minute, tally.ad);
            let minutes = if tally.is_late { &mut sums.late } else { &mut sums.minutes };
            add(minutes.entry(minute).or_default(), tally)?;
            let quarter = tally.minute.div_euclid(QUARTER_MIN);
            let quarter = (tally.account, quarter, tally.zone, tally.ad);
            add(sums.quarters.entry(quarter).or_default(), tally)?;
        }
        Ok(sums)
    }
}

fn add(counts: &mut Counts, tally: &Tally) -> Result<(), Overflow> {
    let count = match tally.kind {
        Kind::Impression => &mut counts.impressions,
        Kind::Click => &mut counts.clicks,
        Kind::Conversion => &mut counts.conversions,
    };
    *count = count.checked_add(1).ok_or(Overflow)?;
    counts.spend_nanos = counts.spend_nanos.checked_add(tally.price_nanos).ok_or(Overflow)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{PriceKind, Showing};

    const MIN: i64 = 60_000_000;

    fn event(kind: Kind, decision: u64, at_us: i64) -> Event {
        let showing = Showing {
            decision,
            slot: 0,
            issued_at_ms: 0,
            price_nanos: 5,
            price_kind: PriceKind::Click,
            on_impression: false,
            visitor: None,
            account: AccountSerial(1),
            zone: ZoneSerial(2),
            ad: AdSerial(3),
        };
        Event { kind, showing, at_us, tag: String::new(), value_micros: 9, filtered_by: None }
    }

    fn all(events: &[Event]) -> Vec<Tally> {
        let mut promise = Promise::at(0);
        events.iter().filter_map(|event| tally(event, &mut promise, i64::MAX)).collect()
    }

    #[test]
    fn minutes_and_late_ones_make_the_quarters() {
        let events = [
            event(Kind::Impression, 1, 29 * MIN),
            event(Kind::Click, 1, 30 * MIN - 1),
            event(Kind::Click, 2, 30 * MIN),
            event(Kind::Conversion, 2, 27 * MIN),
        ];
        let sums = Sums::of(&all(&events)).unwrap();
        let counts = |impressions, clicks, conversions, spend_nanos| Counts {
            impressions,
            clicks,
            conversions,
            spend_nanos,
        };
        let minute = |minute| (AccountSerial(1), minute, AdSerial(3));
        let quarter = |quarter| (AccountSerial(1), quarter, ZoneSerial(2), AdSerial(3));
        let minutes = [(minute(29), counts(1, 1, 0, 5)), (minute(30), counts(0, 1, 0, 5))];
        assert_eq!(sums.minutes, BTreeMap::from(minutes));
        assert_eq!(sums.late, BTreeMap::from([(minute(27), counts(0, 0, 1, 0))]));
        let quarters = [(quarter(1), counts(1, 1, 1, 5)), (quarter(2), counts(0, 1, 0, 5))];
        assert_eq!(sums.quarters, BTreeMap::from(quarters));
    }

    #[test]
    fn what_is_filtered_is_not_counted_and_moves_the_promise() {
        let bot = Event { filtered_by: Some("bots 1".into()), ..event(Kind::Click, 1, 10 * MIN) };
        let tallies = all(&[bot, event(Kind::Click, 2, 8 * MIN - 1)]);
        assert_eq!(tallies.len(), 1);
        assert!(tallies[0].is_late);
    }

    #[test]
    fn ids_live_by_what_they_are_of() {
        let line = |kind| Event { tag: "file:1".into(), ..event(kind, 1, 0) };
        let lives: Vec<_> = all(&[
            event(Kind::Impression, 1, 0),
            event(Kind::Click, 1, 0),
            event(Kind::Conversion, 1, 0),
            line(Kind::Impression),
            line(Kind::Click),
            line(Kind::Conversion),
        ])
        .iter()
        .map(|tally| tally.life)
        .collect();
        use IdLife::{Conversion, ForGood, Short};
        assert_eq!(lives, [Short, Short, Conversion, ForGood, ForGood, Conversion]);
    }

    #[test]
    fn minutes_before_1970_are_whole_too() {
        assert_eq!(all(&[event(Kind::Click, 1, -1)])[0].minute, -1);
    }

    #[test]
    fn money_that_does_not_fit_is_an_error() {
        let mut dear = event(Kind::Click, 1, 0);
        dear.showing.price_nanos = i64::MAX;
        let mut cheap = event(Kind::Click, 2, 0);
        cheap.showing.price_nanos = 1;
        assert!(Sums::of(&all(&[dear.clone()])).is_ok());
        assert_eq!(Sums::of(&all(&[dear, cheap])), Err(Overflow));
    }
}
