//! The configuration: one TOML file, the environment over it, flags over both; read once and
//! checked before anything listens.

mod counts;
mod events;
mod files;
mod layers;
mod redis;
mod settings;
mod store;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

pub use counts::{CountsChoice, PostgresAddress};
pub use events::DefaultExposure;
pub use files::{FileError, NamedFile, TlsFiles};
pub use layers::{ConfigError, Effective, Origin, Value};
pub use redis::{Place, RedisAddress};
pub use settings::{SETTINGS, Setting};
pub use store::StoreChoice;

use crate::events::Lives;
use crate::limits::{ID_BYTES_MAX, PROFILE_FRESH_MAX, TOKEN_LIFE_MAX};
use crate::telemetry::LogFormat;
use counts::counts;
use files::tls;
use store::store;

/// The checked configuration.
#[derive(Debug)]
pub struct Config {
    /// Where decisions are asked for (gRPC).
    pub decision_addr: SocketAddr,
    /// Where events are reported.
    pub event_addr: SocketAddr,
    /// Where the catalogue is managed.
    pub admin_addr: SocketAddr,
    /// The decision door's TLS.
    pub decision_tls: Option<TlsFiles>,
    /// The event door's TLS.
    pub event_tls: Option<TlsFiles>,
    /// The admin door's TLS.
    pub admin_tls: Option<TlsFiles>,
    /// Who may call the admin door; nothing: whoever is on this machine.
    pub admin_identities: Option<NamedFile>,
    /// What tokens are sealed with; nothing: a key that the store made.
    pub token_keys: Option<NamedFile>,
    /// What the addresses of events begin with, without a slash at the end; nothing: the event
    /// door's own address.
    pub event_base_url: Option<String>,
    /// What makes a decision an exposure where the request does not say.
    pub default_exposure: DefaultExposure,
    /// Where the catalogue and the profiles are kept.
    pub store: StoreChoice,
    /// Whether the event door believes what its callers say of when something happened.
    pub events_trust_occurred_at: bool,
    /// How long tokens may be used.
    pub lives: Lives,
    /// Where events are counted.
    pub counts: CountsChoice,
    /// Whether this process counts them.
    pub is_counting: bool,
    /// How long counted events stay in the log.
    pub log_kept: Duration,
    /// What this node is called; nothing: it makes up a name and keeps it.
    pub node_id: Option<String>,
    /// Where the embedded store keeps its files, and any other store's node its copy.
    pub data_dir: PathBuf,
    /// Bytes of the file that events wait in while their log is away.
    pub spill_bytes_max: u64,
    /// Threads that answer decisions, and as many for the event door.
    pub decision_threads: usize,
    /// The decision door decides nothing and answers with so many bytes: no setting, see
    /// [`Config::decides_nothing`].
    pub noop_bytes: Option<usize>,
    /// How long a stop may take.
    pub shutdown_deadline: Duration,
    /// Answers say CATALOG_STALE past this age of the catalogue; nothing: never.
    pub catalog_stale_after: Option<Duration>,
    /// How long what Redis said of a visitor is fresh enough for a decision.
    pub profile_fresh: Duration,
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
        let store = store(effective)?;
        let (counts, is_counting) = counts(effective, &store)?;
        let config = Self {
            decision_addr: addr("decision_addr")?,
            event_addr: addr("event_addr")?,
            admin_addr: addr("admin_addr")?,
            decision_tls: tls(
                effective,
                ["decision_tls_cert", "decision_tls_key", "decision_tls_client_ca"],
            )?,
            event_tls: tls(effective, ["event_tls_cert", "event_tls_key", "event_tls_client_ca"])?,
            admin_tls: tls(effective, ["admin_tls_cert", "admin_tls_key", "admin_tls_client_ca"])?,
            admin_identities: NamedFile::new(effective, "admin_identities")?,
            token_keys: NamedFile::new(effective, "token_keys")?,
            event_base_url: effective.parse("event_base_url", events::base_url)?,
            default_exposure: effective.parse("default_exposure", str::parse)?,
            events_trust_occurred_at: effective.parse("events_trust_occurred_at", |text| {
                text.parse().map_err(|_| "is neither true nor false")
            })?,
            lives: lives(effective)?,
            store,
            counts,
            is_counting,
            log_kept: seconds("log_kept_s")?,
            node_id: effective.parse("node_id", node_id)?,
            data_dir: effective.parse("data_dir", |text| match text {
                "" => Err("is empty; a directory such as ./slotwise-data would do"),
                path => Ok(PathBuf::from(path)),
            })?,
            spill_bytes_max: effective.parse("spill_bytes_max", |text| {
                text.parse().map_err(|_| "is no number of bytes, such as 1073741824")
            })?,
            decision_threads: effective.parse("decision_threads", threads)?,
            noop_bytes: None,
            shutdown_deadline: seconds("shutdown_deadline_s")?,
            catalog_stale_after: Some(seconds("catalog_stale_after_s")?)
                .filter(|age| !age.is_zero()),
            profile_fresh: effective.parse("profile_fresh_ms", |text| {
                let given = text.parse().map(Duration::from_millis);
                given
                    .ok()
                    .filter(|fresh| *fresh <= PROFILE_FRESH_MAX)
                    .ok_or("is no number of milliseconds from 0 to 1,000")
            })?,
            log_format: effective.parse("log_format", str::parse)?,
            log: effective.parse("log", |text| {
                EnvFilter::try_new(text)
                    .map_err(|_| "is no log filter, such as info,slotwise_server=debug")
            })?,
        };
        config.check_admin_door(effective)?;
        Ok(config)
    }

    /// The same, for a benchmark whose decision door answers with `bytes` bytes and decides nothing.
    ///
    /// # Errors
    /// Off loopback, where somebody could take it for a server.
    pub fn decides_nothing(self, bytes: usize) -> Result<Self, &'static str> {
        if !self.decision_addr.ip().is_loopback() {
            return Err("--noop-bytes is for benchmarks, and decision_addr is not on loopback");
        }
        Ok(Self { noop_bytes: Some(bytes), ..self })
    }

    /// Who can reach the admin door must be asked who they are, in a way that nobody overhears.
    fn check_admin_door(&self, effective: &Effective) -> Result<(), ConfigError> {
        let is_reachable = !self.admin_addr.ip().is_loopback();
        if is_reachable && (self.admin_identities.is_none() || self.admin_tls.is_none()) {
            return Err(effective.refuse(
                "admin_addr",
                "is not on loopback: set admin_identities, so that callers are asked who they \
                 are, and admin_tls_cert with admin_tls_key, so that nobody overhears the answer; \
                 or 127.0.0.1:7072 would do, with an SSH tunnel from elsewhere",
            ));
        }
        let has_client_ca = self.admin_tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if has_client_ca && self.admin_identities.is_none() {
            return Err(effective.refuse(
                "admin_tls_client_ca",
                "says whose certificates to take, and nothing says who they are: set \
                 admin_identities, too",
            ));
        }
        Ok(())
    }
}

