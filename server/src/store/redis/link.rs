//! One server and our connection to it, which is ours to look after: the library's own managed
//! connection does not reconnect after a time-out or on READONLY, and waits for a reconnect
//! without a bound.
//!
//! A task of its own connects, prepares (scripts), and then watches: a PING now and then, and
//! whatever the callers run into. At the first sign of trouble the connection is dropped and made
//! anew, with backoff and jitter. Callers never wait for that: while there is no connection they
//! are told at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind,
    Value,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::scripts::Script;
use crate::config::{Place, RedisAddress};
use crate::limits::{
    REDIS_BACKOFF_MAX, REDIS_BACKOFF_MIN, REDIS_CALL_MAX, REDIS_CONNECT_MAX,
    REDIS_CONNECTION_AGE_MAX, REDIS_QUEUE_MAX, REDIS_WATCH_INTERVAL,
};
use crate::ports::StoreError;

/// A server that we stay connected to, as long as this is held.
pub(super) struct Link {
    state: Arc<State>,
    stop: watch::Sender<bool>,
}

struct State {
    address: RedisAddress,
    /// Tried one after another.
    places: Vec<Place>,
    /// Whether only a master will do; nodes of a cluster say themselves what is theirs.
    wants_master: bool,
    scripts: Vec<&'static Script>,
    live: ArcSwapOption<Live>,
    /// Counts connections: what a caller saw of an old one says nothing of the new one.
    generation: AtomicU64,
    /// Why there is no connection; empty: there is one.
    away: watch::Sender<String>,
    tried: watch::Sender<bool>,
    /// The generation that was found broken, with why.
    broken: watch::Sender<(u64, String)>,
}

struct Live {
    connection: MultiplexedConnection,
    generation: u64,
}

impl Link {
    /// Begins to connect to the first of `places` that answers.
    pub(super) fn open(
        address: RedisAddress,
        places: Vec<Place>,
        wants_master: bool,
        scripts: Vec<&'static Script>,
        runtime: &tokio::runtime::Handle,
    ) -> Self {
        let names: Vec<_> = places.iter().map(ToString::to_string).collect();
        let state = Arc::new(State {
            address,
            places,
            wants_master,
            scripts,
            live: ArcSwapOption::empty(),
            generation: AtomicU64::new(0),
            away: watch::Sender::new(format!("redis at {} has not answered yet", names.join(", "))),
            tried: watch::Sender::default(),
            broken: watch::Sender::default(),
        });
        let (stop, stopped) = watch::channel(false);
        runtime.spawn(Arc::clone(&state).keep(stopped));
        Self { state, stop }
    }

    /// Whether the first attempt to connect is over.
    pub(super) fn tried(&self) -> watch::Receiver<bool> {
        self.state.tried.subscribe()
    }

    /// Why there is no connection; empty: there is one.
    pub(super) fn away(&self) -> watch::Receiver<String> {
        self.state.away.subscribe()
    }

    /// Sends one command and waits for its reply, [`REDIS_CALL_MAX`] at most.
    pub(super) async fn call(&self, command: &Cmd) -> Result<Value, LinkError> {
        let live = self.live()?;
        let mut connection = live.connection.clone();
        let answer = timeout(REDIS_CALL_MAX, command.query_async(&mut connection)).await;
        self.judge(live.generation, answer)
    }

    /// The same for several commands in one go, which ignore errors: where one of them fails, its
    /// reply is the error.
    pub(super) async fn pipeline(&self, commands: &Pipeline) -> Result<Vec<Value>, LinkError> {
        let live = self.live()?;
        let mut connection = live.connection.clone();
        let answer = timeout(REDIS_CALL_MAX, commands.query_async(&mut connection)).await;
        let replies: Vec<Value> = self.judge(live.generation, answer)?;
        for reply in &replies {
            if let Value::ServerError(error) = reply {
                self.note(live.generation, &RedisError::from(error.clone()));
            }
        }
        Ok(replies)
    }

