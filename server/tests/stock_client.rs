//! A client that has nothing of ours: stock Python gRPC against a real server, once from the
//! contract's files and once from reflection alone.
//!
//! `scripts/test` names the interpreter; `scripts/python-env` makes one.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use slotwise_server::testing::Server;
use tokio::process::Command;

/// Names a Python interpreter that has grpcio and its tools.
const PYTHON: &str = "SLOTWISE_TEST_PYTHON";

/// A script that takes longer hangs.
const SCRIPT_MAX: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_client_gets_the_worked_scores_and_the_refused_field() {
    let Some(python) = std::env::var_os(PYTHON) else {
        eprintln!("{PYTHON} is not set, so no stock client is tried; scripts/test sets it");
        return;
    };
    let server = Server::start().await;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = Command::new(python)
        .arg(here.join("tests/stock_client/scores.py"))
        .arg(server.decision_addr().to_string())
        .arg(server.admin_addr().to_string())
        .arg(here.join("../proto"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let done = tokio::time::timeout(SCRIPT_MAX, script).await.unwrap().unwrap();
    let (said, complaint) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    println!("{said}{complaint}");
    assert!(done.status.success(), "{}:\n{said}{complaint}", done.status);
    // Four counts of matches and one refusal, in both ways.
    for way in ["contract: ", "reflection: "] {
        assert_eq!(said.lines().filter(|line| line.starts_with(way)).count(), 5, "{said}");
    }
    server.stop().await;
}
