//! Where Redis is: one server, or some nodes of a cluster.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

const DEFAULT_PORT: u16 = 6_379;
/// What a URL may look like, for error messages.
const WANTS: &str = "is no redis://[user:password@]host[:port][,host[:port]...][/database], \
                     rediss:// the same, or unix:///path/to/socket";

/// One server, without credentials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
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
    pub(crate) seeds: Vec<Place>,
    pub(crate) is_tls: bool,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
    /// A file that holds the password: read at each connect, so that it can change.
    pub(crate) password_file: Option<PathBuf>,
    /// A PEM file of the authorities that may have signed the servers' certificates; nothing:
    /// the system's.
    pub(crate) authorities: Option<PathBuf>,
}

/// Text without its escapes; nothing where there is none.
fn plain(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    (!text.is_empty()).then(|| text.into_owned())
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
