//! The library's client, with the words and exit codes of the tool.

use std::time::Duration;

use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::ctl::error::Error;
use crate::stubs::{
    AdDecisionServiceClient, CatalogServiceClient, ReplayServiceClient, ReportServiceClient,
    UserServiceClient,
};
use crate::{Address, Answers, Call, Client, Options, Stub, Tls, Token};

/// One of the server's listeners, and how to talk to it.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    /// "admin" or "decision".
    pub(crate) name: &'static str,
    /// The flag that gives another address.
    pub(crate) flag: &'static str,
    /// Where it listens.
    pub(crate) address: Address,
    /// The deadline of a unary call.
    pub(crate) timeout: Duration,
}

impl Door {
    /// The admin door: catalogue, reports, users.
    pub(crate) fn admin(address: Address, timeout: Duration) -> Self {
        Door { name: "admin", flag: "--admin-addr", address, timeout }
    }

    /// The decision door: ChooseAds.
    pub(crate) fn decision(address: Address, timeout: Duration) -> Self {
        Door { name: "decision", flag: "--decision-addr", address, timeout }
    }

    /// Connects to it, within 5 s.
    pub(crate) async fn connect<C: Stub>(
        self,
        token: Option<Token>,
        tls: Tls,
    ) -> Result<Linked<C>, Error> {
        // The tool makes one call at a time.
        let options =
            Options::new([self.address.clone()]).connections(1).deadline(self.timeout).tls(tls);
        let options = match token {
            Some(token) => options.token(token),
            None => options,
        };
        match Client::connect(&options).await {
            Ok(client) => Ok(Linked { client, door: self }),
            Err(error) => Err(Error::of(error, &self)),
        }
    }
}

/// A connected door; `C` is the generated client.
#[derive(Clone, Debug)]
pub(crate) struct Linked<C> {
    client: Client<C>,
    door: Door,
}

/// The catalogue on the admin door.
pub(crate) type Catalog = Linked<CatalogServiceClient<Channel>>;
/// Visitors on the admin door.
pub(crate) type Users = Linked<UserServiceClient<Channel>>;
/// Counts on the admin door.
pub(crate) type Reports = Linked<ReportServiceClient<Channel>>;
/// Replays on the admin door.
pub(crate) type Replays = Linked<ReplayServiceClient<Channel>>;
/// Decisions on the decision door.
pub(crate) type Decisions = Linked<AdDecisionServiceClient<Channel>>;

impl<C: Stub> Linked<C> {
    /// The server may wait for `wait` before it answers: the deadline of later calls is that much
    /// longer.
    pub(crate) fn allow(&mut self, wait: Duration) {
        self.door.timeout = self.door.timeout.saturating_add(wait);
        self.client = self.client.within(self.door.timeout);
    }

    /// One unary call under the door's deadline.
    pub(crate) async fn call<Q: Call, A>(
        &self,
        message: Q,
        method: impl AsyncFn(&mut C, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Error> {
        self.client.call(message, method).await.map_err(|error| self.failure(error))
    }

    /// A call that is answered by a stream; failures of the stream go through
    /// [`Linked::failure`].
    pub(crate) async fn open<Q, A>(
        &self,
        message: Q,
        method: impl AsyncFnOnce(&mut C, Request<Q>) -> Result<Response<Streaming<A>>, Status>,
    ) -> Result<Answers<A>, Error> {
        self.client.open(message, method).await.map_err(|error| self.failure(error))
    }

    /// A call that asks by a stream.
    pub(crate) async fn send<S: Stream, A>(
        &self,
        messages: S,
        method: impl AsyncFnOnce(&mut C, Request<S>) -> Result<Response<A>, Status>,
    ) -> Result<A, Error> {
        self.client.send(messages, method).await.map_err(|error| self.failure(error))
    }

    /// The tool's error of a failed call to this door.
    pub(crate) fn failure(&self, error: crate::Error) -> Error {
        Error::of(error, &self.door)
    }
}
