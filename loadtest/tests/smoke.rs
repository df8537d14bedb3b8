//! Each load for some seconds at a low rate against a real server: everything is answered, and
//! right. Nothing is said of how fast.
// A test, and what helps it, fails by a panic.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use slotwise_server::testing::Server;

/// A small catalogue, whose answers are all held against it.
const SMALL: [&str; 8] =
    ["--zones", "10", "--ads", "100", "--campaigns", "200", "--catalogue-seed", "7"];

struct Bench {
    server: Server,
    files: tempfile::TempDir,
}

impl Bench {
    /// With a catalogue that `loadtest prepare` has made.
    async fn prepared() -> Self {
        let bench = Bench { server: Server::start().await, files: tempfile::tempdir().unwrap() };
        let said = bench.run("prepare", &[]).await;
        assert!(said.contains("prepared 10 zones of 100 ads"), "{said}");
        bench
    }

    /// Runs a command, which must succeed: an answer that is wrong makes it fail.
    async fn run(&self, command: &str, more: &[&str]) -> String {
        let mut loadtest = tokio::process::Command::new(env!("CARGO_BIN_EXE_loadtest"));
        loadtest.arg(command).args(SMALL).args(more).stdin(Stdio::null()).kill_on_drop(true);
        for (door, addr) in [
            ("--decision-addr", self.server.decision_addr()),
            ("--event-addr", self.server.event_addr()),
            ("--admin-addr", self.server.admin_addr()),
        ] {
            loadtest.args([door, &addr.to_string()]);
        }
        let done = loadtest.output().await.unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command}: {}:\n{said}{complaint}", done.status);
        said
    }

    /// Runs a load; what it has written as JSON.
    async fn load(&self, command: &str, more: &[&str]) -> Value {
        let (json, svg) = (self.files.path().join("r.json"), self.files.path().join("r.svg"));
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let (json_text, svg_text) = (path(&json), path(&svg));
        let files = ["--json", &json_text, "--svg", &svg_text, "--check-every", "1"];
        self.run(command, &[&files, more].concat()).await;
        assert!(std::fs::read_to_string(svg).unwrap().contains("<polyline"));
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()
    }
}

/// Everything that should have been sent of a kind was answered, and how much that was.
fn answered(report: &Value, kind: &str) -> u64 {
    let kind = &report["kinds"][kind];
    let number = |name: &str| kind[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"));
    for failure in ["wrong", "refused", "broken", "unanswered", "not_sent"] {
        assert_eq!(number(failure), 0, "{failure}: {report}");
    }
    assert_eq!(number("answered"), number("intended"), "{report}");
    number("answered")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_seconds_of_decisions_are_all_answered_and_right() {
    let bench = Bench::prepared().await;
    let args = ["--rate", "50", "--seconds", "10", "--warm-up", "0", "--explain", "0.1"];
    let report = bench.load("unary", &args).await;
    let decisions = answered(&report, "decisions");
    // A Poisson number of 500, give or take seven of its deviations.
    assert!((340..=660).contains(&decisions), "{decisions}");
    assert_eq!(report["checked_whole"].as_u64(), Some(decisions));
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_streams_and_a_closed_loop_are_all_answered_and_right() {
    let bench = Bench::prepared().await;
    let short = ["--seconds", "2", "--warm-up", "1"];
    let loads: [(&str, &[&str]); 4] = [
        ("batch", &["--rate", "160"]),
        ("stream", &["--rate", "100"]),
        ("unary", &["--closed", "2"]),
        // Far more than an answer takes: nothing is dropped, and nothing refused.
        ("unary", &["--rate", "50", "--deadline-ms", "20000"]),
    ];
    for (command, more) in loads {
        let report = bench.load(command, &[&short[..], more].concat()).await;
        assert!(answered(&report, "decisions") > 0, "{report}");
    }
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_decisions_is_counted_as_it_was_acknowledged() {
    let bench = Bench::prepared().await;
    let short = ["--seconds", "3", "--warm-up", "0"];
    let mixed = ["--rate", "60", "--impressions", "0.5", "--clicks", "0.3"];
    for tell in ["calls", "pixels"] {
        let args = [&short[..], &mixed, &["--tell", tell]].concat();
        // It fails where the account's statistics do not have what was acknowledged.
        let report = bench.load("mixed", &args).await;
        assert!(answered(&report, "impressions") > answered(&report, "clicks"), "{report}");
        assert!(answered(&report, "clicks") > 0 && answered(&report, "decisions") > 0);
    }
    let report = bench.load("clicks", &[&short[..], &["--rate", "20"]].concat()).await;
    assert!(answered(&report, "clicks") > 0);
    bench.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalogue_that_was_not_prepared_is_said_to_be() {
    let bench = Bench { server: Server::start().await, files: tempfile::tempdir().unwrap() };
    let mut loadtest = tokio::process::Command::new(env!("CARGO_BIN_EXE_loadtest"));
    loadtest.args(["unary", "--rate", "20", "--seconds", "1", "--warm-up", "0", "--decision-addr"]);
    loadtest.arg(bench.server.decision_addr().to_string()).kill_on_drop(true);
    let done = loadtest.output().await.unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("no such zone: was the catalogue prepared"), "{said}");
    bench.server.stop().await;
}
