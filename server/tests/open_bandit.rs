//! Real traffic: every row of an Open Bandit log becomes a request at its own instant, and an
//! independent program judges the answers.
//!
//! The log's items become ads of one campaign each, every one in all three zones and capped at
//! one showing a day; its `user_cohort` stands for the visitor. `open_bandit/check.py` knows
//! only the catalogue and the answers. `open_bandit/sample.csv` is ours, in the same form: 200
//! rows drawn with a fixed seed over three days, among them instants that repeat, one cohort
//! that sees every ad and asks on, and asks exactly 24 hours after a showing and one microsecond
//! before.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use slotwise_server::testing::{ManualClock, Server};
use support::{ad, ask, campaign, decisions, import, place};

/// Names the Open Bandit log, as a CSV file with the header below.
const LOG: &str = "SLOTWISE_OPEN_BANDIT_CSV";
/// Names a Python interpreter; otherwise the one on the path is taken.
const PYTHON: &str = "SLOTWISE_TEST_PYTHON";

const HEADER: &str = "timestamp,item_id,position,click,user_cohort";
const ZONES: [&str; 3] = ["1", "2", "3"];
const DAY_US: i64 = 86_400_000_000;

struct Row {
    at_us: i64,
    item: u32,
    zone: String,
    cohort: String,
}

impl Row {
    fn read(line: &str) -> Self {
        let fields: Vec<_> = line.split(',').collect();
        let [at, item, position, _click, cohort] = fields[..] else { panic!("{line:?}") };
        assert!(ZONES.contains(&position), "{line:?}");
        Self {
            at_us: at.parse::<jiff::Timestamp>().unwrap().as_microsecond(),
            item: item.parse().unwrap(),
            zone: position.to_owned(),
            cohort: cohort.to_owned(),
        }
    }
}

fn rows(csv: &str) -> Vec<Row> {
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some(HEADER));
    let rows: Vec<_> = lines.map(Row::read).collect();
    assert!(rows.is_sorted_by_key(|row| row.at_us), "the rows are in order of time");
    rows
}

/// The catalogue that the rows are played against, one record a line.
fn catalogue(rows: &[Row]) -> Vec<String> {
    let items: BTreeSet<u32> = rows.iter().map(|row| row.item).collect();
    assert_eq!(items.len(), 34, "as many ads as the log has");
    let cap = r#""caps":[{"level":"CAP_LEVEL_AD","impressionsMax":1,"window":"86400s"}]"#;
    let mut records = place(&ZONES);
    for item in items {
        let (id, unit) = (format!("bandit:m{item}"), format!("m{item}"));
        // Twelve values for 34 ads: some differ and some are equal.
        let ecpm = 1 + i64::from(item * 5 % 12);
        records.push(campaign(&id, cap));
        records.push(ad(&id, &unit, &ZONES, ecpm, ""));
    }
    records
}

/// Asks for every row at its own instant; what came, in the form that check.py reads.
async fn play(rows: &[Row], records: &[String]) -> Vec<Value> {
    let clock = ManualClock::new(rows[0].at_us);
    let server = Server::start_with(clock.clone(), &[]).await;
    import(&server, records).await;
    let mut door = decisions(&server).await;
    let mut answers = Vec::with_capacity(rows.len());
    for (number, row) in (1..).zip(rows) {
        clock.set(row.at_us);
        let answer = door.choose_ads(ask(&row.zone, &row.cohort, 1)).await.unwrap().into_inner();
        let ads: Vec<_> = answer
            .ads
            .iter()
            .map(|ad| {
                json!({
                    "campaign_id": ad.campaign_id,
                    "ad_unit_id": ad.ad_unit_id,
                    "ecpm_micros": ad.ecpm_micros,
                })
            })
            .collect();
        let number: u32 = number;
        answers.push(json!({
            "row": number,
            "at_us": row.at_us,
            "cohort": row.cohort,
            "zone": row.zone,
            "ads": ads,
            "no_ad_reason": answer.no_ad_reason().as_str_name(),
        }));
    }
    server.stop().await;
    answers
}

/// A Python interpreter, where there is one.
fn python() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(PYTHON) {
        return Some(named.into());
    }
    let mut version = Command::new("python3");
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    if version.status().is_ok_and(|status| status.success()) {
        return Some("python3".into());
    }
    eprintln!("{PYTHON} is not set and there is no python3: nothing can judge the answers");
    None
}

/// What check.py says of `answers`; an error where it refuses them.
fn check(python: &Path, records: &[String], answers: &[Value]) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let (catalogue_path, answers_path) =
        (dir.path().join("catalogue.ndjson"), dir.path().join("answers.ndjson"));
    let lines: Vec<_> = answers.iter().map(Value::to_string).collect();
    std::fs::write(&catalogue_path, records.join("\n")).unwrap();
    std::fs::write(&answers_path, lines.join("\n")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/open_bandit/check.py");
    let done = Command::new(python)
        .arg(script)
        .args([catalogue_path, answers_path])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if done.status.success() {
        return Ok(String::from_utf8(done.stdout).unwrap().trim().to_owned());
    }
    Err(String::from_utf8(done.stderr).unwrap().trim().to_owned())
}

