//! The configuration: one TOML file, the environment over it, flags over both; read once and
//! checked before anything listens.

mod layers;
mod settings;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

pub use layers::{ConfigError, Effective, Origin, Value};
pub use settings::{SETTINGS, Setting};

use crate::telemetry::LogFormat;

/// The checked configuration.
#[derive(Debug)]
pub struct Config {
    /// Where decisions are asked for (gRPC).
    pub decision_addr: SocketAddr,
    /// Where events are reported.
    pub event_addr: SocketAddr,
    /// Where the catalogue is managed.
    pub admin_addr: SocketAddr,
    /// Where the embedded store keeps its files.
    pub data_dir: PathBuf,
    /// Threads that answer decisions.
    pub decision_threads: usize,
    /// How long a stop may take.
    pub shutdown_deadline: Duration,
    /// Answers say CATALOG_STALE past this age of the catalogue; nothing: never.
    pub catalog_stale_after: Option<Duration>,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Which log lines there are.
    pub log: EnvFilter,
}

impl Config {
    /// Reads every setting from `effective`.
    ///
    /// # Errors
    /// The first value that will not do, with where it came from and what would do.
    pub fn new(effective: &Effective) -> Result<Self, ConfigError> {
        let seconds = |key| {
            let wants = "is no number of seconds from 0 to 86,400,000";
            let in_range = |text: &str| text.parse::<u64>().ok().filter(|s| *s <= 86_400_000);
            effective.parse(key, |text| in_range(text).map(Duration::from_secs).ok_or(wants))
        };
        let addr = |key| {
            effective.parse(key, |text| {
                text.parse().map_err(|_| "is no address and port, such as 127.0.0.1:7070")
            })
        };
        let config = Self {
            decision_addr: addr("decision_addr")?,
            event_addr: addr("event_addr")?,
            admin_addr: addr("admin_addr")?,
            data_dir: effective.parse("data_dir", |text| match text {
                "" => Err("is empty; a directory such as ./slotwise-data would do"),
                path => Ok(PathBuf::from(path)),
            })?,
            decision_threads: effective.parse("decision_threads", threads)?,
            shutdown_deadline: seconds("shutdown_deadline_s")?,
            catalog_stale_after: Some(seconds("catalog_stale_after_s")?)
                .filter(|age| !age.is_zero()),
            log_format: effective.parse("log_format", str::parse)?,
            log: effective.parse("log", |text| {
                EnvFilter::try_new(text)
                    .map_err(|_| "is no log filter, such as info,slotwise_server=debug")
            })?,
        };
        if !config.admin_addr.ip().is_loopback() {
            return Err(effective.refuse(
                "admin_addr",
                "is not on loopback, and this version cannot ask callers who they are; \
                 127.0.0.1:7072 would do, with an SSH tunnel from elsewhere",
            ));
        }
        Ok(config)
    }
}

fn threads(text: &str) -> Result<usize, &'static str> {
    const WANTS: &str = "is no number of threads from 0 (one for each core) to 1,024";
    match text.parse().map_err(|_| WANTS)? {
        0 => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        threads @ 1..=1_024 => Ok(threads),
        _ => Err(WANTS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(values: &[(&'static str, &str)]) -> Effective {
        let flags = values.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Effective::new(None, |_| None, flags).unwrap()
    }

    #[test]
    fn the_defaults_hold() {
        let config = Config::new(&flags(&[])).unwrap();
        assert_eq!(config.decision_addr, "127.0.0.1:7070".parse().unwrap());
        assert_eq!(config.event_addr, "127.0.0.1:7071".parse().unwrap());
        assert_eq!(config.admin_addr, "127.0.0.1:7072".parse().unwrap());
        assert_eq!(config.data_dir, PathBuf::from("./slotwise-data"));
        assert_eq!(config.shutdown_deadline, Duration::from_secs(10));
        assert_eq!(config.catalog_stale_after, None);
    }

    #[test]
    fn a_bad_value_is_named_with_what_would_do() {
        for (key, value) in [
            ("decision_addr", "localhost"),
            ("admin_addr", "0.0.0.0:7072"),
            ("admin_addr", "[::]:7072"),
            ("data_dir", ""),
            ("decision_threads", "-1"),
            ("decision_threads", "5000"),
            ("shutdown_deadline_s", "soon"),
            ("log_format", "xml"),
            ("log", "=="),
        ] {
            let error = Config::new(&flags(&[(key, value)])).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(value), "{error}");
        }
    }
}
