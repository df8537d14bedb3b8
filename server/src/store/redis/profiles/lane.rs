//! Commands of many callers on their way to the servers, in pipelines: what comes while the
//! pipelines to a server are in flight goes out together when one of them is back. A server that
//! is slow or dead holds up nobody but those whose keys it has.

use std::collections::VecDeque;
use std::sync::Arc;

use redis::{Arg, Cmd, ServerErrorKind, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::super::link::Link;
use super::super::scripts;
use super::super::server::Redis;
use crate::limits::{
    PROFILE_BATCH_BYTES_MAX, PROFILE_BATCH_MAX, PROFILE_FLIGHTS_MAX, PROFILE_RESEND_PAUSE,
    PROFILE_RESENDS_MAX, PROFILE_WAITING_MAX,
};
use crate::ports::StoreError;

/// Something to be sent, and what becomes of its reply.
pub(super) trait Errand: Send + 'static {
    /// The hash tag of its keys.
    fn tag(&self) -> &str;

    /// What is to be sent, as of now; nothing where nobody wants it any more.
    fn command(&mut self) -> Option<Cmd>;

    /// Takes the reply, which may be an error of the server's.
    fn done(self, reply: Result<Value, StoreError>);
}

/// The way to the servers; ends when it is dropped.
pub(super) struct Lane<E>(mpsc::Sender<Trip<E>>);

struct Trip<E> {
    errand: E,
    resends: u8,
}

impl<E: Errand> Lane<E> {
    pub(super) fn open(redis: Arc<Redis>) -> Self {
        let (sender, arriving) = mpsc::channel(PROFILE_WAITING_MAX);
        let runtime = redis.runtime().clone();
        runtime.spawn(Roads { redis, roads: Vec::new(), flights: JoinSet::new() }.run(arriving));
        Self(sender)
    }

    /// Sends it in its turn; where too many wait, it is done at once, with an error.
    pub(super) fn send(&self, errand: E) {
        if let Err(refused) = self.0.try_send(Trip { errand, resends: 0 }) {
            refused.into_inner().errand.done(Err(too_many()));
        }
    }
}

fn too_many() -> StoreError {
    StoreError::Unavailable("too many commands wait for redis".to_owned())
}

/// The way to one server.
struct Road<E> {
    link: Arc<Link>,
    waiting: VecDeque<Trip<E>>,
    free: Arc<Semaphore>,
}

struct Roads<E> {
    redis: Arc<Redis>,
    roads: Vec<Road<E>>,
    /// Each ends with what has to be sent again.
    flights: JoinSet<Vec<Trip<E>>>,
}

impl<E: Errand> Roads<E> {
    async fn run(mut self, mut arriving: mpsc::Receiver<Trip<E>>) {
        let mut arrived = Vec::with_capacity(PROFILE_BATCH_MAX);
        let mut is_open = true;
        while is_open || !self.flights.is_empty() {
            tokio::select! {
                count = arriving.recv_many(&mut arrived, PROFILE_BATCH_MAX), if is_open => {
                    is_open = count > 0;
                }
                Some(flown) = self.flights.join_next() => arrived.extend(flown.unwrap_or_default()),
            }
            for trip in arrived.drain(..) {
                self.enqueue(trip);
            }
            self.take_off();
        }
    }

    fn enqueue(&mut self, trip: Trip<E>) {
        let link = match self.redis.link(trip.errand.tag()) {
            Ok(link) => link,
            Err(error) => return trip.errand.done(Err(error)),
        };
        let known = self.roads.iter().position(|road| Arc::ptr_eq(&road.link, &link));
        let at = known.unwrap_or_else(|| {
            let free = Arc::new(Semaphore::new(PROFILE_FLIGHTS_MAX));
            self.roads.push(Road { link, waiting: VecDeque::new(), free });
            self.roads.len() - 1
        });
        let waiting = &mut self.roads[at].waiting;
        if waiting.len() >= PROFILE_WAITING_MAX {
            return trip.errand.done(Err(too_many()));
        }
        waiting.push_back(trip);
    }

    fn take_off(&mut self) {
        for road in &mut self.roads {
            while !road.waiting.is_empty()
                && let Ok(permit) = Arc::clone(&road.free).try_acquire_owned()
            {
                let (mut trips, mut commands, mut bytes) = (Vec::new(), redis::pipe(), 0);
                commands.ignore_errors();
                while trips.len() < PROFILE_BATCH_MAX
                    && bytes < PROFILE_BATCH_BYTES_MAX
                    && let Some(mut trip) = road.waiting.pop_front()
                {
                    if let Some(command) = trip.errand.command() {
                        bytes += bytes_of(&command);
                        commands.add_command(command);
                        trips.push(trip);
                    }
                }
                if !trips.is_empty() {
                    let (redis, link) = (Arc::clone(&self.redis), Arc::clone(&road.link));
                    self.flights.spawn(fly(redis, link, commands, trips, permit));
                }
            }
        }
        let is_idle = |road: &Road<E>| road.free.available_permits() == PROFILE_FLIGHTS_MAX;
        self.roads.retain(|road| !road.waiting.is_empty() || !is_idle(road));
    }
}

fn bytes_of(command: &Cmd) -> usize {
    let bytes = |argument: Arg<&[u8]>| match argument {
        Arg::Simple(bytes) => bytes.len(),
        _ => 0,
    };
    command.args_iter().map(bytes).sum()
}

/// Sends one pipeline, and gives each its reply; returns those that have to be sent again.
async fn fly<E: Errand>(
    redis: Arc<Redis>,
    link: Arc<Link>,
    commands: redis::Pipeline,
    trips: Vec<Trip<E>>,
    permit: OwnedSemaphorePermit,
) -> Vec<Trip<E>> {
    let replies = match link.pipeline(&commands).await {
        Ok(replies) => replies,
        Err(error) => {
            let error = StoreError::from(error);
            trips.into_iter().for_each(|trip| trip.errand.done(Err(error.clone())));
            return Vec::new();
        }
    };
    let (mut again, mut lost_scripts) = (Vec::new(), false);
    for (mut trip, reply) in trips.into_iter().zip(replies) {
        match wants_resend(&reply) {
            Some(why) if trip.resends < PROFILE_RESENDS_MAX => {
                redis.note(&reply);
                lost_scripts |= why == ServerErrorKind::NoScript;
                trip.resends += 1;
                again.push(trip);
            }
            _ => trip.errand.done(Ok(reply)),
        }
    }
    if lost_scripts {
        let mut loads = redis::pipe();
        loads.ignore_errors();
        scripts::all().iter().for_each(|script| {
            loads.add_command(script.load());
        });
        // Where this fails, so does what follows, and says why.
        let _ = link.pipeline(&loads).await;
    } else if !again.is_empty() {
        tokio::time::sleep(PROFILE_RESEND_PAUSE).await;
    }
    drop(permit);
    again
}

/// Whether a command has to be sent again: its script is not known to the server, or its keys are
/// elsewhere.
fn wants_resend(reply: &Value) -> Option<ServerErrorKind> {
    use ServerErrorKind::{Ask, Moved, NoScript, TryAgain};
    let Value::ServerError(error) = reply else { return None };
    error.kind().filter(|kind| matches!(kind, Ask | Moved | NoScript | TryAgain))
}