    /// A connection of its own for what arrives unasked.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<redis::aio::PubSub, LinkError> {
        self.live()?;
        let place = self.state.places.first().ok_or_else(|| away("no address"))?;
        let client = self.state.address.client(place)?;
        let subscribing = async {
            let mut pubsub = client.get_async_pubsub().await?;
            pubsub.subscribe(channel).await?;
            Ok(pubsub)
        };
        let made = timeout(REDIS_CONNECT_MAX, subscribing).await;
        made.unwrap_or_else(|_| Err(away("no subscription in time").0)).map_err(LinkError)
    }

    fn live(&self) -> Result<Arc<Live>, LinkError> {
        self.state.live.load_full().ok_or_else(|| away(&self.state.away.borrow()))
    }

    fn judge<T>(
        &self,
        generation: u64,
        answer: Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, LinkError> {
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                self.note(generation, &error);
                Err(LinkError(error))
            }
            Err(_) => {
                let why = format!("no reply within {REDIS_CALL_MAX:?}");
                self.state.broken(generation, &why);
                Err(away(&why))
            }
        }
    }

    /// An error that says something of the connection, and not of the command, ends it.
    fn note(&self, generation: u64, error: &RedisError) {
        if is_the_connections(error) {
            self.state.broken(generation, &words(error));
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl State {
    fn broken(&self, generation: u64, why: &str) {
        // What is late to find out about an old connection hides nothing of the new one.
        self.broken.send_if_modified(|(known, reason)| {
            let is_newer = generation > *known;
            if is_newer {
                (*known, *reason) = (generation, why.to_owned());
            }
            is_newer
        });
    }

    async fn keep(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let mut backoff = Backoff::default();
        let mut at = 0;
        while !*stopped.borrow_and_update() {
            let place = &self.places[at % self.places.len()];
            let why = tokio::select! {
                why = self.live_through(place, &mut backoff) => why,
                _ = stopped.wait_for(|stop| *stop) => break,
            };
            // One that is only old serves until the new one is there.
            let Some(why) = why else { continue };
            self.live.store(None);
            let reason = format!("redis at {place}: {why}");
            if *self.away.borrow() != reason {
                tracing::warn!(server = %place, why, "redis is away");
            }
            self.away.send_replace(reason);
            self.tried.send_replace(true);
            at += 1;
            tokio::select! {
                () = tokio::time::sleep(backoff.next()) => {}
                _ = stopped.wait_for(|stop| *stop) => break,
            }
        }
        self.live.store(None);
        self.away.send_replace("the store is closed".to_owned());
    }

    /// Connects, and returns when the connection has to be made anew: why, or nothing where it
    /// is only old.
    async fn live_through(&self, place: &Place, backoff: &mut Backoff) -> Option<String> {
        let connected = timeout(REDIS_CONNECT_MAX, self.connect(place)).await;
        let connection = match connected {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Some(words(&error)),
            Err(_) => return Some(format!("no connection within {REDIS_CONNECT_MAX:?}")),
        };
        let generation = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        let mut broken = self.broken.subscribe();
        let live = Live { connection: connection.clone(), generation };
        self.live.store(Some(Arc::new(live)));
        if !self.away.send_replace(String::new()).is_empty() {
            tracing::info!(server = %place, "redis is there");
        }
        self.tried.send_replace(true);
        backoff.reset();
        self.watch(connection, generation, &mut broken).await
    }

    async fn connect(&self, place: &Place) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(REDIS_CONNECT_MAX))
            // Each call has its own deadline, and its end ends the connection, see `judge`.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(REDIS_QUEUE_MAX);
        let client = self.address.client(place)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        // In one go: on a slow line many round trips would not fit into the time.
        let mut prepare = Pipeline::new();
        prepare.ignore_errors().cmd("ROLE");
        for script in &self.scripts {
            prepare.add_command(script.load());
        }
        let replies: Vec<Value> = prepare.query_async(&mut connection).await?;
        for reply in &replies {
            if let Value::ServerError(error) = reply {
                return Err(error.clone().into());
            }
        }
        let is_replica = matches!(replies.first(), Some(Value::Array(role)) if matches!(role.first(),
            Some(Value::BulkString(role)) if role != b"master"));
        if self.wants_master && is_replica {
            return Err(away("it is a replica: nothing can be written there").0);
        }
        Ok(connection)
    }

    async fn watch(
        &self,
        mut connection: MultiplexedConnection,
        generation: u64,
        broken: &mut watch::Receiver<(u64, String)>,
    ) -> Option<String> {
        let born = Instant::now();
        let age_max = REDIS_CONNECTION_AGE_MAX.mul_f64(1.0 + jitter() / 4.0);
        loop {
            let found = tokio::select! {
                found = broken.wait_for(|(of, _)| *of == generation) => {
                    found.map(|found| found.1.clone()).ok()
                }
                () = tokio::time::sleep(REDIS_WATCH_INTERVAL) => None,
            };
            if found.is_some() {
                return found;
            }
            if born.elapsed() >= age_max {
                return None;
            }
            let ping = redis::cmd("PING");
            match timeout(REDIS_CALL_MAX, ping.query_async::<Value>(&mut connection)).await {
                Ok(Ok(Value::SimpleString(pong))) if pong == "PONG" => {}
                // Replies that are out of step with the calls would be taken for one another.
                Ok(Ok(other)) => return Some(format!("it answered PING with {other:?}")),
                Ok(Err(error)) => return Some(words(&error)),
                Err(_) => return Some(format!("no sign of life within {REDIS_CALL_MAX:?}")),
            }
        }
    }
}

