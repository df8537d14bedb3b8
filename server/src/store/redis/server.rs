//! The servers of one installation: one Redis, or the nodes of a cluster, each behind its own
//! link, so that one that is dead holds up nobody but those whose keys it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use redis::aio::PubSub;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::link::{Link, LinkError, words};
use super::scripts::{self, Script};
use crate::config::{Place, RedisAddress};
use crate::limits::{REDIS_CALL_MAX, REDIS_CONNECT_MAX, REDIS_TOPOLOGY_INTERVAL};
use crate::ports::StoreError;

/// Slots of a Redis cluster, from its specification.
const SLOTS: u16 = 16_384;

/// How often somebody who waits looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Everything that we are connected to.
pub struct Redis {
    shared: Arc<Shared>,
    prefix: String,
    topology: JoinHandle<()>,
    /// Drives the connections; dropped last.
    _runtime: Driver,
}

struct Shared {
    address: RedisAddress,
    runtime: tokio::runtime::Handle,
    /// The way to any server at all, for asking who has what; to the only one, without a cluster.
    seed: Arc<Link>,
    routes: ArcSwap<Routes>,
    /// Somebody was told that a slot is elsewhere.
    moved: Notify,
    away: watch::Sender<String>,
}

/// Who has which slots.
#[derive(Default)]
struct Routes {
    /// First and last slot; empty: there is no cluster.
    ranges: Vec<(u16, u16, Place)>,
    links: BTreeMap<Place, Arc<Link>>,
}

