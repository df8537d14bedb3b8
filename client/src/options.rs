//! Where to connect, how, and as whom.

use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;

use crate::Error;
use crate::address::Address;
use crate::limits::{
    ADDRESSES_MAX, CONNECT_TIMEOUT, CONNECTIONS_DEFAULT, CONNECTIONS_MAX, KEEP_ALIVE_INTERVAL,
    KEEP_ALIVE_TIMEOUT,
};
use crate::tls::Tls;
use crate::token::Token;

/// Where one door's nodes are, how to connect to them, and as whom. Nothing is checked before a
/// client is made of it.
///
/// ```
/// use std::time::Duration;
/// use slotwise_client::{Options, Token};
///
/// let options = Options::parse(["https://ads-1.example:7070", "https://ads-2.example:7070"])?
///     .connections(4)
///     .deadline(Duration::from_millis(200))
///     .token(Token::new("s3cret")?);
/// # Ok::<(), slotwise_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    addresses: Vec<Address>,
    connections: usize,
    deadline: Option<Duration>,
    tls: Tls,
    token: Option<Token>,
    token_in_clear: bool,
}

impl Options {
    /// All addresses of one door; calls are spread over them.
    pub fn new(addresses: impl IntoIterator<Item = Address>) -> Self {
        Options {
            addresses: addresses.into_iter().collect(),
            connections: CONNECTIONS_DEFAULT,
            deadline: None,
            tls: Tls::default(),
            token: None,
            token_in_clear: false,
        }
    }

    /// As [`Options::new`], of addresses as people write them (see [`Address`]).
    ///
    /// # Errors
    /// [`Error::Options`], which names the address that is none.
    pub fn parse(addresses: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, Error> {
        let parsed: Result<Vec<Address>, String> =
            addresses.into_iter().map(|text| text.as_ref().parse()).collect();
        parsed.map(Options::new).map_err(Error::Options)
    }

    /// Connections to each address: 2 unless said, at most 16. One passes about 98,000 calls a
    /// second.
    pub fn connections(mut self, each: usize) -> Self {
        self.connections = each;
        self
    }

    /// How long a call may take with all that belongs to it: the wait for a connection, repeats
    /// and the pauses between them. The server is told what is left of it. Without, 1 s on the
    /// decision door and 30 s on the others.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How `https://` addresses are checked. Refused where all addresses are in clear.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Who is calling. It is sent over TLS, or to this machine; an address where it would go in
    /// clear over a network is refused, unless [`Options::token_in_clear`] says otherwise.
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Lets the token go in clear over a network: only where something else encrypts it, such as a
    /// service mesh.
    pub fn token_in_clear(mut self) -> Self {
        self.token_in_clear = true;
        self
    }

    pub(crate) fn deadline_or(&self, default: Duration) -> Duration {
        self.deadline.unwrap_or(default)
    }

    pub(crate) fn token_given(&self) -> Option<Token> {
        self.token.clone()
    }

    /// Each address as often as there are connections to it.
    pub(crate) fn targets(&self) -> Result<Vec<Target>, Error> {
        self.check()?;
        let tls = match self.addresses.iter().any(Address::is_tls) {
            true => Some(self.tls.connector()?),
            false => None,
        };
        let mut targets = Vec::with_capacity(self.addresses.len() * self.connections);
        // Round after round, so that neighbours in the list are different nodes.
        for _ in 0..self.connections {
            for address in &self.addresses {
                let handshake = match tls.clone().filter(|_| address.is_tls()) {
                    Some(connector) => Some((connector, self.tls.name(address)?)),
                    None => None,
                };
                let endpoint = endpoint(address)?;
                targets.push(Target { address: address.clone(), endpoint, handshake });
            }
        }
        Ok(targets)
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |why: String| Err(Error::Options(why));
        match self.addresses.len() {
            0 => return refuse("no address is given".to_owned()),
            n if n > ADDRESSES_MAX => {
                return refuse(format!("{n} addresses are given, at most {ADDRESSES_MAX} will do"));
            }
            _ => {}
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            let n = self.connections;
            return refuse(format!(
                "{n} connections to an address: 1 to {CONNECTIONS_MAX} will do"
            ));
        }
        if self.deadline.is_some_and(|deadline| deadline.is_zero()) {
            return refuse("no call is answered in no time: the deadline is 0".to_owned());
        }
        let in_clear = self.addresses.iter().find(|address| !address.is_tls());
        if let Some(address) = in_clear.filter(|_| !self.tls.is_default()) {
            return refuse(format!("TLS is set up, but {address} is in clear: use https://"));
        }
        let mut overheard = self.addresses.iter().filter(|a| !a.is_tls() && !a.is_loopback());
        match overheard.next() {
            Some(address) if self.token.is_some() && !self.token_in_clear => refuse(format!(
                "the token would go in clear over the network to {address}: use https://"
            )),
            _ => Ok(()),
        }
    }
}

/// Where one connection goes.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) endpoint: Endpoint,
    /// With TLS: how, and with whom.
    pub(crate) handshake: Option<(TlsConnector, ServerName<'static>)>,
}

fn endpoint(address: &Address) -> Result<Endpoint, Error> {
    let bad = |what: String| Error::Options(format!("{address}: {what}"));
    // TLS is ours (see pool/dial.rs): tonic dials in clear, and says of its requests what they are.
    let origin = address.origin().parse().map_err(|e| bad(format!("{e}")))?;
    Ok(Endpoint::from_shared(address.dialled())
        .map_err(|e| bad(crate::error::root_cause(&e)))?
        .origin(origin)
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: Options) -> String {
        options.targets().err().unwrap().to_string()
    }

    #[test]
    fn a_token_does_not_go_in_clear_over_a_network() {
        let with_token =
            |address: &str| Options::parse([address]).unwrap().token(Token::new("s3cret").unwrap());
        assert!(with_token("127.0.0.1:7070").targets().is_ok());
        assert!(with_token("[::1]:7070").targets().is_ok());
        let said = refused(with_token("ads.example:7070"));
        assert!(said.contains("ads.example:7070") && said.contains("in clear"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
        // One bad address among good ones is enough.
        let mixed = Options::parse(["127.0.0.1:7070", "10.0.0.1:7070"]).unwrap();
        refused(mixed.token(Token::new("s3cret").unwrap()));
        assert!(with_token("ads.example:7070").token_in_clear().targets().is_ok());
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let near = || Options::parse(["127.0.0.1:7070"]).unwrap();
        assert!(Options::parse(["nowhere"]).unwrap_err().to_string().contains("nowhere"));
        assert!(refused(Options::new([])).contains("no address"));
        assert!(refused(near().connections(0)).contains("0 connections"));
        assert!(refused(near().connections(17)).contains("17 connections"));
        assert!(refused(near().deadline(Duration::ZERO)).contains("deadline"));
        assert!(refused(near().tls(Tls::default().server_name("x"))).contains("https://"));
        let many: Vec<String> = (1..=33).map(|n| format!("127.0.0.1:{n}")).collect();
        assert!(refused(Options::parse(many).unwrap()).contains("33 addresses"));
    }

    #[test]
    fn neighbours_are_different_nodes() {
        let options = Options::parse(["127.0.0.1:1", "127.0.0.1:2"]).unwrap().connections(2);
        let order: Vec<String> =
            options.targets().unwrap().iter().map(|target| target.address.to_string()).collect();
        assert_eq!(order, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1", "127.0.0.1:2"]);
    }
}
