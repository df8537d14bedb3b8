//! The log of events in Redis Streams: one stream for each partition, one entry for each batch.
//!
//! A partition's key is a hash tag of its own, so that partitions are spread over a cluster. An
//! entry's id is Redis's: the millisecond at which it took it, and a number. Streams remember
//! their last id, also when they are empty, so none is given twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future;
use redis::{Cmd, Value};

use super::keys::{array, bytes, number, strange};
use super::link::Link;
use super::server::Redis;
use crate::events::Partition;
use crate::limits::{REDIS_READ_BATCHES_MAX, REDIS_TRIM_BATCHES};
use crate::ports::{EventLog, LogBatch, Position, StoreError};

/// The one field of an entry.
const FIELD: &[u8] = b"b";

/// The log that nodes share.
pub struct RedisLog {
    redis: Arc<Redis>,
}

impl RedisLog {
    /// The log in `redis`.
    pub fn new(redis: Arc<Redis>) -> Self {
        Self { redis }
    }

    /// What stands between the braces of a partition's key, which is nothing but its hash tag.
    fn tag(&self, partition: Partition) -> String {
        format!("{}:log:{}", self.redis.prefix(), partition.0)
    }

    /// One command on a partition's stream.
    async fn call(
        &self,
        partition: Partition,
        command: &str,
        arguments: impl FnOnce(&mut Cmd),
    ) -> Result<Value, StoreError> {
        let tag = self.tag(partition);
        let mut command = redis::cmd(command);
        command.arg(format!("{{{tag}}}"));
        arguments(&mut command);
        self.redis.call(&tag, &command).await
    }

    /// Entries after `after`, at most so many.
    async fn range(
        &self,
        partition: Partition,
        after: Position,
        count: usize,
    ) -> Result<Vec<LogBatch>, StoreError> {
        // Past the last id there is nothing.
        let Some(from) = after.0.checked_add(1) else { return Ok(Vec::new()) };
        let from = id_of(Position(from));
        let reply = self
            .call(partition, "XRANGE", |command| {
                command.arg(from).arg("+").arg("COUNT").arg(count);
            })
            .await?;
        array(&reply)?.iter().map(batch_from).collect()
    }

    async fn xtrim(
        &self,
        partition: Partition,
        how: &str,
        least: &str,
        limit: Option<usize>,
    ) -> Result<u64, StoreError> {
        let reply = self
            .call(partition, "XTRIM", |command| {
                command.arg("MINID").arg(how).arg(least);
                if let Some(limit) = limit {
                    command.arg("LIMIT").arg(limit);
                }
            })
            .await?;
        u64::try_from(number(&reply)?).map_err(|_| strange(&reply))
    }
}

#[async_trait]
impl EventLog for RedisLog {
    async fn append(&self, batches: Vec<(Partition, Vec<u8>)>) -> Result<(), StoreError> {
        // Each in its order, all at once: a server syncs what reaches it together once.
        let mut by_partition: BTreeMap<Partition, Vec<Vec<u8>>> = BTreeMap::new();
        for (partition, bytes) in batches {
            by_partition.entry(partition).or_default().push(bytes);
        }
        let appending = by_partition.into_iter().map(|(partition, batches)| async move {
            for bytes in batches {
                let arguments = |command: &mut Cmd| {
                    command.arg("*").arg(FIELD).arg(bytes);
                };
                self.call(partition, "XADD", arguments).await?;
            }
            Ok(())
        });
        // Waits for all, also where one fails: what is under way is not given up for another.
        future::join_all(appending).await.into_iter().collect()
    }