impl Redis {
    /// Begins to connect. Keys begin with `prefix`, so that several installations may share a
    /// Redis.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn open(address: RedisAddress, prefix: &str) -> Result<Self, StoreError> {
        let driver = Driver::start()?;
        let runtime = driver.handle.clone();
        let places = address.seeds.clone();
        let is_one = places.len() == 1;
        let seed = Link::open(address.clone(), places, is_one, scripts::all(), &runtime);
        let shared = Arc::new(Shared {
            address,
            runtime: runtime.clone(),
            seed: Arc::new(seed),
            routes: ArcSwap::default(),
            moved: Notify::new(),
            away: watch::Sender::default(),
        });
        let topology = runtime.spawn(Arc::clone(&shared).follow());
        Ok(Self { shared, prefix: prefix.to_owned(), topology, _runtime: driver })
    }

    /// Waits until it can be asked, [`REDIS_CONNECT_MAX`] and a little at most.
    ///
    /// # Errors
    /// Why it cannot, after that time; it is tried further all the same.
    pub async fn wait(&self) -> Result<(), StoreError> {
        let began = tokio::time::Instant::now();
        let patience = REDIS_CONNECT_MAX + REDIS_TOPOLOGY_INTERVAL;
        loop {
            let ask = redis::cmd("EXISTS").arg(format!("{{{}}}:head", self.prefix)).to_owned();
            match self.call(&self.prefix, &ask).await {
                Ok(_) => return Ok(()),
                Err(error) if began.elapsed() >= patience => return Err(error),
                Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// The policy by which the catalogue's server throws data away when its memory is full;
    /// nothing where it does not, or does not say.
    pub async fn eviction(&self) -> Option<String> {
        let ask = redis::cmd("INFO").arg("memory").to_owned();
        let reply = self.call(&self.prefix, &ask).await.ok()?;
        let text = match &reply {
            Value::BulkString(text) => std::str::from_utf8(text).ok()?,
            _ => return None,
        };
        let policy = text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"))?.trim();
        (policy != "noeviction").then(|| policy.to_owned())
    }

    /// What every key of this installation begins with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Where our tasks run.
    pub(super) fn runtime(&self) -> &tokio::runtime::Handle {
        &self.shared.runtime
    }

    /// Which server is away and why; empty: none is.
    pub fn away(&self) -> watch::Receiver<String> {
        self.shared.away.subscribe()
    }

    /// Whether the server that has the keys with this hash tag is known to be away.
    pub(super) fn is_away(&self, tag: &str) -> bool {
        self.link(tag).map_or(true, |link| !link.away().borrow().is_empty())
    }

    /// The way to the keys with this hash tag (what stands between their braces).
    pub(super) fn link(&self, tag: &str) -> Result<Arc<Link>, StoreError> {
        let routes = self.shared.routes.load();
        if routes.ranges.is_empty() {
            return Ok(Arc::clone(&self.shared.seed));
        }
        let slot = slot_of(tag);
        let range = routes.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        let link = range.and_then(|(_, _, place)| routes.links.get(place));
        link.cloned().ok_or_else(|| {
            StoreError::Unavailable(format!("no node of the cluster has slot {slot}"))
        })
    }

    /// One command on keys with this hash tag.
    pub(super) async fn call(&self, tag: &str, command: &Cmd) -> Result<Value, StoreError> {
        let error = match self.link(tag)?.call(command).await {
            Ok(value) => return Ok(value),
            Err(LinkError(error)) => error,
        };
        if !self.follow_redirection(&error).await {
            return Err(LinkError(error).into());
        }
        Ok(self.link(tag)?.call(command).await?)
    }

    /// Runs `script` on `keys`, all of this hash tag; loads it first where the server lost it.
    pub(super) async fn run(
        &self,
        tag: &str,
        script: &Script,
        keys: &[String],
        arguments: impl FnOnce(&mut Cmd),
    ) -> Result<Value, StoreError> {
        let mut command = script.run(keys);
        arguments(&mut command);
        let error = match self.link(tag)?.call(&command).await {
            Ok(value) => return Ok(value),
            Err(LinkError(error)) => error,
        };
        if matches!(error.kind(), ErrorKind::Server(ServerErrorKind::NoScript)) {
            self.link(tag)?.call(&script.load()).await?;
        } else if !self.follow_redirection(&error).await {
            return Err(LinkError(error).into());
        }
        Ok(self.link(tag)?.call(&command).await?)
    }

    /// A connection of its own that hears what is published in `channel`.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<PubSub, StoreError> {
        Ok(self.link(&self.prefix)?.subscribe(channel).await?)
    }

    /// Looks whether a reply says that a slot is elsewhere, and has it looked up then.
    pub(super) fn note(&self, reply: &Value) {
        if let Value::ServerError(error) = reply
            && RedisError::from(error.clone()).redirect_node().is_some()
        {
            self.shared.moved.notify_one();
        }
    }

    /// Waits for the new routes where the error says that the slot is elsewhere.
    async fn follow_redirection(&self, error: &RedisError) -> bool {
        if error.redirect_node().is_none() {
            return false;
        }
        let before = self.shared.routes.load_full();
        self.shared.moved.notify_one();
        let changed = async {
            while Arc::ptr_eq(&before, &self.shared.routes.load()) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::time::timeout(REDIS_CALL_MAX, changed).await.is_ok()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.topology.abort();
    }
}

impl Shared {
    /// Keeps the routes right, and says what is away.
    async fn follow(self: Arc<Self>) {
        loop {
            if let Some(routes) = self.look().await {
                routes.settle().await;
                self.routes.store(Arc::new(routes));
            }
            self.away.send_if_modified(|known| {
                let now = self.routes.load().away().unwrap_or_else(|| self.seed_away());
                let is_new = *known != now;
                *known = now;
                is_new
            });
            let is_up = self.away.borrow().is_empty();
            let mut seed = self.seed.away();
            let pause = if is_up { REDIS_TOPOLOGY_INTERVAL } else { REDIS_TOPOLOGY_INTERVAL / 10 };
            tokio::select! {
                () = self.moved.notified() => {}
                _ = seed.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn seed_away(&self) -> String {
        self.seed.away().borrow().clone()
    }

    /// Who has which slots now; nothing where nobody says.
    async fn look(&self) -> Option<Routes> {
        let known = self.routes.load_full();
        let ask = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
        let askable = std::iter::once(&self.seed).chain(known.links.values());
        let askable = askable.filter(|link| link.away().borrow().is_empty());
        for link in askable {
            match link.call(&ask).await {
                Ok(Value::Array(ranges)) if !ranges.is_empty() => {
                    return Some(self.routes_from(&ranges, &known));
                }
                Ok(_) => {}
                // No cluster: one server has everything.
                Err(LinkError(error)) if words(&error).contains("cluster support disabled") => {
                    return None;
                }
                Err(_) => {}
            }
        }
        None
    }

    fn routes_from(&self, ranges: &[Value], known: &Routes) -> Routes {
        let ranges: Vec<_> = ranges.iter().filter_map(|range| self.range_from(range)).collect();
        let names: BTreeSet<_> = ranges.iter().map(|(_, _, place)| place.clone()).collect();
        let open = |place: Place| {
            let (address, places) = (self.address.clone(), vec![place]);
            Arc::new(Link::open(address, places, false, scripts::all(), &self.runtime))
        };
        let links = names.into_iter().map(|place| {
            let link = known.links.get(&place).cloned();
            (place.clone(), link.unwrap_or_else(|| open(place)))
        });
        Routes { links: links.collect(), ranges }
    }

    /// `[first, last, [host, port, ...], ...]`
    fn range_from(&self, range: &Value) -> Option<(u16, u16, Place)> {
        let Value::Array(parts) = range else { return None };
        let number = |value: &Value| match value {
            Value::Int(number) => u16::try_from(*number).ok(),
            _ => None,
        };
        let [first, last, Value::Array(master), ..] = &parts[..] else { return None };
        let host = match master.first()? {
            Value::BulkString(host) => std::str::from_utf8(host).ok()?,
            _ => "",
        };
        Some((number(first)?, number(last)?, self.address.sibling(host, number(master.get(1)?)?)))
    }
}

impl Routes {
    /// Gives new links the time to connect, so that nobody is told that they are away before
    /// they have been tried.
    async fn settle(&self) {
        let until = tokio::time::Instant::now() + REDIS_CONNECT_MAX;
        for link in self.links.values() {
            let mut tried = link.tried();
            let _ = tokio::time::timeout_at(until, tried.wait_for(|tried| *tried)).await;
        }
    }

    /// What is away; nothing without a cluster.
    fn away(&self) -> Option<String> {
        if self.ranges.is_empty() {
            return None;
        }
        let reasons = self.links.values().map(|link| link.away().borrow().clone());
        let reasons: Vec<_> = reasons.filter(|reason| !reason.is_empty()).collect();
        Some(reasons.join("; "))
    }
}

/// The slot of keys with this hash tag, as the cluster's specification computes it.
fn slot_of(tag: &str) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag.as_bytes()) % SLOTS
}

/// A thread whose runtime drives every connection, apart from everything else that the process
/// does.
struct Driver {
    handle: tokio::runtime::Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

impl Driver {
    fn start() -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| StoreError::Unavailable(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        crate::telemetry::spawn_vital("redis", move || {
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })
        .map_err(failed)?;
        Ok(Self { handle, stop: Some(stop) })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.stop.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the cluster's specification and of its documentation.
    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16::State::<crc16::XMODEM>::calculate(b"123456789"), 0x31c3);
        assert_eq!(slot_of("somekey"), 11_058);
        assert_eq!(slot_of("foo"), 12_182);
    }
}
