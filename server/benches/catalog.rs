//! Loading, pausing and importing at size: prints times and resident memory.
//!
//! `cargo bench -p slotwise-server --bench catalog` runs all; SLOTWISE_BENCH_SCALE divides the
//! sizes (100 makes a quick look). Everything is made from fixed rules, so two runs have the same
//! data. Times are of whole operations on a store on disk, in seconds or milliseconds.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use slotwise_core::index::Index;
use slotwise_core::model::Status;
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::{Account, Ad, AdZone, Campaign, Price, Site, Zone, price};
use slotwise_server::app::SystemClock;
use slotwise_server::catalog::{Catalog, ImportOptions};
use slotwise_server::inflight::InFlight;
use slotwise_server::kills::Kills;
use slotwise_server::ports::CatalogStore;
use slotwise_server::refresh::{self, Refresh, wait_for_version};
use slotwise_server::store::embedded::EmbeddedCatalog;

/// Zones of one ad, so that a campaign of 25 ads is in 500 zones.
const ZONES_OF_AD: usize = 20;
const ADS_OF_CAMPAIGN: usize = 25;
const ZONES_OF_SITE: usize = 100;
const ADS_IN_ZONE: usize = 20;
const PAUSES: usize = 200;

/// Names the data directory to load, in the process that does nothing else.
const LOAD_DIR: &str = "SLOTWISE_BENCH_LOAD_DIR";

#[tokio::main]
async fn main() {
    let scale: usize = std::env::var("SLOTWISE_BENCH_SCALE")
        .ok()
        .and_then(|scale| scale.parse().ok())
        .unwrap_or(1);
    let zones = 100_000 / scale;
    if let Some(dir) = std::env::var_os(LOAD_DIR) {
        return load_and_pause(dir.as_ref(), zones).await;
    }
    println!("catalogue: {zones} zones of {ADS_IN_ZONE} ads, each ad in {ZONES_OF_AD} zones");
    let dir = tempfile::tempdir().unwrap();
    let records = records(zones);
    let ads = records.iter().filter(|record| matches!(record, Record::Ad(_))).count();
    import_ads(&records, ads).await;
    let (places, rest): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|record| !matches!(record, Record::Ad(_)));
    fill(dir.path(), places, rest).await;
    // A process of its own, so that its memory is that of a node and not of this program.
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    assert!(child.env(LOAD_DIR, dir.path()).status().unwrap().success());
}

/// The import that a user waits for: into a running node, until it is served.
async fn import_ads(records: &[Record], ads: usize) {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    let (places, rest): (Vec<_>, Vec<_>) =
        records.iter().cloned().partition(|record| !matches!(record, Record::Ad(_)));
    node.import(places).await;
    let mut bad = rest.clone();
    if let Some(Record::Ad(ad)) = bad.last_mut() {
        ad.landing_url = "javascript:alert(1)".to_owned();
    }
    let began = Instant::now();
    let refused = node.catalog.import(bad, ImportOptions::default(), "bench").await.unwrap();
    assert_eq!(refused.problem_count, 1);
    assert_eq!(refused.problems[0].record_number as usize, ads);
    println!("import of {ads} ads with a bad last one, refused: {:.2} s", seconds(began));
    let began = Instant::now();
    let version = node.import(rest).await;
    println!("import of {ads} ads, durable: {:.2} s", seconds(began));
    node.serve(version).await;
    println!("import of {ads} ads, served: {:.2} s", seconds(began));
}

async fn fill(dir: &std::path::Path, places: Vec<Record>, ads: Vec<Record>) {
    let store = Arc::new(EmbeddedCatalog::open(dir).unwrap());
    let catalog = Catalog::new(store, Arc::default(), Arc::new(SystemClock));
    for part in [places, ads] {
        let done = catalog.import(part, ImportOptions::default(), "bench").await.unwrap();
        assert_eq!(done.problem_count, 0, "{:?}", done.problems);
    }
}

async fn load_and_pause(dir: &std::path::Path, zones: usize) {
    let before = resident_mb();
    let began = Instant::now();
    let node = Node::start(dir).await;
    println!("load of {zones} zones of {ADS_IN_ZONE} ads: {:.2} s", seconds(began));
    println!("resident memory: {before} MB before, {} MB after", resident_mb());

    let (mut stored, mut served) = (Vec::new(), Vec::new());
    let key = slotwise_core::index::Key::Campaign("brand:0".into());
    for round in 0..PAUSES {
        let status = if round % 2 == 0 { Status::Paused } else { Status::Active };
        let began = Instant::now();
        let change = node.catalog.set_status(&key, status, "bench").await.unwrap();
        stored.push(began.elapsed());
        node.serve(change.version).await;
        served.push(began.elapsed());
        if round == 0 {
            let (ads, zones) = node.catalog.reach(&key).await.unwrap();
            println!("the campaign has {ads} ads in {zones} zones");
        }
    }
    print_times("pause, stored", stored);
    print_times("pause, served by the node", served);
}

