//! What is still there after a kill and a restart: every acknowledged write, and every capped
//! showing that is older than the bound.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use slotwise_proto::v1::{CampaignStatus, ImportOptions, NoAdReason};

use super::catalogue::Clients;
use super::child::{Ended, Slotwise, serve_command};
use crate::support::{ad, campaign, place};

/// A showing is on the disk when it is this old.
const DURABLE_AFTER: Duration = Duration::from_secs(1);

const PAUSED: &str = "x:paused";
const OTHER: &str = "x:other";

/// Account, site, zone `top`, and the campaign that will be paused.
fn catalogue() -> Vec<String> {
    let mut records = place(&["top"]);
    records.push(campaign(PAUSED, ""));
    records.push(ad(PAUSED, "box", &["top"], 9, r#""keywords":["car"]"#));
    records
}

/// The same process on the same directory, after `end` has ended the one before.
async fn again(
    dir: &Path,
    slotwise: Slotwise,
    end: impl FnOnce(Slotwise) -> Ended,
) -> (Slotwise, Clients) {
    end(slotwise);
    let (slotwise, doors) = Slotwise::serve(dir, &[]);
    (slotwise, Clients::of(doors).await)
}

/// A pause survives imports, reloads and restarts; so does whatever else was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_kill_and_a_pause_survives_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (slotwise, doors) = Slotwise::serve(dir.path(), &[]);
    let mut clients = Clients::of(doors).await;
    clients.put(&catalogue()).await;
    assert_eq!(clients.shown("top").await, [PAUSED], "it would serve");
    clients.set_status(PAUSED, CampaignStatus::Paused).await;
    assert_eq!(clients.shown("top").await, [""; 0]);
    let written = clients.export().await;
    assert_eq!(written.len(), catalogue().len());

    let (slotwise, mut clients) = again(dir.path(), slotwise, Slotwise::kill).await;
    assert_eq!(clients.export().await, written, "a kill loses nothing that was acknowledged");
    stays_paused(&mut clients, &[]).await;

    let (slotwise, mut clients) = again(dir.path(), slotwise, Slotwise::stop).await;
    assert_eq!(clients.export().await, written, "nor does a clean stop");
    stays_paused(&mut clients, &[]).await;

    let others = [campaign(OTHER, ""), ad(OTHER, "box", &["top"], 1, "")];
    clients.import(ImportOptions::default(), &others).await;
    stays_paused(&mut clients, &[OTHER]).await;

    // An import that names it as active changes all of it but its status, in parts and in whole.
    let as_active = campaign(PAUSED, r#""status":"CAMPAIGN_STATUS_ACTIVE","tier":7"#);
    clients.import(ImportOptions::default(), &[as_active]).await;
    stays_paused(&mut clients, &[OTHER]).await;
    let as_active = campaign(PAUSED, r#""status":"CAMPAIGN_STATUS_ACTIVE","tier":8"#);
    let whole: Vec<_> = place(&["top"])
        .into_iter()
        .chain([as_active, ad(PAUSED, "box", &["top"], 8, "")])
        .chain(others)
        .collect();
    let replace = ImportOptions { replace: true, ..ImportOptions::default() };
    clients.import(replace, &whole).await;
    stays_paused(&mut clients, &[OTHER]).await;

    let (slotwise, mut clients) = again(dir.path(), slotwise, Slotwise::kill).await;
    stays_paused(&mut clients, &[OTHER]).await;
    clients.set_status(PAUSED, CampaignStatus::Active).await;
    assert_eq!(clients.shown("top").await, [PAUSED], "only its own switch wakes it");
    slotwise.stop();
}

async fn stays_paused(clients: &mut Clients, shown: &[&str]) {
    assert_eq!(clients.status_of(PAUSED).await, CampaignStatus::Paused);
    assert_eq!(clients.shown("top").await, shown);
}

/// Each put is acknowledged with nobody waiting for it to be served; then the process dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_right_after_an_acknowledgement_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut slotwise, doors) = Slotwise::serve(dir.path(), &[]);
    let mut clients = Clients::of(doors).await;
    clients.put(&catalogue()).await;
    for round in 1..=3 {
        let unit = format!("round-{round}");
        let version = clients.put_unserved(&ad(PAUSED, &unit, &["top"], 10 + round, "")).await;
        (slotwise, clients) = again(dir.path(), slotwise, Slotwise::kill).await;
        let answer = clients.choose("top", "").await;
        assert_eq!(answer.catalog_version, version);
        assert_eq!(answer.ads[0].ad_unit_id, unit, "the newest is worth the most");
    }
}

/// Three capped showings a day for one visitor; after the restart none is left.
async fn no_showing_is_forgotten(end: impl FnOnce(Slotwise) -> Ended) {
    let dir = tempfile::tempdir().unwrap();
    let (slotwise, doors) = Slotwise::serve(dir.path(), &[]);
    let mut clients = Clients::of(doors).await;
    let cap = r#""caps":[{"level":"CAP_LEVEL_CAMPAIGN","impressionsMax":3,"window":"86400s"}]"#;
    let mut records = place(&["top"]);
    records.extend([campaign("x:capped", cap), ad("x:capped", "box", &["top"], 5, "")]);
    clients.put(&records).await;
    for _ in 0..3 {
        assert_eq!(clients.choose("top", "one").await.ads.len(), 1);
    }
    let (_slotwise, mut clients) = again(dir.path(), slotwise, end).await;
    let answer = clients.choose("top", "one").await;
    assert_eq!(answer.ads, vec![]);
    assert_eq!(answer.no_ad_reason(), NoAdReason::AllTurnedDown);
    assert_eq!(clients.choose("top", "two").await.ads.len(), 1, "another visitor's cap is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn showings_a_second_old_survive_a_kill() {
    no_showing_is_forgotten(|slotwise| {
        // The promise itself is a time.
        std::thread::sleep(DURABLE_AFTER);
        slotwise.kill()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_showings_survive_a_stop() {
    no_showing_is_forgotten(Slotwise::stop).await;
}

/// The log's disk is full, or whoever read the log has gone: every line fails. Nothing but the
/// log is lost by that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_written_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let inner = serve_command(dir.path(), &["--log", "trace"]);
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$0" "$@" 2>/dev/full"#]).arg(inner.get_program());
    command.args(inner.get_args());
    let (slotwise, doors) = Slotwise::serve_by(command);
    let mut clients = Clients::of(doors).await;
    let cap = r#""caps":[{"level":"CAP_LEVEL_CAMPAIGN","impressionsMax":1,"window":"86400s"}]"#;
    let mut records = catalogue();
    records.extend([campaign("x:capped", cap), ad("x:capped", "box", &["top"], 5, "")]);
    clients.put(&records).await;
    clients.set_status(PAUSED, CampaignStatus::Paused).await;
    assert_eq!(clients.choose("top", "one").await.ads[0].campaign_id, "x:capped");
    std::thread::sleep(DURABLE_AFTER);

    let (_slotwise, mut clients) = again(dir.path(), slotwise, Slotwise::kill).await;
    assert_eq!(clients.choose("top", "one").await.ads, vec![], "its showing was written");
    clients.set_status(PAUSED, CampaignStatus::Active).await;
}
