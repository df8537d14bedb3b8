//! The typed client: a call under one deadline, on whichever connection is free, sent again where
//! that is harmless.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::event_service_client::EventServiceClient;
use slotwise_proto::v1::replay_service_client::ReplayServiceClient;
use slotwise_proto::v1::report_service_client::ReportServiceClient;
use slotwise_proto::v1::user_service_client::UserServiceClient;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};
use tonic_health::pb::health_client::HealthClient;

use crate::Error;
use crate::answers::Answers;
use crate::limits::{ADMIN_DEADLINE, ANSWER_BYTES_MAX, DEADLINE_MAX, DECISION_DEADLINE};
use crate::options::Options;
use crate::pool::{Lease, Pool};
use crate::repeat::{Call, Tries};
use crate::token::Token;

/// A generated client of one service; implemented for those of Slotwise's doors.
pub trait Stub: Send + sealed::Sealed {
    /// The deadline of a call where nobody says.
    const DEADLINE: Duration;

    /// The generated client over a connection.
    fn over(channel: Channel) -> Self;
}

mod sealed {
    /// Keeps [`super::Stub`] to the clients that are named here.
    pub trait Sealed {}
}

macro_rules! stubs {
    ($($stub:ident: $deadline:expr;)*) => {
        $(impl sealed::Sealed for $stub<Channel> {}
        impl Stub for $stub<Channel> {
            const DEADLINE: Duration = $deadline;

            fn over(channel: Channel) -> Self {
                $stub::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)
            }
        })*
    };
}

stubs! {
    AdDecisionServiceClient: DECISION_DEADLINE;
    CatalogServiceClient: ADMIN_DEADLINE;
    UserServiceClient: ADMIN_DEADLINE;
    ReplayServiceClient: ADMIN_DEADLINE;
    ReportServiceClient: ADMIN_DEADLINE;
    EventServiceClient: ADMIN_DEADLINE;
    HealthClient: ADMIN_DEADLINE;
}

/// The connections to one door, spread over its nodes and kept up in the background. `C` is the
/// generated client of the service there; [`crate::Decisions`], [`crate::Catalog`] and their like
/// name them. Clones share the connections.
///
/// Any unary call of the service goes through [`Client::call`]:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), slotwise_client::Error> {
/// # let server = slotwise_server::testing::Server::start().await;
/// # let admin = server.admin_addr().to_string();
/// use slotwise_client::stubs::CatalogServiceClient;
/// use slotwise_client::v1::{Account, GetAccountRequest, PutAccountRequest};
/// use slotwise_client::{Catalog, Code, Options};
///
/// let catalog = Catalog::connect(&Options::parse([admin])?).await?;
/// let account = Account { account_id: "acme".into(), ..Account::default() };
/// let put = PutAccountRequest { account: Some(account), ..PutAccountRequest::default() };
/// catalog.call(put, CatalogServiceClient::put_account).await?;
///
/// let get = |id: &str| GetAccountRequest { account_id: id.into() };
/// let found = catalog.call(get("acme"), CatalogServiceClient::get_account).await?;
/// assert_eq!(found.account_id, "acme");
/// let missing = catalog.call(get("nobody"), CatalogServiceClient::get_account).await;
/// assert_eq!(missing.unwrap_err().code(), Some(Code::NotFound));
/// # server.stop().await;
/// # Ok(())
/// # }
/// ```
pub struct Client<C> {
    pool: Pool,
    token: Option<Token>,
    deadline: Duration,
    stub: PhantomData<fn() -> C>,
}

impl<C: Stub> Client<C> {
    /// Connects, and returns once one connection stands; the others follow.
    ///
    /// # Errors
    /// [`Error::Options`] for what cannot work, and [`Error::Unreachable`] when the deadline is
    /// over or the first attempt at every connection has failed.
    pub async fn connect(options: &Options) -> Result<Self, Error> {
        let client = Client::lazy(options)?;
        client.pool.ready(Instant::now() + client.deadline).await?;
        Ok(client)
    }

