//! The commands that start servers themselves, each for some seconds at a low rate: everything is
//! answered, and right. Nothing is said of how fast.
// A test, and what helps it, fails by a panic.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A small catalogue, for less than a second, whose answers are all held against it.
const SMALL: [&str; 12] = [
    "--zones",
    "10",
    "--ads",
    "100",
    "--campaigns",
    "200",
    "--seconds",
    "1",
    "--warm-up",
    "0",
    "--check-every",
    "1",
];

/// The server's binary, of the same build as the rest.
fn server() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    // The workspace as a whole, or the libraries would be built once more with other features.
    cargo.args(["build", "--locked", "--quiet", "--workspace", "--bin", "slotwise"]);
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
    assert!(built.success());
    Path::new(env!("CARGO_BIN_EXE_loadtest")).with_file_name("slotwise")
}

/// Runs a command, which must succeed: what it has written as JSON, and what it said.
fn run(command: &str, more: &[&str]) -> (Value, String) {
    let files = tempfile::tempdir().unwrap();
    let json = files.path().join("r.json");
    let mut loadtest = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    loadtest.arg(command).args(SMALL).args(more).stdin(Stdio::null());
    let done =
        loadtest.arg("--server-bin").arg(server()).arg("--json").arg(&json).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command}: {}:\n{said}{complaint}", done.status);
    (serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap(), said)
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name}: {value}"))
}

#[test]
fn what_becomes_of_an_overload_adds_up() {
    let more = ["--in-flight", "8", "--times", "1.5", "--deadline-ms", "1000"];
    let (borne, said) = run("overload", &more);
    assert!(number(&borne, "peak") > 0.0 && number(&borne, "goodput") > 0.0, "{borne}");
    let share = number(&borne, "offered") / number(&borne, "peak");
    assert!((share - 1.5).abs() < 1e-9, "{borne}");
    assert!(number(&borne, "resident_mb_most") >= number(&borne, "resident_mb_before"));
    assert_eq!(number(&borne, "deadline_ms"), 1000.0);
    let counts = &borne["run"]["kinds"]["decisions"];
    let ended = ["answered", "refused", "unanswered", "not_sent", "broken", "wrong"];
    let ended: f64 = ended.iter().map(|name| number(counts, name)).sum();
    assert_eq!(number(counts, "intended"), ended, "{borne}");
    assert_eq!(number(counts, "wrong"), 0.0);
    assert!(said.contains("answered within 1000 ms"), "{said}");
}

#[test]
fn a_comparison_has_both_sides_and_their_ratio() {
    let (compared, _) = run("compare", &["--rounds", "1", "--in-flight", "4"]);
    for name in ["ratio_median", "ratio_min", "ratio_max", "rate_noop", "rate_real"] {
        assert!(number(&compared, name) > 0.0, "{name}: {compared}");
    }
    let ratio = number(&compared, "rate_real") / number(&compared, "rate_noop");
    assert!((number(&compared, "ratio_median") - ratio).abs() < 1e-9, "{compared}");
    assert!(number(&compared, "cpu_us_real") >= 0.0 && number(&compared, "cpu_us_noop") >= 0.0);
    assert_eq!(compared["is_good"], true);
}

#[test]
fn each_load_of_the_bars_is_answered_and_right() {
    let (bars, said) = run("bars", &["--scale", "0.0005"]);
    for load in ["unary", "batch", "stream", "mixed"] {
        let counts = &bars[load]["kinds"]["decisions"];
        assert!(number(counts, "answered") > 0.0, "{load}: {said}");
        assert_eq!(number(counts, "answered"), number(counts, "intended"), "{load}: {said}");
    }
}
