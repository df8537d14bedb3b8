//! `slotwisectl` on counts: files of events go in, and reports come out, through real sockets.
// A test, and what helps it, fails by a panic. What helps several tests has more than each needs.
#![allow(clippy::unwrap_used, dead_code)]

#[path = "support/bench.rs"]
mod bench;
#[path = "support/run.rs"]
mod run;

use bench::{Bench, text};
use run::{Doors, Ran};
use serde_json::Value;
use slotwise_client::stubs::ReportServiceClient;
use slotwise_client::v1::{GetStatsRequest, StatsDimension};
use slotwise_client::{Code, Options, Reports};
use slotwise_server::testing::{LedgerDoor, ManualClock};
use tokio::io::{AsyncBufReadExt, BufReader};

/// What a spreadsheet or a browser would run.
const ODD: &str = r#"{"campaign":{"campaignId":"=1+1:<b>x</b>","accountId":"acme"}}
{"ad":{"campaignId":"=1+1:<b>x</b>","adUnitId":"-2","ecpmMicros":"1","zones":[{"siteId":"news","zoneId":"top"}],"landingUrl":"https://odd.example/"}}
"#;

/// 2026-11-29 and 30 in New York, five hours behind UTC: the second line is of the 29th there.
const LOG: &str = "\
time,ad,zone,kind,visitor
2026-11-29 12:00:00.5,8:car/a1,news/top,impression,v1
2026-11-30T04:59:59Z,8:car/a1,news/top,impression,v2
2026-11-30T05:00:00Z,8:car/a2,news/top,impression,
2026-11-30T05:00:01+00:00,8:car/a1,news/top,click,v1

2026-11-30T06:00:00Z,=1+1:<b>x</b>/-2,news/top,impression,
";

struct Counting {
    bench: Bench,
    door: LedgerDoor,
    doors: Doors,
}

impl Counting {
    /// Half a minute after the log's last line.
    async fn start() -> Self {
        let bench = Bench::with_catalog().await;
        let odd = bench.file("odd.ndjson", ODD);
        bench.ok(&["import", text(&odd)]).await;
        // 2026-11-30T06:00:30Z
        let clock = ManualClock::new(1_796_018_430_000_000);
        let door = LedgerDoor::open(bench.server.app(), clock).await;
        let doors = Doors { admin: door.addr, decision: bench.doors.decision };
        Self { bench, door, doors }
    }

    async fn replayed() -> Self {
        let counting = Self::start().await;
        let log = counting.bench.file("log.csv", LOG);
        counting.run(&["replay", text(&log)]).await.ok();
        counting
    }

    async fn run(&self, args: &[&str]) -> Ran {
        self.doors.run(args).await
    }

