//! The nodes of an installation: what this one says of itself, and how far the others have come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::limits::{CLOCK_SKEW_MAX, HEARTBEAT_INTERVAL, NODE_LIVE, NODE_REMEMBERED};
use crate::ports::{Clock, NodeReport, NodeSeen, NodeStore};
use crate::refresh::Served;

/// Between two looks at how far the others have come: at first, and at most.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(1);
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(5);

/// What this node is made of that can be in trouble, and says so.
#[derive(Clone)]
pub struct Senses {
    /// How far serving has come.
    pub served: watch::Receiver<Served>,
    /// What is wrong with the profiles.
    pub profiles: watch::Receiver<String>,
    /// What is wrong between the events and their log.
    pub events: watch::Receiver<String>,
    /// What has been forgotten here.
    pub forgets: watch::Receiver<u64>,
    /// The time, to compare with the store's.
    pub clock: Arc<dyn Clock>,
}

/// This node among the others.
pub struct Fleet {
    store: Arc<dyn NodeStore>,
    node_id: String,
    senses: Senses,
    /// By how much our clock is off the store's, in microseconds.
    skew_us: watch::Sender<i64>,
    /// Why the store did not take this node's last word; empty: it did.
    unheard: watch::Sender<String>,
    /// What is wrong with this node, in words; empty: nothing.
    degraded: watch::Sender<String>,
    /// Nodes as they were last heard of, and when that was looked up.
    remembered: Mutex<BTreeMap<String, (NodeSeen, Instant)>>,
}

/// How far the nodes have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Heard of lately, this one included.
    pub live: u32,
    /// Of these, how many have done it.
    pub applied: u32,
    /// Known, and not heard of lately.
    pub silent: u32,
}

impl Fleet {
    /// A node called `node_id` that tells `store` how it is.
    pub fn new(store: Arc<dyn NodeStore>, node_id: String, senses: Senses) -> Self {
        Self {
            store,
            node_id,
            senses,
            skew_us: watch::Sender::default(),
            unheard: watch::Sender::default(),
            degraded: watch::Sender::default(),
            remembered: Mutex::default(),
        }
    }

    /// What this node is called.
    pub fn node_id(&self) -> &str {
        &self.node_id
    }

    /// What is wrong with this node, as it changes.
    pub fn degraded(&self) -> watch::Receiver<String> {
        self.degraded.subscribe()
    }

    /// Says how this node is, again and again, and at once when that changes.
    pub fn beat(self: &Arc<Self>) -> JoinHandle<()> {
        let fleet = Arc::clone(self);
        tokio::spawn(async move {
            let Senses { mut served, mut profiles, mut events, mut forgets, .. } =
                fleet.senses.clone();
            loop {
                let last = served.borrow_and_update().clone();
                fleet.report().await;
                let is_news = |served: &Served| {
                    served.version != last.version
                        || served.quarantined_rows != last.quarantined_rows
                        || served.degraded_reason != last.degraded_reason
                };
                tokio::select! {
                    Ok(_) = served.wait_for(is_news) => {}
                    Ok(()) = profiles.changed() => {}
                    Ok(()) = events.changed() => {}
                    Ok(()) = forgets.changed() => {}
                    () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
                }
            }
        })
    }

    /// Says once how this node is. Where the store cannot be told, the others will find it silent.
    pub async fn report(&self) {
        let report = self.own_report();
        let before_us = self.senses.clock.now_us();
        let told = self.store.report(&report).await;
        if let Ok(store_us) = told {
            let after_us = self.senses.clock.now_us();
            let middle_us = before_us + (after_us - before_us) / 2;
            self.skew_us.send_replace(middle_us - store_us);
        }
        self.unheard.send_replace(told.err().map(|why| why.to_string()).unwrap_or_default());
        let degraded = self.own_report().degraded_reason;
        self.degraded.send_if_modified(|known| {
            let is_new = *known != degraded;
            *known = degraded;
            is_new
        });
    }