    async fn read(
        &self,
        partition: Partition,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<LogBatch>, StoreError> {
        let (mut found, mut found_bytes) = (Vec::<LogBatch>::new(), 0);
        // Redis counts entries, and we bytes: it is asked for as many as fit by the average so
        // far, and at first for one.
        let mut count = 1;
        loop {
            let last = found.last().map_or(after, |batch| batch.position);
            let part = self.range(partition, last, count).await?;
            let is_end = part.len() < count;
            for batch in part {
                let size = batch.bytes.len();
                if !found.is_empty() && found_bytes + size > bytes_max {
                    return Ok(found);
                }
                found_bytes += size;
                found.push(batch);
            }
            let room = bytes_max.saturating_sub(found_bytes);
            if is_end || room == 0 {
                return Ok(found);
            }
            let average = (found_bytes / found.len().max(1)).max(1);
            count = (room / average).clamp(1, REDIS_READ_BATCHES_MAX);
        }
    }

    async fn trim(
        &self,
        partition: Partition,
        counted: Position,
        before_us: i64,
    ) -> Result<u64, StoreError> {
        // The first entry that stays: after what was counted, and not before the instant.
        let young_ms = u128::try_from(before_us).unwrap_or(0).div_ceil(1_000);
        let least = Position((counted.0.saturating_add(1)).min(young_ms << 64));
        let least = id_of(least);
        let mut trimmed = 0;
        loop {
            // Whole nodes of the stream, some at a time; then what is left in the first one.
            let part = self.xtrim(partition, "~", &least, Some(REDIS_TRIM_BATCHES)).await?;
            trimmed += part;
            if part == 0 {
                return Ok(trimmed + self.xtrim(partition, "=", &least, None).await?);
            }
        }
    }

    async fn weakness(&self) -> Option<String> {
        let mut links: Vec<Arc<Link>> = Vec::new();
        let mut weak = Vec::new();
        for partition in Partition::all() {
            match self.redis.link(&self.tag(partition)) {
                Ok(link) if links.iter().any(|known| Arc::ptr_eq(known, &link)) => {}
                Ok(link) => links.push(link),
                Err(error) => weak.push(format!("it could not be asked: {error}")),
            }
        }
        for link in links {
            weak.extend(weakness_of(&link).await);
        }
        // Servers of a cluster are mostly alike.
        weak.sort();
        weak.dedup();
        (!weak.is_empty()).then(|| weak.join("; "))
    }
}

/// What keeps this server from losing nothing.
async fn weakness_of(link: &Link) -> Vec<String> {
    let mut weak = Vec::new();
    let mut ask = redis::cmd("CONFIG");
    ask.arg("GET").arg("appendonly").arg("appendfsync").arg("no-appendfsync-on-rewrite");
    match link.call(&ask).await.map_err(StoreError::from).and_then(|reply| settings(&reply)) {
        Ok(settings) => {
            for (name, wanted) in [
                ("appendonly", "yes"),
                ("appendfsync", "always"),
                ("no-appendfsync-on-rewrite", "no"),
            ] {
                match settings.get(name) {
                    Some(value) if value == wanted => {}
                    Some(value) => weak.push(format!(
                        "{name} is {value}: with anything but {wanted} acknowledged events may be \
                         lost when it dies"
                    )),
                    None => weak.push(format!("it does not say what {name} is")),
                }
            }
        }
        Err(error) => {
            weak.push(format!("whether it syncs what it acknowledges is unknown: {error}"))
        }
    }
    let ask = redis::cmd("ROLE");
    // `master`, offset, replicas
    let role = link.call(&ask).await.ok();
    if let Some(Value::Array(parts)) = &role
        && let Some(Value::Array(replicas)) = parts.get(2)
        && !replicas.is_empty()
    {
        weak.push("it is replicated behind its answers: a failover may lose the last ones".into());
    }
    weak
}

/// Names and values, as CONFIG GET answers.
fn settings(reply: &Value) -> Result<BTreeMap<String, String>, StoreError> {
    let text =
        |value: &Value| Ok::<_, StoreError>(String::from_utf8_lossy(bytes(value)?).into_owned());
    let pair = |pair: &[Value]| match pair {
        [name, value] => Ok((text(name)?, text(value)?)),
        _ => Err(strange(reply)),
    };
    array(reply)?.chunks(2).map(pair).collect()
}

/// `<milliseconds>-<number>`
fn id_of(position: Position) -> String {
    let number = position.0 & u128::from(u64::MAX);
    format!("{}-{number}", position.0 >> 64)
}

/// `[id, [field, value, ...]]`
fn batch_from(entry: &Value) -> Result<LogBatch, StoreError> {
    let [id, fields] = array(entry)? else { return Err(strange(entry)) };
    let id = std::str::from_utf8(bytes(id)?).ok().and_then(|id| id.split_once('-'));
    let id = id.and_then(|(ms, seq)| Some((ms.parse::<u64>().ok()?, seq.parse::<u64>().ok()?)));
    let (ms, seq) = id.ok_or_else(|| strange(entry))?;
    // What somebody wrote by hand is a batch that cannot be read, and not the end of reading.
    let ours = array(fields)?.chunks(2).find_map(|pair| match pair {
        [name, value] if bytes(name).is_ok_and(|name| name == FIELD) => Some(value),
        _ => None,
    });
    let bytes = ours.map(bytes).transpose()?.unwrap_or_default().to_vec();
    Ok(LogBatch {
        position: Position(u128::from(ms) << 64 | u128::from(seq)),
        appended_at_us: i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000),
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_ids() {
        let id = |ms: u64, seq: u64| Position(u128::from(ms) << 64 | u128::from(seq));
        assert_eq!(id_of(Position::default()), "0-0");
        assert_eq!(id_of(id(1_796_040_000_000, 7)), "1796040000000-7");
        assert_eq!(id_of(id(u64::MAX, u64::MAX)), format!("{0}-{0}", u64::MAX));
        let entry = |id: &str, fields: &[&str]| {
            let text = |text: &&str| Value::BulkString(text.as_bytes().to_vec());
            let fields = fields.iter().map(text).collect();
            Value::Array(vec![text(&id), Value::Array(fields)])
        };
        let batch = batch_from(&entry("1796040000000-7", &["a", "x", "b", "y"])).unwrap();
        assert_eq!(batch.position, id(1_796_040_000_000, 7));
        assert_eq!(batch.appended_at_us, 1_796_040_000_000_000);
        assert_eq!(batch.bytes, b"y");
        assert_eq!(batch_from(&entry("1-1", &["mine", "x"])).unwrap().bytes, b"");
        assert!(batch_from(&entry("now", &["b", "x"])).is_err());
    }
}