struct Node {
    catalog: Catalog,
    refresh: Refresh,
}

impl Node {
    async fn start(dir: &std::path::Path) -> Self {
        let store: Arc<dyn CatalogStore> = Arc::new(EmbeddedCatalog::open(dir).unwrap());
        let index = Arc::new(Index::default());
        let clock = Arc::new(SystemClock);
        let own = refresh::Node {
            id: "bench".to_owned(),
            kills: Arc::new(Kills::open(dir.join("kills"), &index).unwrap()),
            in_flight: Arc::new(InFlight::default()),
            serials: Arc::default(),
            index: Arc::clone(&index),
        };
        let refresh = Refresh::start(Arc::clone(&store), own, None, clock.clone()).unwrap();
        let node = Self { catalog: Catalog::new(store, index, clock), refresh };
        node.serve(0).await;
        node
    }

    async fn serve(&self, version: u64) {
        let mut served = self.refresh.served();
        assert!(wait_for_version(&mut served, version, Duration::from_secs(600)).await);
    }

    async fn import(&self, records: Vec<Record>) -> u64 {
        let done = self.catalog.import(records, ImportOptions::default(), "bench").await.unwrap();
        assert_eq!(done.problem_count, 0, "{:?}", done.problems);
        done.version
    }
}

/// Ad `n` serves in 20 zones in a row, so that each zone has 20 ads and a campaign's 25 ads are
/// in 500 zones.
fn records(zones: usize) -> Vec<Record> {
    let mut records =
        vec![Record::Account(Account { account_id: "a".to_owned(), ..Account::default() })];
    let place = |zone: usize| (format!("site{}", zone / ZONES_OF_SITE), format!("zone{zone}"));
    for site in 0..zones.div_ceil(ZONES_OF_SITE) {
        let (site_id, account_id) = (format!("site{site}"), "a".to_owned());
        records.push(Record::Site(Site { site_id, account_id, ..Site::default() }));
    }
    for zone in 0..zones {
        let (site_id, zone_id) = place(zone);
        records.push(Record::Zone(Zone { site_id, zone_id, ..Zone::default() }));
    }
    let ads = zones * ADS_IN_ZONE / ZONES_OF_AD;
    for campaign in 0..ads.div_ceil(ADS_OF_CAMPAIGN) {
        records.push(Record::Campaign(Campaign {
            campaign_id: format!("brand:{campaign}"),
            account_id: "a".to_owned(),
            price: Some(Price { per: Some(price::Per::ThousandImpressionsMicros(5_000_000)) }),
            ..Campaign::default()
        }));
    }
    for ad in 0..ads {
        let zones = (0..ZONES_OF_AD).map(|n| {
            let (site_id, zone_id) = place((ad * ZONES_OF_AD + n) % zones);
            AdZone { site_id, zone_id, ..AdZone::default() }
        });
        records.push(Record::Ad(Ad {
            campaign_id: format!("brand:{}", ad / ADS_OF_CAMPAIGN),
            ad_unit_id: format!("ad{ad}"),
            zones: zones.collect(),
            ecpm_micros: Some(1_000_000 + (ad as i64 * 7_919) % 9_000_000),
            keywords: (0..3).map(|n| format!("word{}", (ad * 31 + n * 977) % 5_000)).collect(),
            landing_url: format!("https://brand.example/landing/{ad}"),
            ..Ad::default()
        }));
    }
    records
}

fn print_times(what: &str, mut times: Vec<Duration>) {
    let slowest = times.iter().enumerate().max_by_key(|(_, time)| **time).map_or(0, |(at, _)| at);
    times.sort();
    let at = |share: f64| {
        let last = times.len() - 1;
        times[(last as f64 * share) as usize].as_secs_f64() * 1e3
    };
    let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
    println!("{what}: p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms (round {slowest})");
}

fn seconds(began: Instant) -> f64 {
    began.elapsed().as_secs_f64()
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kb.unwrap_or(0) / 1_024
}
