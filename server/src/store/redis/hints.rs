//! Versions as this process hears of them: what it wrote itself, and what others tell by
//! publish. Only a hint: what is published while nobody listens is lost, and the poll finds it.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::keys::Keys;
use super::server::Redis;
use crate::limits::{REDIS_CALL_MAX, REDIS_WATCH_INTERVAL, REFRESH_INTERVAL};

/// A subscription that is kept alive.
pub(super) struct Hints {
    heard: watch::Sender<u64>,
    task: JoinHandle<()>,
}

impl Hints {
    /// Listens to what is published of this catalogue.
    pub(super) fn follow(redis: Arc<Redis>, keys: &Keys) -> Self {
        let heard = watch::Sender::default();
        let (hear, channel) = (heard.clone(), keys.one("hint"));
        let runtime = redis.runtime().clone();
        // The task must not keep the connections alive that it lives on.
        let redis = Arc::downgrade(&redis);
        let task = runtime.spawn(async move {
            while let Some(redis) = redis.upgrade() {
                let subscribed = redis.subscribe(&channel).await;
                drop(redis);
                if let Ok(subscription) = subscribed {
                    listen(subscription, &hear).await;
                }
                tokio::time::sleep(REFRESH_INTERVAL).await;
            }
        });
        Self { heard, task }
    }

    /// This process knows of `version` itself.
    pub(super) fn hear(&self, version: u64) {
        hear(&self.heard, version);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.heard.subscribe()
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Until the connection is broken, or gives no sign of life.
async fn listen(subscription: redis::aio::PubSub, heard: &watch::Sender<u64>) {
    let (mut sink, mut messages) = subscription.split();
    let mut alive = Instant::now();
    loop {
        let message = tokio::select! {
            message = messages.next() => match message {
                Some(message) => Some(message),
                None => return,
            },
            () = tokio::time::sleep_until(alive + REDIS_WATCH_INTERVAL) => None,
        };
        match message {
            Some(message) => {
                let version = std::str::from_utf8(message.get_payload_bytes());
                if let Some(version) = version.ok().and_then(|text| text.parse().ok()) {
                    hear(heard, version);
                }
            }
            None => {
                let ping = timeout(REDIS_CALL_MAX, sink.ping::<redis::Value>()).await;
                if !ping.is_ok_and(|pong| pong.is_ok()) {
                    return;
                }
            }
        }
        alive = Instant::now();
    }
}

fn hear(heard: &watch::Sender<u64>, version: u64) {
    heard.send_if_modified(|known| {
        let is_newer = version > *known;
        *known = version.max(*known);
        is_newer
    });
}
