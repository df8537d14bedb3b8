//! A real log, counted by a whole server: every row of an Open Bandit log becomes an impression, and a click where
//! it was clicked; the log is replayed, and what the reports say is held against sums over the
//! rows themselves.
//!
//! `open_bandit/sample.csv` is ours, in the same form, and is always played; it has hardly a click,
//! so every seventh row is taken for clicked, too.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};
use slotwise_proto::v1::replay_service_client::ReplayServiceClient;
use slotwise_proto::v1::report_service_client::ReportServiceClient;
use slotwise_proto::v1::*;
use slotwise_server::limits::REPLAY_EVENTS_MAX;
use slotwise_server::telemetry::Metric;
use slotwise_server::testing::Server;
use support::{ad, campaign, channel, import, place};
use tonic::transport::Channel;

/// Names the Open Bandit log, as a CSV file with the header below.
const LOG: &str = "SLOTWISE_OPEN_BANDIT_CSV";
const HEADER: &str = "timestamp,item_id,position,click,user_cohort";
const CAMPAIGN: &str = "bandit:men";
const ZONES: [&str; 3] = ["1", "2", "3"];
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone)]
struct Row {
    at: Timestamp,
    unit: String,
    zone: String,
    is_clicked: bool,
    cohort: String,
}

impl Row {
    fn read(line: &str) -> Self {
        let fields: Vec<_> = line.split(',').collect();
        let [at, item, position, click, cohort] = fields[..] else { panic!("{line:?}") };
        assert!(ZONES.contains(&position) && ["0", "1"].contains(&click), "{line:?}");
        Self {
            at: at.parse().unwrap(),
            unit: format!("m{item}"),
            zone: position.to_owned(),
            is_clicked: click == "1",
            cohort: cohort.to_owned(),
        }
    }
}

fn rows(csv: &str) -> Vec<Row> {
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some(HEADER));
    lines.map(Row::read).collect()
}

/// The server that counts.
struct Counting {
    server: Server,
    reports: ReportServiceClient<Channel>,
    replays: ReplayServiceClient<Channel>,
}

impl Counting {
    /// Account `a` with its days cut in `time_zone`, and every ad of the rows in every zone.
    async fn start(rows: &[Row], time_zone: &str) -> Self {
        let server = Server::start().await;
        let mut records = place(&ZONES);
        records[0] = format!(
            r#"{{"account":{{"accountId":"a","currency":"EUR","timeZone":"{time_zone}"}}}}"#
        );
        records.push(campaign(CAMPAIGN, ""));
        let units: BTreeSet<_> = rows.iter().map(|row| &*row.unit).collect();
        records.extend(units.into_iter().map(|unit| ad(CAMPAIGN, unit, &ZONES, 1, "")));
        import(&server, &records).await;
        let channel = channel(server.app().admin_addr()).await;
        let reports = ReportServiceClient::new(channel.clone());
        let replays = ReplayServiceClient::new(channel);
        Self { server, reports, replays }
    }

    /// Sends a part of the file, in messages of the greatest size.
    async fn replay(&self, sha256: &[u8], events: &[ReplayedEvent]) {
        let messages = events.chunks(REPLAY_EVENTS_MAX).enumerate().map(|(at, events)| {
            let file_sha256 = if at == 0 { sha256.to_vec() } else { Vec::new() };
            ReplayEventsRequest { file_sha256, events: events.to_vec() }
        });
        let messages: Vec<_> = messages.collect();
        let answer =
            self.replays.clone().replay_events(tokio_stream::iter(messages)).await.unwrap();
        assert_eq!(answer.into_inner().lines, events.len() as u64);
    }

    /// Waits until this many events were counted, or found to be counted already.
    async fn counted(&self, metric: Metric, events: usize) {
        let counted = async {
            while self.server.app().counters().get(metric) < events as u64 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, counted).await.unwrap();
    }