    /// The node stops.
    pub async fn leave(&self) {
        let goodbye = timeout(HEARTBEAT_INTERVAL, self.store.leave(&self.node_id)).await;
        if !goodbye.is_ok_and(|said| said.is_ok()) {
            tracing::warn!("the other nodes were not told that this one stops");
        }
    }

    fn own_report(&self) -> NodeReport {
        let served = self.senses.served.borrow().clone();
        let mut reasons = vec![
            served.degraded_reason,
            self.senses.profiles.borrow().clone(),
            self.senses.events.borrow().clone(),
        ];
        let skew_us = *self.skew_us.borrow();
        if Duration::from_micros(skew_us.unsigned_abs()) > CLOCK_SKEW_MAX {
            let skew_s = skew_us as f64 / 1e6;
            reasons.push(format!("this node's clock is {skew_s:+.1} s off the store's"));
        }
        reasons.retain(|reason| !reason.is_empty());
        // Where the store is away altogether, that is said already.
        let unheard = self.unheard.borrow().clone();
        if reasons.is_empty() && !unheard.is_empty() {
            reasons.push(format!("the other nodes do not hear of this one: {unheard}"));
        }
        NodeReport {
            node_id: self.node_id.clone(),
            catalog_version: served.version,
            forgets: *self.senses.forgets.borrow(),
            degraded_reason: reasons.join("; "),
            quarantined_rows: served.quarantined_rows,
        }
    }

    /// Every node, this one as it is now; the others as they were last heard of. In order of
    /// their names.
    pub async fn nodes(&self) -> Vec<NodeSeen> {
        let own = NodeSeen {
            report: self.own_report(),
            seen_at_us: self.senses.clock.now_us(),
            age: Duration::ZERO,
            has_left: false,
        };
        let now = Instant::now();
        if let Ok(nodes) = self.store.nodes().await {
            let mut remembered = self.remembered();
            // A store that lost its memory does not know the others yet: we do.
            remembered.retain(|_, (seen, at)| seen.age + at.elapsed() < NODE_REMEMBERED);
            for node in nodes {
                if node.has_left {
                    remembered.remove(&node.report.node_id);
                } else {
                    remembered.insert(node.report.node_id.clone(), (node, now));
                }
            }
        }
        let mut nodes: BTreeMap<String, NodeSeen> = self
            .remembered()
            .iter()
            .map(|(id, (seen, at))| {
                (id.clone(), NodeSeen { age: seen.age + at.elapsed(), ..seen.clone() })
            })
            .collect();
        nodes.insert(self.node_id.clone(), own);
        nodes.into_values().collect()
    }

    /// Waits until every live node has come so far that `is_done`, for at most `wait`.
    pub async fn wait(&self, wait: Duration, is_done: impl Fn(&NodeReport) -> bool) -> Tally {
        let until = Instant::now() + wait;
        let mut pause = LOOK_AGAIN_MIN;
        loop {
            let tally = Tally::of(&self.nodes().await, &is_done);
            if tally.applied >= tally.live || Instant::now() >= until {
                return tally;
            }
            tokio::time::sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
            pause = (2 * pause).min(LOOK_AGAIN_MAX);
        }
    }

    fn remembered(&self) -> MutexGuard<'_, BTreeMap<String, (NodeSeen, Instant)>> {
        // Nothing that is done under it can be half done.
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    /// A node that has not loaded a catalogue shows nothing: it looks at the store once more
    /// after it has said its version, and before its doors open.
    fn of(nodes: &[NodeSeen], is_done: &impl Fn(&NodeReport) -> bool) -> Self {
        let mut tally = Self::default();
        for node in nodes.iter().filter(|node| node.report.catalog_version > 0) {
            if node.age > NODE_LIVE {
                tally.silent += 1;
                continue;
            }
            tally.live += 1;
            tally.applied += u32::from(is_done(&node.report));
        }
        tally
    }
}
