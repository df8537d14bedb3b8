//! `slotwisectl` against a door that answers what a healthy server of one node never does.
// A test, and what helps it, fails by a panic.
#![allow(clippy::unwrap_used)]

#[path = "support/fake.rs"]
mod fake;
#[path = "support/pki.rs"]
mod pki;
#[path = "support/run.rs"]
mod run;

#[path = "doors/operations.rs"]
mod operations;

use fake::Fake;
use run::Doors;
use slotwise_proto::v1::*;
use tokio::io::{AsyncBufReadExt, BufReader};

async fn doors(fake: Fake) -> Doors {
    let admin = fake::serve(fake).await;
    Doors { admin, decision: admin }
}

fn account(account_id: &str, display_name: &str, time_zone: &str) -> Account {
    Account {
        account_id: account_id.into(),
        display_name: display_name.into(),
        time_zone: time_zone.into(),
        ..Account::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_is_not_everywhere_exits_with_3() {
    let switched =
        |catalog_version, nodes_live, nodes_applied, nodes_silent| SetCampaignStatusResponse {
            catalog_version,
            ads_changed: 3,
            zones_changed: 5,
            nodes_live,
            nodes_applied,
            nodes_silent,
            elapsed: Some(prost_types::Duration { seconds: 0, nanos: 2_400_000 }),
        };
    let fake = |switched| Fake { switched, ..Fake::default() };
    let pause = ["campaign", "pause", "7:summer"];
    let done = doors(fake(switched(9, 3, 3, 0))).await;
    assert_eq!(
        done.run(&pause).await.ok(),
        "paused 7:summer: 3 ads in 5 zones stopped on 3 of 3 nodes in 2.4 ms\n"
    );
    let behind = doors(fake(switched(9, 2, 1, 0))).await;
    let ran = behind.run(&pause).await;
    assert!(ran.stdout.contains("stopped on 1 of 2 nodes"), "{ran:?}");
    let stderr = ran.failed(3);
    assert!(stderr.starts_with("slotwisectl: not applied everywhere: 1 live node"), "{stderr}");
    let silent = doors(fake(switched(9, 1, 1, 1))).await;
    let stderr = silent.run(&["--json", "campaign", "pause", "7:summer"]).await.failed(3);
    let expected = "1 node has not been heard of and may still serve it";
    assert!(stderr.contains(expected), "{stderr}");

    let unstored = doors(fake(switched(0, 1, 1, 0))).await;
    let ran = unstored.run(&pause).await;
    assert!(ran.stdout.contains("stopped on this node in 2.4 ms"), "{ran:?}");
    assert_eq!(
        ran.failed(3),
        "slotwisectl: not stored yet: stopped on this node only; it will be stored when the store \
         is back; for the other nodes ask each one's own admin door\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_with_its_deadline() {
    let doors = doors(Fake::default()).await;
    let stderr = doors.run(&["--timeout", "200ms", "ad", "list", "7:summer"]).await.failed(4);
    assert!(stderr.contains("no answer") && stderr.contains("200ms"), "{stderr}");
    assert!(stderr.contains(&doors.admin.to_string()), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_its_fields_on_one_line() {
    let doors = doors(Fake::default()).await;
    assert_eq!(
        doors.run(&["campaign", "delete", "7:summer"]).await.failed(1),
        "slotwisectl: the id is refused; campaign_id: at most 128 bytes\n"
    );
    let stderr = doors.run(&["site", "list"]).await.failed(1);
    assert!(stderr.contains("is it the admin door"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_from_the_server_cannot_drive_the_terminal() {
    let name = "\u{1b}[2J\u{9b}31m\u{202e}=1+1 <b>x</b>";
    let doors = doors(Fake { accounts: vec![account("a", name, "")], ..Fake::default() }).await;
    for args in [&["account", "list"][..], &["account", "list", "--json"]] {
        let stdout = doors.run(args).await.ok();
        assert!(!stdout.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{stdout:?}");
        assert!(stdout.contains("=1+1 <b>x</b>"), "{stdout:?}");
    }
    let stderr = doors.run(&["ad", "delete", "7:summer", "a"]).await.failed(1);
    assert_eq!(stderr, "slotwisectl: no such ad\\u{1b}[2J\\nslotwisectl: all is well\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_page_to_the_end_or_to_the_limit() {
    let accounts = ["a", "b", "c"].map(|id| account(id, "", "")).to_vec();
    let doors = doors(Fake { accounts, ..Fake::default() }).await;
    assert_eq!(doors.run(&["account", "list", "--json"]).await.ok().lines().count(), 3);
    let cut = doors.run(&["account", "list", "--json", "--limit", "2"]).await;
    assert!(cut.stderr.contains("first 2"), "{cut:?}");
    assert_eq!(cut.ok().lines().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_of_records_come_with_their_lines() {
    let problem = |record_number, field: &str, message: &str| ImportProblem {
        record_number,
        field: field.into(),
        message: message.into(),
    };
    let import_problems = vec![problem(2, "account.time_zone", "unknown"), problem(0, "", "odd")];
    let doors = doors(Fake { import_problems, ..Fake::default() }).await;
    let text = "{\"account\":{\"accountId\":\"a\"}}\n\n\n{\"account\":{\"accountId\":\"b\"}}\n";
    let stderr = doors.run_with_input(&["import", "-"], text).await.failed(1);
    assert_eq!(
        stderr,
        "-:4: account.time_zone: unknown\n-: odd\n\
         slotwisectl: 2 problems in -: nothing was changed\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_breaks_off_leaves_the_file_as_it_was() {
    let accounts = vec![account("a", "", "")];
    let doors = doors(Fake { accounts, ..Fake::default() }).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("catalog.ndjson");
    std::fs::write(&file, "before").unwrap();
    doors.run(&["export", file.to_str().unwrap()]).await.failed(4);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no scrap is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_names_what_was_given_and_days_are_the_accounts() {
    let fake = Fake {
        accounts: vec![account("acme", "", "America/New_York")],
        campaign: Campaign { account_id: "acme".into(), ..Campaign::default() },
        ..Fake::default()
    };
    let puts = fake.puts.clone();
    let doors = doors(fake).await;
    let flags = ["--start", "2015-11-01", "--daily", "5.25", "--if-version", "3"];
    doors.run(&[&["campaign", "put", "7:summer"], &flags[..]].concat()).await.ok();
    let put = puts.lock().unwrap().pop().unwrap();
    assert_eq!(put.update_mask.unwrap().paths, ["start_time", "budget.daily_micros"]);
    assert_eq!(put.if_version, 3);
    let campaign = put.campaign.unwrap();
    assert_eq!(campaign.campaign_id, "7:summer");
    assert_eq!(campaign.budget.unwrap().daily_micros, Some(5_250_000));
    // 2015-11-01T04:00:00Z
    assert_eq!(campaign.start_time.unwrap().seconds, 1_446_350_400);
    // Here the clocks go back: half past one comes twice.
    let twice = ["campaign", "put", "7:summer", "--end", "2015-11-01T01:30"];
    assert!(doors.run(&twice).await.failed(2).contains("America/New_York"));
    doors.run(&["campaign", "put", "7:summer"]).await.failed(2);
    assert!(puts.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn following_goes_on_after_the_last_version_when_the_stream_ends() {
    let change = |catalog_version| CatalogChange { catalog_version, ..CatalogChange::default() };
    let fake = Fake {
        watched: vec![vec![change(5), change(6)], vec![], vec![change(7)]].into(),
        ..Fake::default()
    };
    let after_versions = fake.after_versions.clone();
    let doors = doors(fake).await;
    let mut child = doors.command(&["changes", "--follow"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for version in ["4", "5", "6", "7"] {
        let line = lines.next_line().await.unwrap().unwrap();
        assert_eq!(line.split_whitespace().next(), Some(version), "{line}");
    }
    child.kill().await.unwrap();
    assert_eq!(after_versions.lock().unwrap()[..3], [4, 6, 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_of_a_large_file_arrives() {
    let doors = doors(Fake::default()).await;
    let text: String =
        (0..5_000).map(|n| format!("{{\"account\":{{\"accountId\":\"a{n}\"}}}}\n")).collect();
    let said = doors.run_with_input(&["import", "-"], &text).await.ok();
    assert_eq!(said, "imported 5000 records: catalogue version 9\n");
}
