//! What nodes say of themselves, in one hash, by Redis's own clock.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, Value};

use super::keys::{Keys, array, bytes, number, strange};
use super::scripts;
use super::server::Redis;
use crate::limits::NODE_REMEMBERED;
use crate::ports::{NodeReport, NodeSeen, NodeStore, StoreError};

/// The nodes of one installation.
pub struct RedisNodes {
    redis: Arc<Redis>,
    keys: Keys,
}

impl RedisNodes {
    /// The nodes that share `redis`.
    pub fn new(redis: Arc<Redis>) -> Self {
        let keys = Keys::new(redis.prefix());
        Self { redis, keys }
    }

    async fn write(&self, node_id: &str, words: &str) -> Result<i64, StoreError> {
        let arguments = |command: &mut Cmd| {
            let remembered_us = u64::try_from(NODE_REMEMBERED.as_micros()).unwrap_or(u64::MAX);
            command.arg(node_id).arg(words).arg(remembered_us);
        };
        let tag = self.redis.prefix();
        let keys = self.keys.all(["nodes"]);
        number(&self.redis.run(tag, scripts::report(), &keys, arguments).await?)
    }
}

#[async_trait]
impl NodeStore for RedisNodes {
    async fn report(&self, report: &NodeReport) -> Result<i64, StoreError> {
        let words = format!(
            "{} {} {}\n{}",
            report.catalog_version, report.forgets, report.quarantined_rows, report.degraded_reason
        );
        self.write(&report.node_id, &words).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        let (tag, keys) = (self.redis.prefix(), self.keys.all(["nodes"]));
        let reply = self.redis.run(tag, scripts::nodes(), &keys, |_| {}).await?;
        let [now_us, fields] = array(&reply)? else { return Err(strange(&reply)) };
        let now_us = number(now_us)?;
        let pairs = array(fields)?.chunks(2);
        // What was written by hand, or by a newer node in a way of its own, is left out.
        Ok(pairs.filter_map(|pair| node_from(pair, now_us)).collect())
    }

    async fn leave(&self, node_id: &str) -> Result<(), StoreError> {
        self.write(node_id, LEFT).await.map(|_| ())
    }
}

/// What stands for a goodbye.
const LEFT: &str = "left";

/// Id, and `<seen at> <version> <forgets> <quarantined>\n<what is wrong>`.
fn node_from(pair: &[Value], now_us: i64) -> Option<NodeSeen> {
    let [id, value] = pair else { return None };
    let text = |value| std::str::from_utf8(bytes(value).ok()?).ok();
    let (seen_at_us, words) = text(value)?.split_once(' ')?;
    let seen_at_us: i64 = seen_at_us.parse().ok()?;
    let mut report = NodeReport { node_id: text(id)?.to_owned(), ..NodeReport::default() };
    if words != LEFT {
        let (numbers, reason) = words.split_once('\n')?;
        let mut numbers = numbers.split(' ');
        report.catalog_version = numbers.next()?.parse().ok()?;
        report.forgets = numbers.next()?.parse().ok()?;
        report.quarantined_rows = numbers.next()?.parse().ok()?;
        reason.clone_into(&mut report.degraded_reason);
    }
    let age_us = u64::try_from(now_us - seen_at_us).unwrap_or(0);
    let age = Duration::from_micros(age_us);
    Some(NodeSeen { report, seen_at_us, age, has_left: words == LEFT })
}
