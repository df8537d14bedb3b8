//! Where a door listens.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use tonic::transport::Uri;

/// Where a door listens: `host:port` or `http://host:port` in clear, `https://host:port` with TLS.
///
/// ```
/// use slotwise_client::Address;
///
/// let address: Address = "https://ads.example:7070".parse()?;
/// assert!(address.is_tls() && !address.is_loopback());
/// assert_eq!(address.to_string(), "https://ads.example:7070");
///
/// let near: Address = "127.0.0.1:7070".parse()?;
/// assert!(!near.is_tls() && near.is_loopback());
/// assert!("ads.example".parse::<Address>().is_err(), "the port is missing");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    tls: bool,
    authority: String,
    host: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("\"{text}\" is not host:port, http://host:port or https://host:port");
        let (tls, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://").unwrap_or(text)),
        };
        let authority = rest.trim_end_matches('/');
        let uri: Uri = format!("http://{authority}/").parse().map_err(|_| bad())?;
        let whole = uri.path() == "/" && uri.query().is_none() && !authority.contains('@');
        match (uri.host(), uri.port_u16()) {
            (Some(host), Some(port)) if whole && !host.is_empty() && port != 0 => {
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                Ok(Address { tls, authority: authority.to_owned(), host })
            }
            _ => Err(bad()),
        }
    }
}

impl From<std::net::SocketAddr> for Address {
    /// In clear.
    fn from(address: std::net::SocketAddr) -> Self {
        let host = address.ip().to_string();
        Address { tls: false, authority: address.to_string(), host }
    }
}

impl Address {
    /// Whether TLS is spoken there.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Whether it lies on this machine, so that nobody on the way can listen.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }

    /// The host without brackets: what a certificate is issued for.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// What requests there name as their target.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }

    /// Where TCP leads.
    pub(crate) fn dialled(&self) -> String {
        format!("http://{}", self.authority)
    }
}

impl fmt::Display for Address {
    /// As it was written, without `http://`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "https://" } else { "" })?;
        f.write_str(&self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port() {
        for good in ["127.0.0.1:7072", "http://127.0.0.1:7072", "http://127.0.0.1:7072/"] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), "127.0.0.1:7072");
        }
        let secure = "https://ads.example:443/".parse::<Address>().unwrap();
        assert_eq!(secure.to_string(), "https://ads.example:443");
        assert!("ads.example:80".parse::<Address>().is_ok());
        let bad = [
            "",
            ":7072",
            "localhost",
            "localhost:",
            "localhost:0",
            "localhost:99999",
            "a b:1",
            "ftp://x:1",
            "http://x:1/path",
            "https://x:1/path",
            "http://x:1?q",
            "https://",
            "https://x",
            "me@x:1",
        ];
        for bad in bad {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        let is_loopback = |text: &str| text.parse::<Address>().unwrap().is_loopback();
        for near in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "https://LOCALHOST:1"]
        {
            assert!(is_loopback(near), "{near}");
        }
        for far in ["10.0.0.1:1", "0.0.0.0:1", "[::2]:1", "127.0.0.1.example:1", "localhost.x:1"] {
            assert!(!is_loopback(far), "{far}");
        }
    }
}