/// Plays `csv` and has the answers judged; the catalogue and the answers.
async fn judged(python: &Path, csv: &str) -> (Vec<String>, Vec<Value>) {
    let rows = rows(csv);
    let records = catalogue(&rows);
    let answers = play(&rows, &records).await;
    let summary = check(python, &records, &answers).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{summary}");
    assert!(summary.starts_with(&format!("rows {}, ", rows.len())), "{summary}");
    (records, answers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_cap_is_broken_and_nothing_better_is_left_out_over_a_real_log() {
    let Some(path) = std::env::var_os(LOG) else {
        eprintln!("{LOG} is not set, so no real log is played");
        return;
    };
    let Some(python) = python() else { return };
    let csv = std::fs::read_to_string(&path).unwrap();
    judged(&python, &csv).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_holds_and_each_doctored_answer_is_found() {
    let Some(python) = python() else { return };
    let csv = include_str!("open_bandit/sample.csv");
    let (records, answers) = judged(&python, csv).await;
    assert!(answers.iter().any(|answer| !is_shown(answer)), "a cohort has seen everything");

    for (doctored, complaint) in [
        (shown_twice(&answers), "shown again inside its window"),
        (shown_too_early(&answers), "shown again inside its window"),
        (better_one_skipped(&answers), "was allowed"),
        (withheld(&answers), "withheld"),
        (worth_more(&answers), "is not worth"),
        (row_lost(&answers), "row 1 is missing"),
    ] {
        let wrong = check(&python, &records, &doctored).expect_err(complaint);
        assert!(wrong.contains(complaint), "expected {complaint:?}, got {wrong:?}");
    }
}

fn is_shown(answer: &Value) -> bool {
    !answer["ads"].as_array().unwrap().is_empty()
}

/// How much later `second` was asked by the same cohort; both were shown an ad.
fn age_us(first: &Value, second: &Value) -> Option<i64> {
    let same = first["cohort"] == second["cohort"] && is_shown(first) && is_shown(second);
    same.then(|| second["at_us"].as_i64().unwrap() - first["at_us"].as_i64().unwrap())
}

/// The first two answers, in order, of which `is_wanted` holds.
fn pair(answers: &[Value], is_wanted: impl Fn(&Value, &Value) -> bool) -> (usize, usize) {
    let found = (0..answers.len()).find_map(|second| {
        let first = (0..second).find(|&first| is_wanted(&answers[first], &answers[second]))?;
        Some((first, second))
    });
    found.expect("the sample holds such a pair")
}

/// A cohort is shown an ad that it was shown less than a day before.
fn shown_twice(answers: &[Value]) -> Vec<Value> {
    let mut doctored = answers.to_vec();
    let (first, second) =
        pair(answers, |first, second| age_us(first, second).is_some_and(|age| age < DAY_US));
    doctored[second]["ads"] = answers[first]["ads"].clone();
    doctored
}

/// A showing exactly a day after the last one is moved one microsecond towards it.
fn shown_too_early(answers: &[Value]) -> Vec<Value> {
    let mut doctored = answers.to_vec();
    let (_, second) = pair(answers, |first, second| {
        age_us(first, second) == Some(DAY_US) && first["ads"] == second["ads"]
    });
    doctored[second]["at_us"] = json!(answers[second]["at_us"].as_i64().unwrap() - 1);
    doctored
}

/// Somebody who may see everything gets one of the cheapest.
fn better_one_skipped(answers: &[Value]) -> Vec<Value> {
    let mut doctored = answers.to_vec();
    let ecpm = |answer: &&Value| answer["ads"][0]["ecpm_micros"].as_i64().unwrap();
    let cheapest = answers.iter().filter(|answer| is_shown(answer)).min_by_key(ecpm).unwrap();
    doctored[0]["ads"] = cheapest["ads"].clone();
    doctored
}

/// Nothing is shown where something was.
fn withheld(answers: &[Value]) -> Vec<Value> {
    let mut doctored = answers.to_vec();
    doctored[0]["ads"] = json!([]);
    doctored[0]["no_ad_reason"] = json!("NO_AD_REASON_ALL_TURNED_DOWN");
    doctored
}

/// An ad claims more than the catalogue says.
fn worth_more(answers: &[Value]) -> Vec<Value> {
    let mut doctored = answers.to_vec();
    doctored[0]["ads"][0]["ecpm_micros"] = json!(1_000_000_000);
    doctored
}

/// A row has no answer.
fn row_lost(answers: &[Value]) -> Vec<Value> {
    answers[1..].to_vec()
}
