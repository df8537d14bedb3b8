//! What explanations cost those that do not ask for one, through the decision door of a running
//! server.
//!
//! `cargo bench -p slotwise-server --bench explain` prints tables in Markdown; `-- --quick` takes
//! a smaller large zone and less time. One server in this process, on the embedded store and with
//! one decision thread, so that all calls meet on it; the callers are in this process too.
//! Catalogue and requests are from fixed seeds: two runs have the same zones and ask the same.
//! Units stand at every figure; what is measured is said above each table.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "a benchmark stops where something is not as it must be"
)]

#[path = "explain/beside.rs"]
mod beside;
#[path = "explain/data.rs"]
mod data;
#[path = "explain/load.rs"]
mod load;
#[path = "explain/report.rs"]
mod report;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_server::app::SystemClock;
use slotwise_server::catalog::{Catalog, ImportOptions};
use slotwise_server::store::embedded::EmbeddedCatalog;
use slotwise_server::testing::Server;
use tonic::transport::{Channel, Endpoint};

use data::ZoneOf;

const SMALL: ZoneOf = ZoneOf { zone: "small", ads: 1_000 };

/// How much is measured.
#[derive(Clone, Copy)]
struct Effort {
    /// Ads of the large zone.
    large_ads: usize,
    /// Rounds without and with explanations, in pairs.
    pairs: usize,
    /// Of one such round.
    round: Duration,
    /// Rounds of small requests without and with the large zone's explanations beside.
    beside_pairs: usize,
    /// Of one such round.
    beside_round: Duration,
}

impl Effort {
    const FULL: Self = Self {
        large_ads: 1_000_000,
        pairs: 40,
        round: Duration::from_secs(1),
        beside_pairs: 5,
        beside_round: Duration::from_secs(4),
    };
    const QUICK: Self = Self {
        large_ads: 50_000,
        pairs: 5,
        round: Duration::from_millis(500),
        beside_pairs: 2,
        beside_round: Duration::from_secs(1),
    };
}

#[tokio::main]
async fn main() {
    let mut effort = Effort::FULL;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => effort = Effort::QUICK,
            "--bench" => {} // said by Cargo
            other => panic!("{other:?} is not known; --quick is"),
        }
    }
    let large = ZoneOf { zone: "large", ads: effort.large_ads };
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), &[SMALL, large]).await;
    let one_thread = [("decision_threads", "1")];
    let began = Instant::now();
    let server = Server::start_in(dir.path(), Arc::new(SystemClock), &one_thread).await;
    eprintln!("started in {:.1} s", began.elapsed().as_secs_f64());

    println!("# Explanations beside other calls\n");
    load::run(&server, effort).await;
    beside::run(&server, large, effort).await;
    server.stop().await;
}

/// Stores `zones` with their ads in `dir`.
async fn fill(dir: &Path, zones: &[ZoneOf]) {
    let began = Instant::now();
    let store = Arc::new(EmbeddedCatalog::open(dir).unwrap());
    let catalog = Catalog::new(store, Arc::default(), Arc::new(SystemClock));
    let records = data::records(zones);
    let done = catalog.import(records, ImportOptions::default(), "bench").await.unwrap();
    assert_eq!(done.problem_count, 0, "{:?}", done.problems);
    eprintln!("imported in {:.1} s", began.elapsed().as_secs_f64());
}

/// A client with a connection of its own.
async fn connect(server: &Server) -> AdDecisionServiceClient<Channel> {
    let door = Endpoint::try_from(format!("http://{}", server.decision_addr())).unwrap();
    AdDecisionServiceClient::new(door.tcp_nodelay(true).connect().await.unwrap())
}