fn lives(effective: &Effective) -> Result<Lives, ConfigError> {
    let life = |key| {
        effective.parse(key, |text| {
            let seconds = text.parse::<u64>().ok();
            let in_range = seconds.filter(|s| (1..=TOKEN_LIFE_MAX.as_secs()).contains(s));
            in_range
                .map(Duration::from_secs)
                .ok_or("is no number of seconds from 1 to 2,592,000 (30 days)")
        })
    };
    Ok(Lives {
        impression: life("impression_life_s")?,
        click: life("click_life_s")?,
        conversion: life("conversion_life_s")?,
    })
}

fn node_id(text: &str) -> Result<Option<String>, &'static str> {
    if text.len() > ID_BYTES_MAX || text.chars().any(char::is_control) {
        return Err("is no name of up to 128 bytes without control characters");
    }
    Ok(Some(text.to_owned()).filter(|name| !name.is_empty()))
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
        assert_eq!(config.spill_bytes_max, crate::limits::SPILL_BYTES_DEFAULT);
        assert_eq!(config.shutdown_deadline, Duration::from_secs(10));
        assert_eq!(config.catalog_stale_after, None);
        assert!(!config.events_trust_occurred_at);
        let [hour, day] = [3_600, 86_400].map(Duration::from_secs);
        assert_eq!(config.lives, Lives { impression: hour, click: day, conversion: day * 30 });
    }

    #[test]
    fn a_certificate_and_its_key_go_together() {
        for door in ["decision", "event", "admin"] {
            let [cert, key, ca] = ["cert", "key", "client_ca"].map(|of| -> &'static str {
                let key = format!("{door}_tls_{of}");
                SETTINGS.iter().find(|setting| setting.key == key).unwrap().key
            });
            for (given, missing) in [
                (vec![cert], key),
                (vec![key], cert),
                (vec![ca], cert),
                (vec![cert, ca], key),
                (vec![key, ca], cert),
            ] {
                let values: Vec<_> = given.iter().map(|given| (*given, "a.pem")).collect();
                let error = Config::new(&flags(&values)).unwrap_err().to_string();
                assert!(error.contains(&format!("{missing} = \"\" is missing")), "{error}");
                assert!(given.iter().any(|given| error.contains(given)), "{error}");
            }
        }
        let all = [("event_tls_cert", "c.pem"), ("event_tls_key", "k.pem")];
        let config = Config::new(&flags(&all)).unwrap();
        let named = |key, path: &str| NamedFile { key, path: path.into() };
        let (cert, key) = (named("event_tls_cert", "c.pem"), named("event_tls_key", "k.pem"));
        assert_eq!(config.event_tls, Some(TlsFiles { cert, key, client_ca: None }));
        assert_eq!(config.decision_tls, None);
        assert_eq!(config.admin_tls, None);
    }

    #[test]
    fn an_admin_door_that_others_reach_needs_identities_and_tls() {
        let identities = ("admin_identities", "who.toml");
        let tls = [("admin_tls_cert", "c.pem"), ("admin_tls_key", "k.pem")];
        for addr in ["0.0.0.0:7072", "[::]:7072", "192.0.2.1:7072"] {
            let addr = ("admin_addr", addr);
            for given in [vec![addr], vec![addr, identities], vec![addr, tls[0], tls[1]]] {
                let error = Config::new(&flags(&given)).unwrap_err().to_string();
                for word in ["admin_identities", "admin_tls_cert", "admin_tls_key", addr.1] {
                    assert!(error.contains(word), "{error}");
                }
            }
            Config::new(&flags(&[addr, identities, tls[0], tls[1]])).unwrap();
        }
        // On this machine either does without the other.
        Config::new(&flags(&[identities])).unwrap();
        Config::new(&flags(&tls)).unwrap();
        // A certificate alone says a name, and nothing says what that name may do.
        let ca = ("admin_tls_client_ca", "ca.pem");
        let error = Config::new(&flags(&[tls[0], tls[1], ca])).unwrap_err().to_string();
        assert!(error.contains("admin_tls_client_ca") && error.contains("admin_identities"));
        Config::new(&flags(&[tls[0], tls[1], ca, identities])).unwrap();
        // The other doors serve everybody.
        for key in ["decision_addr", "event_addr"] {
            Config::new(&flags(&[(key, "0.0.0.0:7070")])).unwrap();
        }
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
            ("spill_bytes_max", "1 GiB"),
            ("shutdown_deadline_s", "soon"),
            ("events_trust_occurred_at", "maybe"),
            ("impression_life_s", "0"),
            ("click_life_s", "1d"),
            ("conversion_life_s", "2592001"),
            ("log_format", "xml"),
            ("log", "=="),
        ] {
            let error = Config::new(&flags(&[(key, value)])).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(value), "{error}");
        }
    }
}