    /// All pages of the stats of these days.
    async fn stats(
        &self,
        [first, last]: [&str; 2],
        group_by: &[StatsDimension],
    ) -> GetStatsResponse {
        let mut request = GetStatsRequest {
            account_id: "a".into(),
            first_day: first.into(),
            last_day: last.into(),
            group_by: group_by.iter().map(|by| (*by).into()).collect(),
            page_size: 100,
            ..GetStatsRequest::default()
        };
        let mut rows = Vec::new();
        loop {
            let page = self.reports.clone().get_stats(request.clone()).await.unwrap().into_inner();
            rows.extend(page.rows);
            if page.next_page_token.is_empty() {
                return GetStatsResponse { rows, ..page };
            }
            request.page_token = page.next_page_token;
        }
    }

    /// The sum of all minutes of [from, until), with what was late.
    async fn minutes(&self, from: Timestamp, until: Timestamp) -> (u64, u64) {
        let wire =
            |at: Timestamp| Some(prost_types::Timestamp { seconds: at.as_second(), nanos: 0 });
        let mut request = ListMinutesRequest {
            account_id: "a".into(),
            start_time: wire(from),
            end_time: wire(until),
            ..ListMinutesRequest::default()
        };
        let (mut sum, mut count) = ((0, 0), 0);
        loop {
            let page =
                self.reports.clone().list_minutes(request.clone()).await.unwrap().into_inner();
            for minute in &page.minutes {
                for counts in [minute.counts.unwrap(), minute.late.unwrap()] {
                    sum = (sum.0 + counts.impressions, sum.1 + counts.clicks);
                }
            }
            count += page.minutes.len();
            if page.next_page_token.is_empty() {
                assert_eq!(
                    i64::try_from(count).unwrap(),
                    (until.as_second() - from.as_second()) / 60
                );
                return sum;
            }
            request.page_token = page.next_page_token;
        }
    }
}

/// The events of the rows: an impression, and a click at the same instant where there was one.
fn events(rows: &[Row]) -> Vec<ReplayedEvent> {
    let kinds = rows.iter().flat_map(|row| {
        let click = row.is_clicked.then_some((row, EventKind::Click));
        std::iter::once((row, EventKind::Impression)).chain(click)
    });
    let event = |(line, (row, kind)): (u64, (&Row, EventKind))| ReplayedEvent {
        line,
        kind: kind.into(),
        occurred_at: Some(slotwise_server::time::timestamp(row.at.as_microsecond())),
        campaign_id: CAMPAIGN.into(),
        ad_unit_id: row.unit.clone(),
        site_id: "s".into(),
        zone_id: row.zone.clone(),
        user_id: row.cohort.clone(),
        value_micros: 0,
    };
    (1..).zip(kinds).map(event).collect()
}

/// Impressions and clicks of the rows, keyed by what each row is told apart by.
fn by_hand(
    rows: &[Row],
    zone: &TimeZone,
    by: &[StatsDimension],
) -> BTreeMap<[String; 3], (u64, u64)> {
    let mut sums = BTreeMap::new();
    for row in rows {
        let day = zone.to_datetime(row.at).date().to_string();
        let part = |dimension, name: &str| {
            if by.contains(&dimension) { name.to_owned() } else { String::new() }
        };
        let key = [
            part(StatsDimension::Day, &day),
            part(StatsDimension::Zone, &row.zone),
            part(StatsDimension::Ad, &row.unit),
        ];
        let sum: &mut (u64, u64) = sums.entry(key).or_default();
        *sum = (sum.0 + 1, sum.1 + u64::from(row.is_clicked));
    }
    sums
}