    /// Begins to connect and returns at once, for a program that must start while the service is
    /// away; calls wait for a connection up to their deadlines. The connections live on the tokio
    /// runtime that this is called on.
    ///
    /// # Errors
    /// [`Error::Options`], also where there is no runtime.
    pub fn lazy(options: &Options) -> Result<Self, Error> {
        Ok(Client {
            pool: Pool::new(options)?,
            token: options.token_given(),
            deadline: options.deadline_or(C::DEADLINE).min(DEADLINE_MAX),
            stub: PhantomData,
        })
    }

    /// The same connections with another deadline: `client.within(budget).call(...)`.
    pub fn within(&self, deadline: Duration) -> Self {
        Client { deadline: deadline.min(DEADLINE_MAX), ..self.clone() }
    }

    /// The deadline of a call.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// One unary call. The deadline covers all of it: the wait for a connection, each attempt and
    /// the pauses between them. It is sent again at most twice, only where that is harmless (see
    /// [`Call::repeat`]), and not at once where the server asks for a pause.
    ///
    /// # Errors
    /// What the last attempt ended with.
    pub async fn call<Q: Call, A>(
        &self,
        message: Q,
        method: impl AsyncFn(&mut C, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Error> {
        let deadline = Instant::now() + self.deadline;
        let mut tries = Tries::new(message.repeat());
        loop {
            let lease = self.pool.lend(deadline).await?;
            let mut request = self.request(message.clone());
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
            let mut stub = C::over(lease.channel());
            let status = match timeout_at(deadline, method(&mut stub, request)).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => return Err(Error::Deadline(self.deadline)),
            };
            let fate = lease.judge(&status);
            drop(lease);
            match tries.again(fate, &status) {
                // A pause that outlasts the deadline would only make the same error later.
                Some(pause) if Instant::now() + pause < deadline => sleep(pause).await,
                _ => return Err(Error::of(status, self.deadline)),
            }
        }
    }

    /// A call whose answer is a stream, such as WatchChanges. The deadline is for its beginning
    /// only. It is never sent again: whoever follows a stream knows where to go on.
    ///
    /// # Errors
    /// That it could not be begun.
    pub async fn open<Q, A>(
        &self,
        message: Q,
        method: impl AsyncFnOnce(&mut C, Request<Q>) -> Result<Response<Streaming<A>>, Status>,
    ) -> Result<Answers<A>, Error> {
        let deadline = Instant::now() + self.deadline;
        let lease = self.pool.lend(deadline).await?;
        let mut stub = C::over(lease.channel());
        match timeout_at(deadline, method(&mut stub, self.request(message))).await {
            Ok(Ok(answer)) => Ok(Answers::new(answer.into_inner(), lease, self.deadline)),
            Ok(Err(status)) => {
                lease.judge(&status);
                Err(Error::of(status, self.deadline))
            }
            Err(_) => Err(Error::Deadline(self.deadline)),
        }
    }

    /// A call whose question is a stream, such as Import. The deadline is for the wait for a
    /// connection only. It is never sent again.
    ///
    /// # Errors
    /// What it ended with.
    pub async fn send<S: Stream, A>(
        &self,
        messages: S,
        method: impl AsyncFnOnce(&mut C, Request<S>) -> Result<Response<A>, Status>,
    ) -> Result<A, Error> {
        let lease = self.pool.lend(Instant::now() + self.deadline).await?;
        let mut stub = C::over(lease.channel());
        match method(&mut stub, self.request(messages)).await {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => {
                lease.judge(&status);
                Err(Error::of(status, self.deadline))
            }
        }
    }

    fn request<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.header());
        }
        request
    }
}

impl Lease {
    /// What became of a failed call; the connection is given up where it takes no more.
    pub(crate) fn judge(&self, status: &Status) -> crate::fate::Fate {
        let fate = crate::fate::Fate::of(status);
        if fate.ends_connection(status) {
            self.give_up();
        }
        fate
    }
}

impl<C> Clone for Client<C> {
    fn clone(&self) -> Self {
        Client {
            pool: self.pool.clone(),
            token: self.token.clone(),
            deadline: self.deadline,
            stub: PhantomData,
        }
    }
}

impl<C> fmt::Debug for Client<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("token", &self.token)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
