//! Reports and replays through a real socket, over a ledger in memory.

#![allow(clippy::unwrap_used)]

#[path = "reports/replays.rs"]
mod replays;
mod support;

use std::sync::Arc;
use std::time::Duration;

use prost_types::Timestamp;
use slotwise_proto::v1::replay_service_client::ReplayServiceClient;
use slotwise_proto::v1::report_service_client::ReportServiceClient;
use slotwise_proto::v1::*;
use slotwise_server::limits;
use slotwise_server::testing::{LedgerDoor, ManualClock, Server};
use support::{NOON_US, ad, campaign, channel, import, place, refused_fields};
use tonic::transport::Channel;
use tonic::{Code, Status};

const MINUTE_S: i64 = 60;
/// 2026-11-30T12:00:00Z.
const NOON_S: i64 = NOON_US / 1_000_000;
/// Two campaigns of account `a`, whose clocks are those of Chicago; and account `b`.
const CHICAGO: &str =
    r#"{"account":{"accountId":"a","currency":"EUR","timeZone":"America/Chicago"}}"#;

struct Bench {
    server: Server,
    clock: Arc<ManualClock>,
    door: LedgerDoor,
    reports: ReportServiceClient<Channel>,
    replays: ReplayServiceClient<Channel>,
}

impl Bench {
    async fn start() -> Self {
        let clock = ManualClock::new(NOON_US);
        let server = Server::start_with(clock.clone(), &[]).await;
        let mut records = place(&["top", "side"]);
        records[0] = CHICAGO.to_owned();
        records.push(campaign("x:1", ""));
        records.push(campaign("=1+1:<b>x</b>", ""));
        records.push(ad("x:1", "a", &["top", "side"], 1, ""));
        records.push(ad("x:1", "b", &["top"], 1, ""));
        records.push(ad("=1+1:<b>x</b>", "a", &["top"], 1, ""));
        records.push(r#"{"account":{"accountId":"b","currency":"EUR"}}"#.to_owned());
        records.push(r#"{"site":{"siteId":"other","accountId":"b"}}"#.to_owned());
        records.push(r#"{"zone":{"siteId":"other","zoneId":"top"}}"#.to_owned());
        records.push(r#"{"campaign":{"campaignId":"y:1","accountId":"b"}}"#.to_owned());
        import(&server, &records).await;
        let door = LedgerDoor::open(server.app(), clock.clone()).await;
        let channel = channel(door.addr).await;
        let reports = ReportServiceClient::new(channel.clone());
        let replays = ReplayServiceClient::new(channel);
        Self { server, clock, door, reports, replays }
    }

    async fn replay(&self, messages: Vec<ReplayEventsRequest>) -> Result<u64, Status> {
        let stream = tokio_stream::iter(messages);
        self.replays.clone().replay_events(stream).await.map(|answer| answer.into_inner().lines)
    }

    async fn minutes(&self, request: ListMinutesRequest) -> Result<ListMinutesResponse, Status> {
        self.reports.clone().list_minutes(request).await.map(tonic::Response::into_inner)
    }

    async fn stats(&self, request: GetStatsRequest) -> Result<GetStatsResponse, Status> {
        self.reports.clone().get_stats(request).await.map(tonic::Response::into_inner)
    }

    async fn top(&self, request: ListTopAdsRequest) -> Result<Vec<TopAd>, Status> {
        self.reports.clone().list_top_ads(request).await.map(|answer| answer.into_inner().ads)
    }
}

fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos: 0 })
}

fn instant(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_second()
}

fn click(line: u64, at_s: i64, unit: &str, zone: &str) -> ReplayedEvent {
    ReplayedEvent {
        line,
        kind: EventKind::Click.into(),
        occurred_at: at(at_s),
        campaign_id: "x:1".into(),
        ad_unit_id: unit.into(),
        site_id: "s".into(),
        zone_id: zone.into(),
        ..ReplayedEvent::default()
    }
}

fn file(byte: u8, events: Vec<ReplayedEvent>) -> Vec<ReplayEventsRequest> {
    vec![ReplayEventsRequest { file_sha256: vec![byte; 32], events }]
}

fn minutes_of(campaign: &str, unit: &str, from_s: i64, until_s: i64) -> ListMinutesRequest {
    ListMinutesRequest {
        account_id: "a".into(),
        campaign_id: campaign.into(),
        ad_unit_id: unit.into(),
        start_time: at(from_s),
        end_time: at(until_s),
        ..ListMinutesRequest::default()
    }
}

fn stats_of(first: &str, last: &str, group_by: &[StatsDimension]) -> GetStatsRequest {
    GetStatsRequest {
        account_id: "a".into(),
        first_day: first.into(),
        last_day: last.into(),
        group_by: group_by.iter().map(|by| (*by).into()).collect(),
        ..GetStatsRequest::default()
    }
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, Vec<String>) {
    let status = answer.unwrap_err();
    (status.code(), refused_fields(&status))
}

fn clicks(counts: &Option<Counts>) -> u64 {
    counts.unwrap().clicks
}

#[tokio::test(flavor = "multi_thread")]
async fn every_minute_is_there_closed_ones_say_so_and_late_ones_stand_beside() {
    let bench = Bench::start().await;
    let event =
        |line, minute: i64, unit: &str| click(line, NOON_S + minute * MINUTE_S, unit, "top");
    let events = vec![event(1, -5, "a"), event(2, -5, "b"), event(3, -3, "a"), event(4, -1, "a")];
    assert_eq!(bench.replay(file(1, events)).await.unwrap(), 4);
    bench.door.ledger.promise(NOON_US - 2 * 60_000_000);
    bench.replay(file(2, vec![event(1, -5, "a")])).await.unwrap();

    let read = bench.minutes(minutes_of("", "", NOON_S - 360, NOON_S)).await.unwrap();
    let seen: Vec<_> = read
        .minutes
        .iter()
        .map(|m| (m.minute.unwrap().seconds - NOON_S, clicks(&m.counts), clicks(&m.late), m.closed))
        .collect();
    assert_eq!(
        seen,
        [
            (-360, 0, 0, true),
            (-300, 2, 1, true),
            (-240, 0, 0, true),
            (-180, 1, 0, true),
            (-120, 0, 0, false),
            (-60, 1, 0, false),
        ]
    );
    assert_eq!(read.watermark, at(NOON_S - 120));
    assert_eq!(read.next_page_token, "");

    let of = async |campaign: &str, unit: &str| {
        let read = bench.minutes(minutes_of(campaign, unit, NOON_S - 360, NOON_S)).await.unwrap();
        assert!(read.minutes.iter().all(|m| m.campaign_id == campaign && m.ad_unit_id == unit));
        assert_eq!(read.minutes.len(), 6);
        read.minutes.iter().map(|m| clicks(&m.counts) + clicks(&m.late)).sum::<u64>()
    };
    assert_eq!((of("x:1", "").await, of("x:1", "a").await, of("x:1", "b").await), (5, 4, 1));
    assert_eq!(of("=1+1:<b>x</b>", "").await, 0);
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_minutes_join_without_gap_or_repeat() {
    let bench = Bench::start().await;
    let ask = minutes_of("", "", NOON_S - 3 * 86_400, NOON_S);
    let whole = 3 * 1_440;
    for page_size in [0, 1_440, 1_000] {
        let (mut token, mut seen) = (String::new(), Vec::new());
        loop {
            let request = ListMinutesRequest { page_size, page_token: token, ..ask.clone() };
            let page = bench.minutes(request).await.unwrap();
            assert!(page.minutes.len() <= if page_size == 0 { 1_440 } else { page_size as usize });
            seen.extend(page.minutes.iter().map(|m| m.minute.unwrap().seconds));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        let expected: Vec<_> = (0..whole).map(|n| NOON_S - 3 * 86_400 + n * 60).collect();
        assert_eq!(seen, expected);
    }
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_questions_name_their_field_and_missing_things_are_not_found() {
    let bench = Bench::start().await;
    let good = minutes_of("", "", NOON_S - 60, NOON_S);
    let invalid = |field: &str| (Code::InvalidArgument, vec![field.to_owned()]);
    for (field, bad) in [
        ("account_id", ListMinutesRequest { account_id: String::new(), ..good.clone() }),
        ("start_time", ListMinutesRequest { start_time: None, ..good.clone() }),
        ("start_time", ListMinutesRequest { start_time: at(NOON_S - 61), ..good.clone() }),
        ("end_time", ListMinutesRequest { end_time: None, ..good.clone() }),
        ("end_time", ListMinutesRequest { end_time: good.start_time, ..good.clone() }),
        ("end_time", ListMinutesRequest { end_time: at(NOON_S + 401 * 86_400), ..good.clone() }),
        ("end_time", ListMinutesRequest { end_time: at(i64::MAX), ..good.clone() }),
        ("page_size", ListMinutesRequest { page_size: 1_441, ..good.clone() }),
        ("page_token", ListMinutesRequest { page_token: "!".into(), ..good.clone() }),
        ("page_token", ListMinutesRequest { page_token: "MTIz".into(), ..good.clone() }),
        ("ad_unit_id", ListMinutesRequest { ad_unit_id: "a".into(), ..good.clone() }),
        ("campaign_id", ListMinutesRequest { campaign_id: "y:1".into(), ..good.clone() }),
    ] {
        assert_eq!(refused(bench.minutes(bad.clone()).await), invalid(field), "{bad:?}");
    }
    for missing in [
        ListMinutesRequest { account_id: "nobody".into(), ..good.clone() },
        ListMinutesRequest { campaign_id: "x:none".into(), ..good.clone() },
        ListMinutesRequest { campaign_id: "x:1".into(), ad_unit_id: "z".into(), ..good.clone() },
    ] {
        assert_eq!(refused(bench.minutes(missing).await), (Code::NotFound, vec![]));
    }

    let good = stats_of("2026-11-30", "2026-11-30", &[]);
    for (field, bad) in [
        ("account_id", GetStatsRequest { account_id: String::new(), ..good.clone() }),
        ("first_day", GetStatsRequest { first_day: String::new(), ..good.clone() }),
        ("first_day", GetStatsRequest { first_day: "2026-11-31".into(), ..good.clone() }),
        ("last_day", GetStatsRequest { last_day: "2026-11-29".into(), ..good.clone() }),
        ("last_day", GetStatsRequest { last_day: "2028-01-05".into(), ..good.clone() }),
        ("zone_id", GetStatsRequest { zone_id: "top".into(), ..good.clone() }),
        ("ad_unit_id", GetStatsRequest { ad_unit_id: "a".into(), ..good.clone() }),
        ("campaign_id", GetStatsRequest { campaign_id: "y:1".into(), ..good.clone() }),
        ("site_id", GetStatsRequest { site_id: "other".into(), ..good.clone() }),
        ("group_by[0]", GetStatsRequest { group_by: vec![0], ..good.clone() }),
        ("group_by[1]", GetStatsRequest { group_by: vec![1, 6], ..good.clone() }),
        ("page_size", GetStatsRequest { page_size: 1_001, ..good.clone() }),
        ("page_token", GetStatsRequest { page_token: "MTIz".into(), ..good.clone() }),
    ] {
        assert_eq!(refused(bench.stats(bad.clone()).await), invalid(field), "{bad:?}");
    }
    let zone = GetStatsRequest { site_id: "s".into(), zone_id: "none".into(), ..good.clone() };
    assert_eq!(refused(bench.stats(zone).await), (Code::NotFound, vec![]));

    let good =
        ListTopAdsRequest { account_id: "a".into(), kind: 2, ..ListTopAdsRequest::default() };
    assert_eq!(bench.top(good.clone()).await.unwrap(), vec![]);
    for (field, bad) in [
        ("kind", ListTopAdsRequest { kind: 0, ..good.clone() }),
        ("kind", ListTopAdsRequest { kind: EventKind::Loss.into(), ..good.clone() }),
        ("count", ListTopAdsRequest { count: 101, ..good.clone() }),
        ("minutes", ListTopAdsRequest { minutes: 1_441, ..good.clone() }),
    ] {
        assert_eq!(refused(bench.top(bad).await), invalid(field));
    }
    let bill = bench.reports.clone().get_bill(GetBillRequest::default()).await;
    assert_eq!(refused(bill), (Code::Unimplemented, vec![]));
    bench.door.ledger.set_away(true);
    assert_eq!(
        refused(bench.stats(stats_of("2026-11-30", "2026-11-30", &[])).await).0,
        Code::Unavailable
    );
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn days_are_the_accounts_and_pages_of_rows_join() {
    let bench = Bench::start().await;
    // Chicago's 2026-09-07 ends at five in the morning.
    let evening = instant("2026-09-08T02:23:34Z");
    let morning = instant("2026-09-08T05:00:00Z");
    let events = vec![
        click(1, evening, "a", "top"),
        click(2, morning - 1, "b", "top"),
        click(3, morning, "a", "side"),
    ];
    bench.replay(file(1, events)).await.unwrap();
    let days = stats_of("2026-09-07", "2026-09-09", &[StatsDimension::Day]);
    let read = bench.stats(days.clone()).await.unwrap();
    let rows: Vec<_> = read.rows.iter().map(|row| (&*row.day, clicks(&row.counts))).collect();
    assert_eq!(rows, [("2026-09-07", 2), ("2026-09-08", 1), ("2026-09-09", 0)]);
    assert_eq!(clicks(&read.total), 3);
    assert!(read.rows.iter().all(|row| !row.exact));

    let by_all = [StatsDimension::Day, StatsDimension::Zone, StatsDimension::Ad];
    let (mut token, mut rows) = (String::new(), Vec::new());
    loop {
        let page_token = token;
        let request = stats_of("2026-09-07", "2026-09-09", &by_all);
        let page =
            bench.stats(GetStatsRequest { page_size: 1, page_token, ..request }).await.unwrap();
        assert_eq!((page.rows.len(), clicks(&page.total)), (1, 3));
        rows.extend(page.rows);
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    let told = |row: &StatsRow| {
        [&*row.day, &row.site_id, &row.zone_id, &row.campaign_id, &row.ad_unit_id].join("|")
    };
    assert_eq!(
        rows.iter().map(told).collect::<Vec<_>>(),
        ["2026-09-07|s|top|x:1|a", "2026-09-07|s|top|x:1|b", "2026-09-08|s|side|x:1|a",]
    );
    // An idle campaign, named like a formula, is a row of zeros under its own name.
    let idle = GetStatsRequest {
        campaign_id: "=1+1:<b>x</b>".into(),
        group_by: vec![StatsDimension::Campaign.into()],
        ..days
    };
    let read = bench.stats(idle).await.unwrap();
    assert_eq!(read.rows.iter().map(told).collect::<Vec<_>>(), ["|||=1+1:<b>x</b>|"]);
    assert_eq!(read.rows[0].counts, Some(Counts::default()));
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_hour_of_events_is_the_same_number_in_every_view() {
    let bench = Bench::start().await;
    let count: u64 = 2_100;
    let event = |n: u64| {
        let at_s = NOON_S - i64::try_from(n % 3_600).unwrap();
        click(n + 1, at_s, if n.is_multiple_of(3) { "b" } else { "a" }, "top")
    };
    let events: Vec<_> = (0..count).map(event).collect();
    let messages = events.chunks(1_000).enumerate().map(|(at, events)| ReplayEventsRequest {
        file_sha256: if at == 0 { vec![7; 32] } else { vec![] },
        events: events.to_vec(),
    });
    assert_eq!(bench.replay(messages.collect()).await.unwrap(), count);
    let read = bench.minutes(minutes_of("", "", NOON_S - 3_600, NOON_S + 60)).await.unwrap();
    assert_eq!(read.minutes.iter().map(|m| clicks(&m.counts)).sum::<u64>(), count);
    let day = bench.stats(stats_of("2026-11-30", "2026-11-30", &[])).await.unwrap();
    assert_eq!(clicks(&day.total), count);
    let ask = ListTopAdsRequest { account_id: "a".into(), kind: 2, count: 0, minutes: 61 };
    let ads = bench.top(ask).await.unwrap();
    let seen: Vec<_> = ads.iter().map(|ad| (&*ad.ad_unit_id, ad.events)).collect();
    assert_eq!(seen, [("a", 1_400), ("b", 700)]);
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_sees_minutes_change_and_ends_with_the_door() {
    let bench = Bench::start().await;
    let ask = WatchMinutesRequest {
        account_id: "a".into(),
        campaign_id: "x:1".into(),
        ad_unit_id: "a".into(),
    };
    bench.door.ledger.promise(NOON_US - 60_000_000);
    bench
        .replay(file(1, vec![click(1, NOON_S, "a", "top"), click(2, NOON_S, "b", "top")]))
        .await
        .unwrap();
    let mut watching = bench.reports.clone().watch_minutes(ask).await.unwrap().into_inner();
    let mut next_busy = async || loop {
        let minute = watching.message().await.unwrap()?;
        if minute.counts != Some(Counts::default()) || minute.late != Some(Counts::default()) {
            return Some((clicks(&minute.counts), clicks(&minute.late), minute.closed));
        }
    };
    assert_eq!(next_busy().await, Some((1, 0, false)));
    bench.replay(file(2, vec![click(1, NOON_S, "a", "top")])).await.unwrap();
    assert_eq!(next_busy().await, Some((2, 0, false)));
    bench.door.ledger.promise(NOON_US + 60_000_000);
    assert_eq!(next_busy().await, Some((2, 0, true)));
    bench.replay(file(3, vec![click(1, NOON_S, "a", "side")])).await.unwrap();
    assert_eq!(next_busy().await, Some((2, 1, true)));
    bench.door.drain.begin();
    assert_eq!(next_busy().await, None);
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_are_bounded_and_give_their_place_back() {
    let bench = Bench::start().await;
    let ask = WatchMinutesRequest { account_id: "a".into(), ..WatchMinutesRequest::default() };
    let all = async {
        let mut watching = Vec::new();
        for _ in 0..limits::WATCHERS_MAX {
            watching.push(bench.reports.clone().watch_minutes(ask.clone()).await.unwrap());
        }
        // The same connection has room for what else its caller asks.
        let refusal = refused(bench.reports.clone().watch_minutes(ask.clone()).await);
        assert_eq!(refusal.0, Code::Unavailable);
        bench.minutes(minutes_of("x:1", "a", NOON_S - MINUTE_S, NOON_S)).await.unwrap();
        drop(watching);
        while bench.reports.clone().watch_minutes(ask.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    bench.server.stop().await;
}
