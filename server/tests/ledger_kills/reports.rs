//! What the admin door reports, held against the sender's book.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use slotwise_proto::v1::report_service_client::ReportServiceClient;
use slotwise_proto::v1::{
    Counts, GetStatsRequest, ListMinutesRequest, MinuteCount, StatsDimension, StatsRow,
};
use tonic::Status;
use tonic::transport::Channel;

use crate::book::{Book, Sum};
use crate::child::Doors;
use crate::lines::Lines;
use crate::random::Random;
use crate::replays::BACK_S;
use crate::sender::{Sender, is_broken_off, now_us, stamp};
use crate::world::{CAMPAIGNS, Cell, UNITS};

/// Nothing here takes so long, on however slow a machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const MINUTE_S: i64 = 60;
const DAY_S: i64 = 86_400;

/// The admin door of a node.
pub struct Reports {
    client: ReportServiceClient<Channel>,
    /// Nothing of the round is outside of these minutes.
    from_min: i64,
    until_min: i64,
}

impl Reports {
    /// For a round that began a moment ago.
    pub fn of(node: Doors, lines: &mut Lines, began_us: i64) -> Self {
        let from_min = began_us / 60_000_000 - i64::try_from(BACK_S).unwrap() / MINUTE_S - 1;
        // An event may be said to come from a minute ahead.
        let until_min = now_us() / 60_000_000 + 3;
        Self { client: ReportServiceClient::new(lines.to(node.admin)), from_min, until_min }
    }

    async fn stats(&mut self, group_by: &[StatsDimension]) -> Result<Vec<StatsRow>, Status> {
        let day = |minute: i64| {
            let at = jiff::Timestamp::from_second(minute * MINUTE_S).unwrap();
            jiff::tz::TimeZone::UTC.to_datetime(at).date().to_string()
        };
        let request = GetStatsRequest {
            account_id: "a".into(),
            first_day: day(self.from_min),
            last_day: day(self.until_min),
            group_by: group_by.iter().map(|by| (*by).into()).collect(),
            page_size: 1_000,
            ..GetStatsRequest::default()
        };
        let answer = self.client.get_stats(request).await?.into_inner();
        assert_eq!(answer.next_page_token, "");
        let sum = answer.rows.iter().fold(Sum::default(), |sum, row| sum.plus(sum_of(&row.counts)));
        assert_eq!(sum, sum_of(&answer.total), "the rows add up to the total");
        Ok(answer.rows)
    }

    async fn minutes(&mut self, campaign: &str, unit: &str) -> Result<Vec<MinuteCount>, Status> {
        let request = ListMinutesRequest {
            account_id: "a".into(),
            campaign_id: campaign.into(),
            ad_unit_id: unit.into(),
            start_time: Some(stamp(self.from_min * 60_000_000)),
            end_time: Some(stamp(self.until_min * 60_000_000)),
            ..ListMinutesRequest::default()
        };
        let answer = self.client.list_minutes(request).await?.into_inner();
        assert_eq!(answer.next_page_token, "");
        Ok(answer.minutes)
    }

    /// Everything that was counted.
    pub async fn total(&mut self) -> Sum {
        sum_of(&self.stats(&[]).await.unwrap()[0].counts)
    }