    async fn rows(&self, args: &[&str]) -> Vec<Vec<String>> {
        let said = self.run(args).await.ok();
        said.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_replayed_and_a_second_time_changes_nothing() {
    let counting = Counting::start().await;
    let log = counting.bench.file("log.csv", LOG);
    let said = counting.run(&["replay", "--dry-run", text(&log)]).await.ok();
    assert_eq!(said, format!("checked {}: 5 events, nothing was sent\n", text(&log)));
    assert_eq!(counting.door.ledger.counted(), 0);
    for _ in 0..2 {
        let said = counting.run(&["replay", text(&log)]).await.ok();
        assert_eq!(said, format!("replayed {}: 5 events, each counted once\n", text(&log)));
        assert_eq!(counting.door.ledger.counted(), 5);
    }
    // The same events in another form are another file; several go at once.
    let line =
        r#"{"time":"2026-11-30T05:00:00Z","ad":"8:car/a2","zone":"news/top","kind":"click"}"#;
    let one = counting.bench.file("one.ndjson", line);
    let foreign = "ts,ad,zone,kind\n2026-11-30 05:00:00,8:car/a1,news/top,click\n";
    let foreign = counting.bench.file("foreign.log", foreign);
    let args = ["replay", "--json", text(&one), text(&one)];
    let said = counting.run(&args).await.ok();
    assert_eq!(said.lines().collect::<Vec<_>>(), [r#"{"lines":"1"}"#; 2]);
    counting.run(&["replay", text(&foreign), "--column", "time=ts"]).await.ok();
    assert_eq!(counting.door.ledger.counted(), 7);
    counting.bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_log_arrives_whole() {
    let counting = Counting::start().await;
    let row = "2026-11-30T05:00:00Z,8:car/a1,news/top,impression,v\r\n";
    let log = format!("time,ad,zone,kind,visitor\r\n{}", row.repeat(2_345));
    let log = counting.bench.file("large.csv", &log);
    let said = counting.run(&["replay", text(&log)]).await.ok();
    assert!(said.contains("2345 events"), "{said}");
    assert_eq!(counting.door.ledger.counted(), 2_345);
    counting.bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_log_is_named_by_file_line_and_column() {
    let counting = Counting::start().await;
    let good = counting.bench.file("good.csv", LOG);
    let bad = LOG.replace("impression,v2", "view,v2").replace("2026-11-30T06:00:00Z", "soon");
    let bad = counting.bench.file("bad.csv", &bad);
    // Nothing is sent, of no file.
    let said = counting.run(&["replay", text(&good), text(&bad)]).await.failed(1);
    let bad = text(&bad);
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with(&format!("{bad}:3: kind: \"view\"")), "{said}");
    assert!(lines[1].starts_with(&format!("{bad}:7: time: \"soon\"")), "{said}");
    assert_eq!(lines[2], format!("slotwisectl: 2 problems in {bad}: nothing was sent"));
    assert_eq!(counting.door.ledger.counted(), 0);

    // What only the server knows is named alike.
    let unknown = counting.bench.file("unknown.csv", &LOG.replace("8:car/a2", "8:car/a9"));
    let said = counting.run(&["replay", text(&unknown)]).await.failed(1);
    let place = format!("slotwisectl: {}:4: ad_unit_id: there is no ad 8:car/a9", text(&unknown));
    assert!(said.starts_with(&place), "{said}");
    assert_eq!(counting.door.ledger.counted(), 0);
    assert!(counting.run(&["replay", "-"]).await.failed(2).contains("read twice"));
    let said = counting.run(&["replay", "no-such-file.csv"]).await.failed(1);
    assert!(said.contains("no-such-file.csv"), "{said}");
    counting.bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_are_by_the_accounts_days_and_add_up() {
    let counting = Counting::replayed().await;
    let days = ["--first", "2026-11-28", "--last", "2026-11-30"];
    let rows = counting.rows(&[&["stats", "acme"], &days[..]].concat()).await;
    assert_eq!(
        rows,
        [
            &["DAY", "IMPRESSIONS", "CLICKS", "CONVERSIONS", "SPEND"][..],
            &["2026-11-28", "0", "0", "0", "0.00", "USD"],
            &["2026-11-29", "2", "0", "0", "0.00", "USD"],
            &["2026-11-30", "2", "1", "0", "0.00", "USD"],
            &["total", "4", "1", "0", "0.00", "USD"],
        ]
    );
    let csv = [&["stats", "acme", "--by", "campaign,ad", "--format", "csv"], &days[..]].concat();
    assert_eq!(
        counting.run(&csv).await.ok(),
        "day,site,zone,campaign,ad,impressions,clicks,conversions,spend\n\
         ,,,8:car,a1,2,1,0,0.00\n\
         ,,,8:car,a2,1,0,0,0.00\n\
         ,,,'=1+1:<b>x</b>,'-2,1,0,0,0.00\n"
    );
    let table = [&["stats", "acme", "--by", "ad"], &days[..]].concat();
    let said = counting.run(&table).await.ok();
    assert!(said.lines().any(|line| line.starts_with("=1+1:<b>x</b>  -2 ")), "{said}");
    let json = [&["stats", "acme", "--by", "site,zone", "--json"], &days[..]].concat();
    let said = counting.run(&json).await.ok();
    let row: Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!((&row["siteId"], &row["zoneId"]), (&"news".into(), &"top".into()));
    assert_eq!(row["counts"]["impressions"], "4");
    let ad = ["--campaign", "7:summer", "--ad", "banner", "--by", "ad", "--format", "csv"];
    let idle = counting.run(&[&["stats", "acme"], &days[..], &ad].concat()).await.ok();
    assert_eq!(idle.lines().nth(1), Some(",,,7:summer,banner,0,0,0,0.00"));
    let said = counting.run(&["stats", "acme", "--campaign", "9:none"]).await.failed(1);
    assert!(said.contains("9:none"), "{said}");
    counting.bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn minutes_are_all_there_in_the_accounts_time() {
    let counting = Counting::replayed().await;
    let range = ["--from", "2026-11-29T23:59", "--until", "2026-11-30T05:02:00Z"];
    let csv = [&["minutes", "acme", "--format", "csv"], &range[..]].concat();
    assert_eq!(
        counting.run(&csv).await.ok(),
        "minute,impressions,clicks,conversions,spend,late impressions,late clicks,\
         late conversions,late spend,state\n\
         2026-11-29T23:59-05:00,1,0,0,0.00,,,,,open\n\
         2026-11-30T00:00-05:00,1,1,0,0.00,,,,,open\n\
         2026-11-30T00:01-05:00,0,0,0,0.00,,,,,open\n"
    );
    // A day and two minutes: more than one page.
    let long = ["minutes", "acme", "--json", "--from", "2026-11-29", "--until", "2026-11-30T00:02"];
    let said = counting.run(&long).await.ok();
    assert_eq!(said.lines().count(), 1_442);
    let of = |kind: &str| -> u64 {
        let counts = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        counts.map(|m| m["counts"][kind].as_str().map_or(0, |n| n.parse().unwrap())).sum()
    };
    assert_eq!((of("impressions"), of("clicks")), (3, 1));
    counting.bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_top_and_the_watcher_see_what_has_just_come() {
    let counting = Counting::replayed().await;
    let rows = counting.rows(&["top", "acme", "--minutes", "120"]).await;
    assert_eq!(
        rows,
        [
            &["CAMPAIGN", "AD", "IMPRESSIONS"][..],
            &["8:car", "a1", "1"],
            &["8:car", "a2", "1"],
            &["=1+1:<b>x</b>", "-2", "1"],
        ]
    );
    let csv = ["top", "acme", "--minutes", "120", "--kind", "click", "--format", "csv"];
    assert_eq!(counting.run(&csv).await.ok(), "campaign,ad,clicks\n8:car,a1,1\n");

    let mut watch = counting.doors.command(&["minutes", "acme", "--watch"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut line = async || loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if line.starts_with("2026-11-30T01:00-05:00") {
            return line;
        }
    };
    assert_eq!(
        line().await,
        "2026-11-30T01:00-05:00  impressions 1  clicks 0  conversions 0  spend 0.00 USD  state open"
    );
    let more = "time,ad,zone,kind\n2026-11-30T06:00:05Z,8:car/a1,news/top,click\n";
    let more = counting.bench.file("more.csv", more);
    counting.run(&["replay", text(&more)]).await.ok();
    assert!(line().await.contains("impressions 1  clicks 1"));
    watch.kill().await.unwrap();
    counting.bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_asks_alike() {
    let counting = Counting::replayed().await;
    let options = Options::parse([counting.door.addr.to_string()]).unwrap();
    let reports = Reports::connect(&options).await.unwrap();
    let ask = |account: &str| GetStatsRequest {
        account_id: account.into(),
        first_day: "2026-11-29".into(),
        last_day: "2026-11-30".into(),
        group_by: vec![StatsDimension::Site.into()],
        ..GetStatsRequest::default()
    };
    let read = reports.call(ask("acme"), ReportServiceClient::get_stats).await.unwrap();
    assert_eq!(read.rows.len(), 1);
    assert_eq!(read.total.unwrap().impressions, 4);
    let refused = reports.call(ask("nobody"), ReportServiceClient::get_stats).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::NotFound));
    counting.bench.server.stop().await;
}