/// Holds every cross section against the rows, days cut in `name`; impressions and clicks of each
/// day.
async fn held(
    counting: &Counting,
    rows: &[Row],
    name: &str,
    days: [&str; 2],
) -> (Vec<u64>, Vec<u64>) {
    let zone = TimeZone::get(name).unwrap();
    use StatsDimension::{Ad, Campaign, Day, Site, Zone};
    for place in [&[][..], &[Site], &[Zone]] {
        for what in [&[][..], &[Campaign], &[Ad]] {
            for by_day in [&[][..], &[Day]] {
                let by = [by_day, place, what].concat();
                let read = counting.stats(days, &by).await;
                let seen: BTreeMap<_, _> = read
                    .rows
                    .iter()
                    .map(|row| {
                        let counts = row.counts.unwrap();
                        let key = [row.day.clone(), row.zone_id.clone(), row.ad_unit_id.clone()];
                        (key, (counts.impressions, counts.clicks))
                    })
                    .filter(|(_, counts)| *counts != (0, 0))
                    .collect();
                assert_eq!(seen, by_hand(rows, &zone, &by), "{name} {by:?}");
                let total = read.total.unwrap();
                let all =
                    (rows.len() as u64, rows.iter().filter(|row| row.is_clicked).count() as u64);
                assert_eq!((total.impressions, total.clicks), all, "{name} {by:?}");
            }
        }
    }
    let read = counting.stats(days, &[Day]).await;
    for row in &read.rows {
        let day: jiff::civil::Date = row.day.parse().unwrap();
        let start =
            |day: jiff::civil::Date| day.to_zoned_datetime(zone.clone()).unwrap().timestamp();
        let minutes = counting.minutes(start(day), start(day.tomorrow().unwrap())).await;
        let counts = row.counts.unwrap();
        assert_eq!(minutes, (counts.impressions, counts.clicks), "{name} {}", row.day);
    }
    let counts = read.rows.iter().map(|row| row.counts.unwrap());
    counts.map(|counts| (counts.impressions, counts.clicks)).unzip()
}

/// Replays all rows, the earlier half after the later one, and all once more. They are years old:
/// what a partition has promised when they come is beyond them.
async fn play(csv: &str, rows: &[Row], name: &str, days: [&str; 2]) -> (Vec<u64>, Vec<u64>) {
    let counting = Counting::start(rows, name).await;
    let sha256 = Sha256::digest(csv);
    let events = events(rows);
    let (earlier, later) = events.split_at(events.len() / 2);
    counting.replay(&sha256, later).await;
    counting.replay(&sha256, earlier).await;
    counting.counted(Metric::EventsCounted, events.len()).await;
    let before = held(&counting, rows, name, days).await;
    counting.replay(&sha256, &events).await;
    counting.counted(Metric::EventsRepeated, events.len()).await;
    assert_eq!(held(&counting, rows, name, days).await, before, "a repeat changes nothing");
    counting.server.stop().await;
    before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_our_own_is_counted_row_by_row() {
    let csv = include_str!("open_bandit/sample.csv");
    let mut rows = rows(csv);
    rows.iter_mut().step_by(7).for_each(|row| row.is_clicked = true);
    let days = rows.iter().map(|row| TimeZone::UTC.to_datetime(row.at).date());
    let (first, last) = (days.clone().min().unwrap(), days.max().unwrap());
    // A day more on each side: the zones' days begin before and end after.
    let (first, last) =
        (first.yesterday().unwrap().to_string(), last.tomorrow().unwrap().to_string());
    let days = [&*first, &*last];
    for name in ["UTC", "America/New_York", "Asia/Tokyo", "Asia/Kathmandu"] {
        let (impressions, clicks) = play(csv, &rows, name, days).await;
        assert_eq!(impressions.iter().sum::<u64>(), rows.len() as u64);
        let clicked = rows.iter().filter(|row| row.is_clicked).count();
        assert_eq!(clicks.iter().sum::<u64>(), clicked as u64);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_log_is_counted_as_it_was() {
    let Some(path) = std::env::var_os(LOG) else {
        eprintln!("{LOG} is not set, so no real log is counted");
        return;
    };
    let csv = std::fs::read_to_string(&path).unwrap();
    let rows = rows(&csv);
    let (impressions, clicks) = play(&csv, &rows, "UTC", ["2019-11-24", "2019-11-30"]).await;
    assert_eq!(impressions, [1687, 1286, 1288, 1392, 1536, 1379, 1432]);
    assert_eq!(clicks, [10, 3, 6, 4, 5, 7, 11]);
    let (_, clicks) = play(&csv, &rows, "America/New_York", ["2019-11-23", "2019-11-30"]).await;
    assert_eq!(clicks[1..], [10, 4, 5, 6, 5, 5, 11]);
    let (_, clicks) = play(&csv, &rows, "Asia/Tokyo", ["2019-11-24", "2019-12-01"]).await;
    assert_eq!(clicks, [8, 5, 4, 4, 6, 8, 8, 3]);
}
