//! Stats against sums that are made by hand, one event after another.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::*;
use crate::events::{Event, Kind};
use crate::limits::STATS_ROWS_MAX;
use crate::ports::{CountReader, Counts, MinuteQuery, MinuteRow, PairRow, StoreError};
use crate::serials::{NamedAd, NamedZone, Serials};
use crate::testing::MemoryLedger;
use crate::tokens::{PriceKind, Showing};

const ACCOUNT: AccountSerial = AccountSerial(1);
const DIMENSIONS: [Dimension; 5] =
    [Dimension::Day, Dimension::Site, Dimension::Zone, Dimension::Campaign, Dimension::Ad];

/// Zones 1 to 4 on two sites, two of which bear one name; ads 1 to 6 of three campaigns, of which
/// the first two bear one name: it was made again. Ad 7 and zone 5 have no name any more.
fn serials() -> Serials {
    let serials = Serials::default();
    for (serial, site, id) in [(1, "s", "top"), (2, "s", "side"), (3, "t", "top"), (4, "t", "foot")]
    {
        serials.put_zone(NamedZone {
            serial: ZoneSerial(serial),
            site: site.into(),
            id: id.into(),
        });
    }
    let ads = [
        (1, "x:1", "a"),
        (2, "x:1", "a"),
        (3, "x:1", "b"),
        (4, "x:2", "a"),
        (5, "=1+1", "<b>x</b>"),
    ];
    for (serial, campaign, unit) in ads {
        serials.put_ad(NamedAd {
            serial: AdSerial(serial),
            campaign: campaign.into(),
            unit: unit.into(),
            landing_url: "".into(),
            markup: "".into(),
        });
    }
    serials
}

fn name_of_zone(zone: ZoneSerial) -> [&'static str; 2] {
    [["s", "top"], ["s", "side"], ["t", "top"], ["t", "foot"], ["#", "#5"]][zone.0 as usize - 1]
}

fn name_of_ad(ad: AdSerial) -> [&'static str; 2] {
    let names =
        [["x:1", "a"], ["x:1", "a"], ["x:1", "b"], ["x:2", "a"], ["=1+1", "<b>x</b>"], ["#", "#6"]];
    names[ad.0 as usize - 1]
}

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn event(&mut self, decision: u64, from_s: i64, length_s: u64) -> Event {
        let at_us = (from_s + i64::try_from(self.below(length_s)).unwrap()) * 1_000_000;
        let serial = |n: u64| u32::try_from(n).unwrap() + 1;
        Event {
            kind: [Kind::Impression, Kind::Click, Kind::Conversion]
                [usize::try_from(self.below(3)).unwrap()],
            showing: Showing {
                decision,
                slot: 0,
                issued_at_ms: at_us / 1_000,
                price_nanos: 1 + i64::try_from(self.below(5_000_000)).unwrap(),
                price_kind: [PriceKind::Free, PriceKind::Impression, PriceKind::Click]
                    [usize::try_from(self.below(3)).unwrap()],
                on_impression: false,
                visitor: None,
                account: AccountSerial(serial(self.below(10) / 9)),
                zone: ZoneSerial(serial(self.below(5))),
                ad: AdSerial(serial(self.below(6))),
            },
            at_us,
            tag: String::new(),
            value_micros: 0,
            filtered_by: None,
        }
    }
}

fn counts_of(event: &Event) -> Counts {
    let of = |kind| u64::from(event.kind == kind);
    Counts {
        impressions: of(Kind::Impression),
        clicks: of(Kind::Click),
        conversions: of(Kind::Conversion),
        spend_nanos: event.price_nanos(),
    }
}

/// Sums the events of the account whose local date lies in the range, keyed as the contract says.
fn by_hand(
    events: &[Event],
    zone: &TimeZone,
    [first, last]: [&str; 2],
    filter: &Filter,
    group_by: &[Dimension],
) -> BTreeMap<[String; 5], Counts> {
    let mut sums = BTreeMap::<_, Counts>::new();
    for event in events.iter().filter(|event| event.showing.account == ACCOUNT) {
        let at = Timestamp::from_microsecond(event.at_us).unwrap();
        let day = zone.to_datetime(at).date().to_string();
        let [site, slot] = name_of_zone(event.showing.zone);
        let [campaign, unit] = name_of_ad(event.showing.ad);
        let wanted = [&filter.site, &filter.zone, &filter.campaign, &filter.unit];
        let named = [site, slot, campaign, unit];
        if &*day < first
            || &*day > last
            || wanted
                .iter()
                .zip(named)
                .any(|(wanted, name)| !wanted.is_empty() && &***wanted != name)
        {
            continue;
        }
        let shown = |by: &[Dimension], name: &str, wanted: &str| {
            let is_shown = by.iter().any(|by| group_by.contains(by));
            if is_shown { name.to_owned() } else { wanted.to_owned() }
        };
        let key = [
            shown(&[Dimension::Day], &day, ""),
            shown(&[Dimension::Site, Dimension::Zone], site, &filter.site),
            shown(&[Dimension::Zone], slot, &filter.zone),
            shown(&[Dimension::Campaign, Dimension::Ad], campaign, &filter.campaign),
            shown(&[Dimension::Ad], unit, &filter.unit),
        ];
        let sum = sums.entry(key).or_default();
        *sum = sum.plus(counts_of(event));
    }
    sums
}

