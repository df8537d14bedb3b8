//! Estimates in Redis: a hash for each account and day, with a field for each zone, ad and kind.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use redis::{Cmd, Value};
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::keys::{array, bytes};
use super::scripts;
use super::server::Redis;
use crate::limits::{ESTIMATE_DAYS_KEPT, INCREMENT_CALLS_MAX, INCREMENT_SENDER_KEPT};
use crate::ports::{Day, IncrementBatch, IncrementStore, PairEstimate, StoreError};

/// Estimates of all nodes that share a Redis.
pub struct RedisIncrements {
    redis: Arc<Redis>,
}

impl RedisIncrements {
    /// Those that are kept in `redis`.
    pub fn new(redis: Arc<Redis>) -> Self {
        Self { redis }
    }

    /// What stands between the braces of an account's keys: they are on one node of a cluster.
    fn tag(&self, account: AccountSerial) -> String {
        format!("{}:increments:{}", self.redis.prefix(), account.0)
    }

    async fn add_one(&self, batch: &IncrementBatch) -> Result<(), StoreError> {
        let tag = self.tag(batch.account);
        let sender = format!("{{{tag}}}:sender:{:016x}", batch.sender);
        let days = batch.days.iter().map(|(day, _)| document_key(&tag, *day));
        let keys: Vec<_> = std::iter::once(sender).chain(days).collect();
        let arguments = |command: &mut Cmd| {
            let kept_s = u64::from(ESTIMATE_DAYS_KEPT.unsigned_abs()) * 86_400;
            command.arg(batch.number).arg(INCREMENT_SENDER_KEPT.as_secs()).arg(kept_s);
            for (_, pairs) in &batch.days {
                let counts = pairs.iter().flat_map(|pair| {
                    let counts = [("i", pair.impressions), ("c", pair.clicks)];
                    counts.map(|(kind, count)| {
                        (format!("{}:{}:{kind}", pair.zone.0, pair.ad.0), count)
                    })
                });
                let counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
                command.arg(counts.len());
                for (field, count) in counts {
                    command.arg(field).arg(count);
                }
            }
        };
        self.redis.run(&tag, scripts::increments_add(), &keys, arguments).await.map(drop)
    }
}

fn document_key(tag: &str, day: Day) -> String {
    format!("{{{tag}}}:day:{}", day.0)
}

#[async_trait]
impl IncrementStore for RedisIncrements {
    async fn add(&self, batches: &[IncrementBatch]) -> Result<(), StoreError> {
        for some in batches.chunks(INCREMENT_CALLS_MAX) {
            try_join_all(some.iter().map(|batch| self.add_one(batch))).await?;
        }
        Ok(())
    }

    async fn document(
        &self,
        account: AccountSerial,
        day: Day,
    ) -> Result<Vec<PairEstimate>, StoreError> {
        let tag = self.tag(account);
        let ask = redis::cmd("HGETALL").arg(document_key(&tag, day)).to_owned();
        let reply = self.redis.call(&tag, &ask).await?;
        let mut pairs = std::collections::BTreeMap::<_, (u64, u64)>::new();
        let flat: Vec<&Value> = match &reply {
            Value::Map(fields) => fields.iter().flat_map(|(field, count)| [field, count]).collect(),
            other => array(other)?.iter().collect(),
        };
        for field in flat.chunks(2) {
            // What was written by hand is left out.
            let Some((pair, kind, count)) = field_from(field) else { continue };
            let sum = pairs.entry(pair).or_default();
            match kind {
                b'i' => sum.0 = count,
                _ => sum.1 = count,
            }
        }
        let estimate = |((zone, ad), (impressions, clicks))| PairEstimate {
            zone: ZoneSerial(zone),
            ad: AdSerial(ad),
            impressions,
            clicks,
        };
        Ok(pairs.into_iter().map(estimate).collect())
    }
}

/// `<zone>:<ad>:<i or c>`, and a number.
fn field_from(field: &[&Value]) -> Option<((u32, u32), u8, u64)> {
    let [name, count] = field else { return None };
    let text = |value| std::str::from_utf8(bytes(value).ok()?).ok();
    let mut parts = text(name)?.split(':');
    let pair = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let kind = match parts.next()? {
        "i" => b'i',
        "c" => b'c',
        _ => return None,
    };
    Some((pair, kind, text(count)?.parse().ok()?))
}
