//! A real server in this process, for tests: empty data directory, free ports, own clock.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod counts;
mod door;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub use counts::MemoryLedger;
pub use door::LedgerDoor;

use crate::app::{App, SystemClock};
use crate::config::{Config, Effective};
use crate::ports::Clock;

/// A clock that stands still until it is set.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock at `now_us`.
    pub fn new(now_us: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(now_us)))
    }

    /// Sets it.
    pub fn set(&self, now_us: i64) {
        self.0.store(now_us, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A running server with a data directory of its own, removed when it is dropped.
pub struct Server {
    app: App,
    dir: Option<Box<dyn Send + Sync>>,
}

impl Server {
    /// Starts on a new data directory with the machine's clock.
    pub async fn start() -> Self {
        Self::start_with(Arc::new(SystemClock), &[]).await
    }

    /// Starts on a new data directory with `clock` and `settings`.
    pub async fn start_with(clock: Arc<dyn Clock>, settings: &[(&'static str, &str)]) -> Self {
        let dir = OwnDir::new();
        let mut server = Self::start_in(&dir.0, clock, settings).await;
        server.dir = Some(Box::new(dir));
        server
    }

    /// Starts on `data_dir`, which stays.
    pub async fn start_in(
        data_dir: &Path,
        clock: Arc<dyn Clock>,
        settings: &[(&'static str, &str)],
    ) -> Self {
        let mut flags: BTreeMap<&'static str, String> = BTreeMap::from([
            ("decision_addr", "127.0.0.1:0".to_owned()),
            ("event_addr", "127.0.0.1:0".to_owned()),
            ("admin_addr", "127.0.0.1:0".to_owned()),
            ("data_dir", data_dir.display().to_string()),
        ]);
        flags.extend(settings.iter().map(|(key, value)| (*key, (*value).to_owned())));
        let config = Effective::new(None, |_| None, flags).and_then(|all| Config::new(&all));
        let app = App::start(&config.unwrap(), clock).await.unwrap();
        Self { app, dir: None }
    }

    /// The running application.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Where decisions are asked for.
    pub fn decision_addr(&self) -> SocketAddr {
        self.app.decision_addr()
    }

    /// Where events are reported.
    pub fn event_addr(&self) -> SocketAddr {
        self.app.event_addr()
    }

    /// Where the catalogue is managed.
    pub fn admin_addr(&self) -> SocketAddr {
        self.app.admin_addr()
    }

    /// Stops as SIGTERM would.
    pub async fn stop(self) {
        self.app.stop().await.unwrap();
    }
}

struct OwnDir(std::path::PathBuf);

impl OwnDir {
    fn new() -> Self {
        let mut name = [0; 8];
        getrandom::fill(&mut name).unwrap();
        let name = format!("slotwise-test-{:016x}", u64::from_le_bytes(name));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for OwnDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