fn key(of: &Of) -> [String; 5] {
    [&of.day, &of.site, &of.zone, &of.campaign, &of.unit].map(|name| name.to_string())
}

fn filters() -> Vec<Filter> {
    let filter = |site: &str, zone: &str, campaign: &str, unit: &str| Filter {
        site: site.into(),
        zone: zone.into(),
        campaign: campaign.into(),
        unit: unit.into(),
    };
    vec![
        filter("", "", "", ""),
        filter("s", "", "", ""),
        filter("t", "top", "", ""),
        filter("", "", "x:1", ""),
        filter("", "", "x:1", "a"),
        filter("s", "", "x:1", "b"),
        filter("s", "side", "=1+1", "<b>x</b>"),
        filter("t", "foot", "nobody:1", "none"),
    ]
}

async fn asked(
    ledger: &MemoryLedger,
    zone: &TimeZone,
    [first, last]: [&str; 2],
    filter: &Filter,
    group_by: &[Dimension],
) -> StatsTable {
    let days = cut(zone, first, last).unwrap();
    let query =
        StatsQuery { account: ACCOUNT, filter: filter.clone(), days, group_by: group_by.to_vec() };
    stats(ledger, &serials(), &query).await.unwrap()
}

/// Every combination of dimensions, over days on which clocks change.
#[tokio::test]
async fn every_cross_section_is_what_adding_up_gives_and_all_have_one_total() {
    for (seed, (name, first, last)) in (0..).zip([
        ("UTC", "2026-11-28", "2026-12-02"),
        ("America/New_York", "2018-11-02", "2018-11-06"),
        ("America/Detroit", "2016-03-11", "2016-03-15"),
        ("Europe/London", "2019-10-25", "2019-10-29"),
        ("Asia/Kathmandu", "2026-11-28", "2026-12-02"),
    ]) {
        let zone = TimeZone::get(name).unwrap();
        let from_s = first.parse::<jiff::civil::Date>().unwrap().to_zoned_datetime(TimeZone::UTC);
        let from_s = from_s.unwrap().timestamp().as_second() - 86_400;
        let mut dice = Dice(seed);
        let events: Vec<_> =
            (0..400).map(|decision| dice.event(decision, from_s, 7 * 86_400)).collect();
        let ledger = MemoryLedger::new();
        // Some are late; a day has them all the same.
        for (at, event) in events.iter().enumerate() {
            ledger.promise(if at.is_multiple_of(3) { i64::MAX } else { 0 });
            ledger.count(event);
        }
        for filter in filters() {
            let total = asked(&ledger, &zone, [first, last], &filter, &[]).await.total;
            for combination in 0..32_u32 {
                let group_by: Vec<_> =
                    (0..).zip(DIMENSIONS).filter(|(at, _)| combination >> at & 1 == 1).collect();
                let group_by: Vec<_> = group_by.into_iter().map(|(_, by)| by).collect();
                let table = asked(&ledger, &zone, [first, last], &filter, &group_by).await;
                let expected = by_hand(&events, &zone, [first, last], &filter, &group_by);
                let busy = table.rows.iter().filter(|(_, counts)| *counts != Counts::default());
                let busy: BTreeMap<_, _> = busy.map(|(of, counts)| (key(of), *counts)).collect();
                let told = format!("{name} {filter:?} {group_by:?}");
                assert_eq!(busy, expected, "{told}");
                let added = expected.values().fold(Counts::default(), |sum, c| sum.plus(*c));
                assert_eq!((table.total, total), (added, added), "{told}");
                assert!(table.rows.is_sorted_by(|a, b| a.0 < b.0), "{told}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_named_and_idle_is_a_row_of_zeros_and_an_empty_sum_is_0() {
    let ledger = MemoryLedger::new();
    let days = ["2026-11-29", "2026-11-30"];
    let ask = async |filter: Filter, group_by: &[Dimension]| {
        let table = asked(&ledger, &TimeZone::UTC, days, &filter, group_by).await;
        assert!(table.rows.iter().all(|(_, counts)| *counts == Counts::default()));
        assert_eq!(table.total, Counts::default());
        table.rows.iter().map(|(of, _)| key(of).join("|")).collect::<Vec<_>>()
    };
    assert_eq!(ask(Filter::default(), &[]).await, ["||||"]);
    assert_eq!(
        ask(Filter::default(), &[Dimension::Day]).await,
        ["2026-11-29||||", "2026-11-30||||"]
    );
    assert_eq!(ask(Filter::default(), &[Dimension::Ad]).await, Vec::<String>::new());
    let campaign = Filter { campaign: "x:1".into(), ..Filter::default() };
    assert_eq!(ask(campaign.clone(), &[Dimension::Ad]).await, ["|||x:1|a", "|||x:1|b"]);
    assert_eq!(ask(campaign.clone(), &[Dimension::Campaign]).await, ["|||x:1|"]);
    assert_eq!(ask(campaign.clone(), &[Dimension::Zone]).await, Vec::<String>::new());
    let ad = Filter { unit: "b".into(), ..campaign };
    assert_eq!(
        ask(ad, &[Dimension::Day, Dimension::Ad]).await,
        ["2026-11-29|||x:1|b", "2026-11-30|||x:1|b"]
    );
}

/// A reader that has one ad in more zones than an answer may have rows.
struct Crowd;

#[async_trait::async_trait]
impl CountReader for Crowd {
    async fn minutes(&self, _: &MinuteQuery) -> Result<Vec<MinuteRow>, StoreError> {
        Ok(Vec::new())
    }

    async fn pairs(&self, _: AccountSerial, _: i64, _: i64) -> Result<Vec<PairRow>, StoreError> {
        let pair =
            |zone| PairRow { zone: ZoneSerial(zone), ad: AdSerial(1), counts: Counts::default() };
        Ok((10..).take(STATS_ROWS_MAX + 1).map(pair).collect())
    }

    async fn promised_us(&self) -> Result<i64, StoreError> {
        Ok(0)
    }
}

#[tokio::test]
async fn too_many_rows_are_refused_and_their_sum_is_not() {
    let days = cut(&TimeZone::UTC, "2026-11-30", "2026-11-30").unwrap();
    let mut query = StatsQuery {
        account: ACCOUNT,
        filter: Filter::default(),
        days,
        group_by: vec![Dimension::Zone],
    };
    let refused = stats(&Crowd, &serials(), &query).await;
    assert!(matches!(refused, Err(StatsError::TooManyRows)));
    query.group_by = vec![Dimension::Ad];
    assert_eq!(stats(&Crowd, &serials(), &query).await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn the_top_is_of_the_minutes_that_were_asked_for() {
    let ledger = MemoryLedger::new();
    let now_us = 1_796_040_000_000_000;
    let mut decision = 0;
    let mut clicks = |ad: u32, count: u64, minutes_ago: i64, is_late: bool| {
        ledger.promise(if is_late { i64::MAX } else { 0 });
        for _ in 0..count {
            decision += 1;
            let mut event = Dice(1).event(decision, 0, 1);
            event.kind = Kind::Click;
            event.at_us = now_us - minutes_ago * MINUTE_US;
            (event.showing.ad, event.showing.account) = (AdSerial(ad), ACCOUNT);
            ledger.count(&event);
        }
    };
    // Of two numbers that bear one name; one of the events is late.
    clicks(1, 3, 0, false);
    clicks(2, 1, 9, true);
    clicks(3, 3, 9, false);
    // Just before: in the same quarter, and not in the minutes.
    clicks(4, 20, 10, false);
    clicks(4, 1, 9, false);
    clicks(5, 3, 2, false);
    let query = TopQuery { account: ACCOUNT, kind: Kind::Click, count: 3, minutes: 10, now_us };
    let top_of = async |query| {
        let ads = top(&*ledger, &serials(), query).await.unwrap();
        ads.into_iter().map(|ad| (ad.campaign.to_string() + "/" + &ad.unit, ad.events)).collect()
    };
    let all: Vec<(String, u64)> = top_of(TopQuery { count: 9, ..query }).await;
    let named = |pairs: &[(&str, u64)]| {
        pairs.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<Vec<_>>()
    };
    assert_eq!(all, named(&[("x:1/a", 4), ("=1+1/<b>x</b>", 3), ("x:1/b", 3), ("x:2/a", 1)]));
    let none: Vec<_> = top_of(TopQuery { kind: Kind::Impression, ..query }).await;
    assert_eq!(none, named(&[]));
}