    /// Waits until what was counted is what is in the book.
    pub async fn come_to(&mut self, book: &BTreeMap<Cell, Sum>) {
        let (lowest, began) = ([StatsDimension::Zone, StatsDimension::Ad], Instant::now());
        loop {
            match self.stats(&lowest).await {
                Ok(rows) => {
                    let counted = by_cell(&rows);
                    if counted == *book {
                        return;
                    }
                    let difference = difference(&counted, book);
                    let is_too_much = counted.iter().any(|(cell, sum)| sum.exceeds(of(book, cell)));
                    assert!(!is_too_much, "counted twice:\n{difference}");
                    assert!(began.elapsed() < PATIENCE, "lost:\n{difference}");
                }
                Err(status) => {
                    is_broken_off(&status);
                    assert!(began.elapsed() < PATIENCE, "{status}");
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Holds every report against the book, with which the lowest level agrees; returns how many
    /// events were late.
    pub async fn check(&mut self, book: &Book) -> u64 {
        let cells = book.cells();
        let minutes = self.minutes("", "").await.unwrap();
        let mut days = BTreeMap::<i64, Sum>::new();
        for minute in &minutes {
            let day = days.entry(seconds(minute).div_euclid(DAY_S)).or_default();
            *day = day.plus(sum_of(&minute.counts)).plus(sum_of(&minute.late));
        }
        self.check_sections(&cells, &days).await;
        if let Some(book) = book.minutes() {
            let counted: BTreeMap<_, _> = minutes
                .iter()
                .map(|m| (seconds(m) / MINUTE_S, sum_of(&m.counts).plus(sum_of(&m.late))))
                .filter(|(_, sum)| *sum != Sum::default())
                .collect();
            assert_eq!(counted, book, "each minute has what happened in it");
        }
        for campaign in CAMPAIGNS {
            for unit in UNITS.into_iter().chain([""]) {
                let minutes = self.minutes(campaign, unit).await.unwrap();
                let counted = minutes.iter().fold(Sum::default(), |sum, minute| {
                    sum.plus(sum_of(&minute.counts)).plus(sum_of(&minute.late))
                });
                let is_of = |cell: &Cell| {
                    cell.campaign == campaign && (unit.is_empty() || cell.unit == unit)
                };
                let book = total(cells.iter().filter(|(cell, _)| is_of(cell)));
                assert_eq!(counted, book, "the minutes of {campaign} {unit}");
            }
        }
        minutes.iter().map(|minute| sum_of(&minute.late).events()).sum()
    }

    /// Nine cross sections, each with and without days.
    async fn check_sections(&mut self, cells: &BTreeMap<Cell, Sum>, days: &BTreeMap<i64, Sum>) {
        use StatsDimension::{Ad, Campaign, Day, Site, Zone};
        for place in [None, Some(Site), Some(Zone)] {
            for what in [None, Some(Campaign), Some(Ad)] {
                let mut book = BTreeMap::<Cell, Sum>::new();
                for (cell, sum) in cells {
                    let name = |is_there: bool, name: &String| {
                        if is_there { name.clone() } else { String::new() }
                    };
                    let section = book
                        .entry(Cell {
                            site: name(place.is_some(), &cell.site),
                            zone: name(place == Some(Zone), &cell.zone),
                            campaign: name(what.is_some(), &cell.campaign),
                            unit: name(what == Some(Ad), &cell.unit),
                        })
                        .or_default();
                    *section = section.plus(*sum);
                }
                for by_day in [None, Some(Day)] {
                    let group_by: Vec<_> = [by_day, place, what].into_iter().flatten().collect();
                    let rows = self.stats(&group_by).await.unwrap();
                    assert_eq!(by_cell(&rows), book, "{group_by:?}");
                    if by_day.is_some() {
                        assert_eq!(by_day_of(&rows), with_something(days), "{group_by:?}");
                    }
                }
            }
        }
    }
}

/// Looks at the minutes all the time: what is closed does not change, whatever is killed.
pub async fn watch(sender: &Sender, mut random: Random, began_us: i64) {
    let (mut closed, mut lines) = (BTreeMap::<i64, Sum>::new(), Lines::default());
    while !sender.is_finishing() {
        tokio::time::sleep(LOOK_AGAIN).await;
        let Some(node) = sender.node(&mut random) else { continue };
        let mut reports = Reports::of(node, &mut lines, began_us);
        let looking = reports.minutes("", "");
        let minutes = match tokio::time::timeout(Duration::from_secs(4), looking).await {
            Ok(Ok(minutes)) => minutes,
            Ok(Err(status)) => {
                is_broken_off(&status);
                continue;
            }
            Err(_) => continue,
        };
        for minute in minutes.iter().filter(|minute| minute.closed) {
            let counts = sum_of(&minute.counts);
            let was = *closed.entry(seconds(minute)).or_insert(counts);
            assert_eq!(counts, was, "a closed minute has changed: {minute:?}");
        }
    }
}

fn sum_of(counts: &Option<Counts>) -> Sum {
    let Counts { impressions, clicks, conversions, spend_nanos } = counts.unwrap_or_default();
    Sum { impressions, clicks, conversions, spend_nanos }
}

fn seconds(minute: &MinuteCount) -> i64 {
    minute.minute.unwrap().seconds
}

fn of(book: &BTreeMap<Cell, Sum>, cell: &Cell) -> Sum {
    book.get(cell).copied().unwrap_or_default()
}

fn total<'a>(cells: impl Iterator<Item = (&'a Cell, &'a Sum)>) -> Sum {
    cells.fold(Sum::default(), |all, (_, sum)| all.plus(*sum))
}

/// Days put together; rows of nothing are left out.
fn by_cell(rows: &[StatsRow]) -> BTreeMap<Cell, Sum> {
    let mut cells = BTreeMap::<Cell, Sum>::new();
    for row in rows {
        let cell = Cell {
            site: row.site_id.clone(),
            zone: row.zone_id.clone(),
            campaign: row.campaign_id.clone(),
            unit: row.ad_unit_id.clone(),
        };
        let sum = cells.entry(cell).or_default();
        *sum = sum.plus(sum_of(&row.counts));
    }
    with_something(&cells)
}

fn by_day_of(rows: &[StatsRow]) -> BTreeMap<i64, Sum> {
    let mut days = BTreeMap::<i64, Sum>::new();
    for row in rows {
        let midnight: jiff::Timestamp = format!("{}T00:00:00Z", row.day).parse().unwrap();
        let day = days.entry(midnight.as_second() / DAY_S).or_default();
        *day = day.plus(sum_of(&row.counts));
    }
    with_something(&days)
}

fn with_something<K: Ord + Clone>(sums: &BTreeMap<K, Sum>) -> BTreeMap<K, Sum> {
    let some = sums.iter().filter(|(_, sum)| **sum != Sum::default());
    some.map(|(key, sum)| (key.clone(), *sum)).collect()
}

fn difference(counted: &BTreeMap<Cell, Sum>, book: &BTreeMap<Cell, Sum>) -> String {
    let cells = book.keys().chain(counted.keys().filter(|cell| !book.contains_key(cell)));
    let others = cells.filter(|cell| of(counted, cell) != of(book, cell));
    let line = |cell: &Cell| {
        format!("{cell:?}\n  counted {:?}\n  sent    {:?}\n", of(counted, cell), of(book, cell))
    };
    others.map(line).collect()
}