/// Why a call brought no answer.
#[derive(Debug)]
pub(super) struct LinkError(pub(super) RedisError);

impl From<RedisError> for LinkError {
    fn from(error: RedisError) -> Self {
        Self(error)
    }
}

impl From<LinkError> for StoreError {
    fn from(error: LinkError) -> Self {
        Self::Unavailable(words(&error.0))
    }
}

fn away(why: &str) -> LinkError {
    LinkError(RedisError::from((ErrorKind::Io, "redis is away", why.to_owned())))
}

/// Whether the connection, or the server behind it, is of no use any more.
fn is_the_connections(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, MasterDown, ReadOnly};
    matches!(
        error.kind(),
        ErrorKind::Io
            | ErrorKind::Parse
            | ErrorKind::AuthenticationFailed
            | ErrorKind::Server(BusyLoading | MasterDown | ReadOnly)
    ) || error.code() == Some("NOAUTH")
        || error.is_unrecoverable_error()
}

/// The error for a person: what the server itself said, where it did.
pub(super) fn words(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (None, Some(detail)) => detail.to_owned(),
        _ => error.to_string(),
    }
}

/// Pauses between attempts to connect: doubling, each with a random half, so that the nodes of
/// an installation do not come back all at once.
#[derive(Default)]
struct Backoff(u32);

impl Backoff {
    fn next(&mut self) -> Duration {
        let whole = REDIS_BACKOFF_MIN.saturating_mul(1 << self.0.min(16)).min(REDIS_BACKOFF_MAX);
        self.0 = self.0.saturating_add(1);
        whole.mul_f64(0.5 + jitter() / 2.0)
    }

    fn reset(&mut self) {
        self.0 = 0;
    }
}

/// A random number from 0 to 1.
fn jitter() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness every node pauses alike, which is no harm.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_begin_anew() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(pauses[0] <= REDIS_BACKOFF_MIN && pauses[0] >= REDIS_BACKOFF_MIN / 2);
        assert!(pauses.iter().all(|pause| *pause <= REDIS_BACKOFF_MAX));
        assert!(pauses[19] >= REDIS_BACKOFF_MAX / 2);
        backoff.reset();
        assert!(backoff.next() <= REDIS_BACKOFF_MIN);
    }
}
