//! Where Redis is: one server, or some nodes of a cluster.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisResult,
    TlsCertificates,
};

use crate::limits::REDIS_CALL_MAX;

const DEFAULT_PORT: u16 = 6_379;
/// What a URL may look like, for error messages.
const WANTS: &str = "is no redis://[user:password@]host[:port][,host[:port]...][/database], \
                     rediss:// the same, or unix:///path/to/socket";

/// One server, without credentials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// Host and port.
    Tcp(String, u16),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Place {}

/// A store's address with all that is needed to connect.
#[derive(Clone)]
pub struct RedisAddress {
    /// Where to begin.
    pub(super) seeds: Vec<Place>,
    is_tls: bool,
    username: Option<String>,
    password: Option<String>,
    database: i64,
    /// A file that holds the password: read at each connect, so that it can change.
    password_file: Option<PathBuf>,
    /// A PEM file of the authorities that may have signed the servers' certificates; nothing:
    /// the system's.
    authorities: Option<PathBuf>,
}

/// Never shows the password.
impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match &self.seeds[..] {
            [Place::Unix(_)] => "unix",
            _ if self.is_tls => "rediss",
            _ => "redis",
        };
        let seeds: Vec<_> = self.seeds.iter().map(ToString::to_string).collect();
        write!(f, "{scheme}://{}", seeds.join(","))
    }
}

impl FromStr for RedisAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once("://").ok_or(WANTS)?;
        let mut address = Self {
            seeds: Vec::new(),
            is_tls: scheme == "rediss",
            username: None,
            password: None,
            database: 0,
            password_file: None,
            authorities: None,
        };
        if scheme == "unix" {
            if !rest.starts_with('/') {
                return Err(WANTS);
            }
            address.seeds.push(Place::Unix(rest.into()));
            return Ok(address);
        }
        if !["redis", "rediss"].contains(&scheme) {
            return Err(WANTS);
        }
        let (credentials, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        if !database.is_empty() {
            address.database = database.parse().map_err(|_| WANTS)?;
        }
        // The URL library knows how to unescape; it is given one host at a time.
        let parsed = url::Url::parse(&format!("redis://{credentials}@x")).map_err(|_| WANTS)?;
        let plain = |text: &str| {
            let text = percent_decode_str(text).decode_utf8().ok()?;
            (!text.is_empty()).then(|| text.into_owned())
        };
        address.username = plain(parsed.username());
        address.password = parsed.password().and_then(plain);
        for host in hosts.split(',') {
            let parsed = url::Url::parse(&format!("redis://{host}")).map_err(|_| WANTS)?;
            let name = parsed.host_str().filter(|name| !name.is_empty()).ok_or(WANTS)?;
            if !matches!(parsed.path(), "" | "/") {
                return Err(WANTS);
            }
            let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
            address.seeds.push(Place::Tcp(name, parsed.port().unwrap_or(DEFAULT_PORT)));
        }
        Ok(address)
    }
}

impl RedisAddress {
    /// Reads the password from this file at each connect.
    #[must_use]
    pub fn with_password_file(mut self, file: Option<PathBuf>) -> Self {
        self.password_file = file;
        self
    }

    /// Trusts the authorities in this PEM file, and no others.
    #[must_use]
    pub fn with_authorities(mut self, file: Option<PathBuf>) -> Self {
        self.authorities = file;
        self
    }

    /// Whether the URL itself holds a password.
    pub fn holds_password(&self) -> bool {
        self.password.is_some()
    }

    /// Another server of the same installation: it is told without a host where it does not know
    /// its own.
    pub(super) fn sibling(&self, host: &str, port: u16) -> Place {
        match (&self.seeds[..], host) {
            ([Place::Tcp(own, _), ..], "") => Place::Tcp(own.clone(), port),
            _ => Place::Tcp(host.to_owned(), port),
        }
    }

    /// A client of the server at `place`; reads the files that it needs.
    pub(super) fn client(&self, place: &Place) -> RedisResult<Client> {
        let mut settings = RedisConnectionInfo::default()
            .set_db(self.database)
            .set_lib_name("slotwise", env!("CARGO_PKG_VERSION"));
        if let Some(username) = &self.username {
            settings = settings.set_username(username);
        }
        let from_file = self.password_file.as_ref().map(std::fs::read_to_string).transpose()?;
        let password = from_file.as_ref().map(|text| text.trim_end_matches(['\n', '\r']));
        if let Some(password) = password.or(self.password.as_deref()) {
            settings = settings.set_password(password);
        }
        let connection = self
            .address(place)
            .into_connection_info()?
            .set_tcp_settings(
                // A peer that is gone without a word is noticed by the system, too.
                TcpSettings::default().set_nodelay(true).set_user_timeout(4 * REDIS_CALL_MAX),
            )
            .set_redis_settings(settings);
        self.with_tls(connection)
    }

    fn address(&self, place: &Place) -> ConnectionAddr {
        match place {
            Place::Unix(path) => ConnectionAddr::Unix(path.clone()),
            Place::Tcp(host, port) if self.is_tls => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            },
            Place::Tcp(host, port) => ConnectionAddr::Tcp(host.clone(), *port),
        }
    }

    fn with_tls(&self, connection: ConnectionInfo) -> RedisResult<Client> {
        let Some(file) = self.authorities.as_ref().filter(|_| self.is_tls) else {
            return Client::open(connection);
        };
        let root_cert = Some(std::fs::read(file)?);
        Client::build_with_tls(connection, TlsCertificates { client_tls: None, root_cert })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_address_may_be() {
        let shown = |text: &str| text.parse::<RedisAddress>().map(|address| address.to_string());
        assert_eq!(shown("redis://localhost").unwrap(), "redis://localhost:6379");
        assert_eq!(shown("redis://127.0.0.1:7000/3").unwrap(), "redis://127.0.0.1:7000");
        assert_eq!(shown("rediss://u:p@r.example").unwrap(), "rediss://r.example:6379");
        assert_eq!(
            shown("redis://:pw@a:7000,b,[::1]:7002").unwrap(),
            "redis://a:7000,b:6379,[::1]:7002"
        );
        assert_eq!(shown("unix:///run/redis.sock").unwrap(), "unix:///run/redis.sock");
        for bad in ["", "localhost:6379", "http://x", "redis://", "redis://a:99999", "redis://a/x"]
        {
            assert!(shown(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn credentials_are_unescaped_and_never_shown() {
        let address: RedisAddress = "redis://ann:p%40ss%2F:w@host:1".parse().unwrap();
        assert_eq!(address.username.as_deref(), Some("ann"));
        assert_eq!(address.password.as_deref(), Some("p@ss/:w"));
        assert!(!format!("{address:?} {address}").contains("p@ss"));
    }
}
