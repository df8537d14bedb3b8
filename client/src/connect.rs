//! The typed client: one connection to a door, a deadline on every unary call.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Response, Status};

use crate::error::{Error, root_cause};

/// Longer than any healthy connect, also across an ocean; short enough for a person to wait.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(5);
/// A dead peer of a call without a deadline is noticed after the sum of these two.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// A page holds up to 1,000 ads, each with 32 KiB of markup and 10,000 zones at the very worst.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Where a door listens: `host:port`, also written `http://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    authority: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("\"{text}\" is not host:port or http://host:port");
        if text.starts_with("https://") {
            return Err("TLS is not spoken here yet: use host:port or http://host:port".into());
        }
        let authority = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let uri: Uri = format!("http://{authority}/").parse().map_err(|_| bad())?;
        let whole = uri.path() == "/" && uri.query().is_none() && !authority.contains('@');
        match (uri.host(), uri.port_u16()) {
            (Some(host), Some(port)) if whole && !host.is_empty() && port != 0 => {
                Ok(Address { authority: authority.to_owned() })
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

/// One of the server's listeners, and how long to wait for its answers.
#[derive(Clone, Debug)]
pub struct Door {
    /// "admin" or "decision".
    pub name: &'static str,
    /// The flag that gives another address.
    pub flag: &'static str,
    /// Where it listens.
    pub address: Address,
    /// The deadline of a unary call.
    pub timeout: Duration,
}

impl Door {
    /// The admin door: catalogue, reports, users.
    pub fn admin(address: Address, timeout: Duration) -> Self {
        Door { name: "admin", flag: "--admin-addr", address, timeout }
    }

    /// The decision door: ChooseAds.
    pub fn decision(address: Address, timeout: Duration) -> Self {
        Door { name: "decision", flag: "--decision-addr", address, timeout }
    }

    async fn connect(&self) -> Result<Channel, Error> {
        let bound = CONNECT_TIMEOUT_MAX.min(self.timeout);
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address))
            .map_err(|e| Error::Usage(format!("{} {}: {e}", self.flag, self.address)))?
            .connect_timeout(bound)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
        // The bound around it holds for the name look-up too.
        match tokio::time::timeout(bound, endpoint.connect()).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(failure)) => Err(Error::unreachable(self, root_cause(&failure))),
            Err(_) => Err(Error::unreachable(self, format!("no connection within {bound:?}"))),
        }
    }
}

/// A connected door; `C` is the generated client.
#[derive(Clone, Debug)]
pub struct Client<C> {
    /// For streams, which have no deadline: failures go through [`Client::failure`].
    pub stub: C,
    door: Door,
}

/// The catalogue on the admin door.
pub type Catalog = Client<CatalogServiceClient<Channel>>;
/// Decisions on the decision door.
pub type Decisions = Client<AdDecisionServiceClient<Channel>>;

impl Catalog {
    /// Connects to the admin door.
    ///
    /// # Errors
    /// [`Error::Unreachable`], within 5 s.
    pub async fn connect(door: Door) -> Result<Self, Error> {
        let stub = CatalogServiceClient::new(door.connect().await?)
            .max_decoding_message_size(ANSWER_BYTES_MAX);
        Ok(Client { stub, door })
    }
}

impl Decisions {
    /// Connects to the decision door.
    ///
    /// # Errors
    /// [`Error::Unreachable`], within 5 s.
    pub async fn connect(door: Door) -> Result<Self, Error> {
        let stub = AdDecisionServiceClient::new(door.connect().await?)
            .max_decoding_message_size(ANSWER_BYTES_MAX);
        Ok(Client { stub, door })
    }
}

impl<C> Client<C> {
    /// The server may wait for `wait` before it answers: the deadline of later calls is that much
    /// longer.
    pub fn allow(&mut self, wait: Duration) {
        self.door.timeout = self.door.timeout.saturating_add(wait);
    }

    /// One unary call under the door's deadline, which the server is told too.
    ///
    /// # Errors
    /// What the server refused, or that it could not be reached in time.
    pub async fn call<Q, A>(
        &mut self,
        message: Q,
        method: impl AsyncFnOnce(&mut C, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Error> {
        let mut request = Request::new(message);
        request.set_timeout(self.door.timeout);
        match tokio::time::timeout(self.door.timeout, method(&mut self.stub, request)).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            // Nobody cancels here: tonic, on either side, says so when the deadline is over.
            Ok(Err(status)) if status.code() == Code::Cancelled => Err(self.late()),
            Ok(Err(status)) => Err(self.failure(status)),
            Err(_) => Err(self.late()),
        }
    }

    fn late(&self) -> Error {
        Error::Deadline { door: self.door.clone(), timeout: self.door.timeout }
    }

    /// The error of a failed call to this door.
    pub fn failure(&self, status: Status) -> Error {
        Error::from_status(status, &self.door)
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
        assert!("[::1]:7072".parse::<Address>().is_ok());
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
            "http://x:1?q",
            "me@x:1",
        ];
        for bad in bad {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
        assert!("https://x:1".parse::<Address>().unwrap_err().contains("TLS"));
    }
}
