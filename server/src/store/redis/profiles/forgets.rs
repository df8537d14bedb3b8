//! Forgetting a visitor on every node: the store is told, then the nodes, which follow a numbered
//! list. A node that missed an entry drops everything that the store has as well: that costs a
//! read, and what was forgotten must not come back from some node's memory. That goes before
//! healing a store that lost its data, and its count with it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use redis::Value;
use slotwise_core::model::AccountSerial;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::record::{self, parts};
use super::remembered::Remembered;
use super::{Shared, wire_us};
use crate::limits::{
    FORGETS_AT_ONCE_MAX, FORGETS_KEPT, FORGETS_KEPT_MAX, REDIS_CALL_MAX, REFRESH_INTERVAL,
};
use crate::ports::{Forgotten, StoreError, VisitorKey};
use crate::store::redis::scripts;

/// How far this node has followed.
pub(super) struct Forgets {
    /// The hash tag that these keys share with the catalogue's.
    tag: String,
    /// The count and the list, see `scripts/profile_forgets_add.lua`.
    keys: [String; 2],
    /// The catalogue's head, which knows the last account's serial.
    head: String,
    pub(super) followed: watch::Sender<u64>,
    /// Something is there to be followed.
    hint: Notify,
}

impl Forgets {
    pub(super) fn new(prefix: &str) -> Self {
        let key = |name: &str| format!("{{{prefix}}}:{name}");
        Self {
            tag: prefix.to_owned(),
            keys: [key("forgets:count"), key("forgets")],
            head: key("head"),
            followed: watch::Sender::default(),
            hint: Notify::new(),
        }
    }
}

/// One entry of the list.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    number: u64,
    visitor: u128,
    accounts: RangeInclusive<u32>,
    until_us: i64,
}

impl Entry {
    fn from_value(value: &Value) -> Option<Self> {
        let Value::BulkString(text) = value else { return None };
        let fields: Vec<_> = str::from_utf8(text).ok()?.split(' ').collect();
        let [number, _, visitor, first, last, until_us] = fields[..] else { return None };
        Some(Self {
            number: number.parse().ok()?,
            visitor: u128::from_str_radix(visitor, 16).ok()?,
            accounts: first.parse().ok()?..=last.parse().ok()?,
            until_us: until_us.parse().ok()?,
        })
    }
}

/// Where a node stands in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    number: u64,
    /// Tells this count from one that was lost.
    epoch: Vec<u8>,
}

impl Place {
    /// Where the list stands now, and what to follow until there; nothing where some of it cannot
    /// be known any more.
    fn follow(&self, reply: &Value) -> Result<(Self, Option<Vec<Entry>>), StoreError> {
        let [Value::Int(number), Value::BulkString(epoch), Value::Array(entries)] = parts(reply)?
        else {
            return Err(StoreError::Unavailable("the list of forgets is damaged".to_owned()));
        };
        let next = Self { number: number.unsigned_abs(), epoch: epoch.clone() };
        // Before the first forget there is no epoch.
        if next.epoch != self.epoch && self.number > 0 {
            return Ok((next, None));
        }
        let entries: Option<Vec<_>> = entries.iter().map(Entry::from_value).collect();
        let is_whole = |entries: &Vec<Entry>| {
            entries.iter().map(|entry| entry.number).eq(self.number + 1..=next.number)
        };
        let entries = entries.filter(|entries| next.number >= self.number && is_whole(entries));
        Ok((next, entries))
    }
}

impl Shared {
    /// See [`crate::ports::ProfileStore::forget`].
    pub(super) async fn forget(
        &self,
        visitor: u128,
        account: Option<AccountSerial>,
        now_us: i64,
    ) -> Result<Forgotten, StoreError> {
        let accounts = match account {
            Some(AccountSerial(account)) => account..=account,
            None => 1..=self.last_account().await?,
        };
        let mut held_something = self.forget_known(visitor, &accounts, |r| r.forget_all(now_us));
        let mut rest = accounts.clone();
        loop {
            let deadline = Instant::now() + REDIS_CALL_MAX;
            let some: Vec<_> = rest.by_ref().take(FORGETS_AT_ONCE_MAX).collect();
            if some.is_empty() {
                break;
            }
            let asked = some.into_iter().map(|account| {
                let visitor = VisitorKey { account: AccountSerial(account), visitor };
                let slot = self.slots.known_or_apart(visitor);
                self.begin(slot.tag(), record::forget(&slot.key, now_us))
            });
            for reply in asked.collect::<Vec<_>>() {
                held_something |= record::held(&reply.by(deadline).await?)?;
            }
        }
        let number = self.announce(visitor, &accounts, now_us).await?;
        // What a decision that was on its way has brought back.
        self.forget_known(visitor, &accounts, |r| r.forget(now_us));
        self.forgets.hint.notify_one();
        Ok(Forgotten { held_something, number })
    }

    /// The serial of the newest account; none is higher.
    async fn last_account(&self) -> Result<u32, StoreError> {
        let command = redis::cmd("HGET").arg(&self.forgets.head).arg("serial:1").to_owned();
        match self.redis.call(&self.forgets.tag, &command).await? {
            Value::Nil => Ok(0),
            Value::BulkString(serial) => {
                let serial = str::from_utf8(&serial).ok().and_then(|serial| serial.parse().ok());
                serial.ok_or_else(|| StoreError::Unavailable("the head is damaged".to_owned()))
            }
            other => {
                parts(&other).and(Err(StoreError::Unavailable("the head is damaged".to_owned())))
            }
        }
    }

    async fn announce(
        &self,
        visitor: u128,
        accounts: &RangeInclusive<u32>,
        until_us: i64,
    ) -> Result<u64, StoreError> {
        let Forgets { tag, keys, followed, .. } = &self.forgets;
        let mut epoch = [0; 16];
        // Without randomness a lost count looks like one that goes on, which only costs the
        // notice of it.
        let _ = getrandom::fill(&mut epoch);
        let seen = *followed.borrow();
        let reply = self.redis.run(tag, scripts::profile_forgets_add(), keys, |command| {
            command.arg(seen).arg(format!("{:032x}", u128::from_le_bytes(epoch)));
            command.arg(self.clock.now_us()).arg(wire_us(FORGETS_KEPT)).arg(FORGETS_KEPT_MAX);
            command.arg(format!("{visitor:032x}"));
            command.arg(accounts.start()).arg(accounts.end()).arg(until_us);
        });
        match reply.await? {
            Value::Int(number) => Ok(number.unsigned_abs()),
            other => parts(&other)
                .and(Err(StoreError::Unavailable("the count of forgets is damaged".to_owned()))),
        }
    }

    /// Follows what all nodes are told, for ever.
    pub(super) async fn follow_forgets(self: Arc<Self>) {
        let mut polls = tokio::time::interval(REFRESH_INTERVAL);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Nothing is remembered yet that could have been forgotten before.
        let mut place = None;
        loop {
            tokio::select! {
                _ = polls.tick() => {}
                () = self.forgets.hint.notified() => {}
            }
            match self.follow_from(place.as_ref()).await {
                Ok(next) => {
                    let (number, is_new) = (next.number, place.as_ref() != Some(&next));
                    place = Some(next);
                    if is_new {
                        self.forgets.followed.send_replace(number);
                    }
                }
                Err(error) => tracing::debug!(%error, "who was forgotten is not to be had"),
            }
        }
    }

    async fn follow_from(self: &Arc<Self>, place: Option<&Place>) -> Result<Place, StoreError> {
        let Forgets { tag, keys, .. } = &self.forgets;
        let after = place.map_or(0, |place| place.number);
        let reply = self.redis.run(tag, scripts::profile_forgets_since(), keys, |command| {
            command.arg(after).arg(self.clock.now_us()).arg(wire_us(FORGETS_KEPT));
        });
        let (next, entries) = place.cloned().unwrap_or_default().follow(&reply.await?)?;
        match entries {
            Some(entries) => {
                for Entry { visitor, accounts, until_us, .. } in entries {
                    self.forget_known(visitor, &accounts, |r| r.forget(until_us));
                }
            }
            None => {
                let shared = Arc::clone(self);
                // There may be many: not on the thread that drives the connections.
                let dropping = self.redis.runtime().spawn_blocking(move || {
                    shared.slots.all().iter().for_each(|s| s.remembered().forget_confirmed());
                });
                if place.is_some() {
                    tracing::warn!(
                        number = next.number,
                        "missed who was forgotten: all are read \
                        anew"
                    );
                }
                dropping.await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
            }
        }
        Ok(next)
    }

    /// Lets `forget` forget what this node knows; returns whether something was held.
    fn forget_known(
        &self,
        visitor: u128,
        accounts: &RangeInclusive<u32>,
        forget: impl Fn(&mut Remembered) -> usize,
    ) -> bool {
        let mut held_something = false;
        for account in accounts.clone() {
            let visitor = VisitorKey { account: AccountSerial(account), visitor };
            if let Some(slot) = self.slots.known(visitor) {
                held_something |= self.forget_here(&slot, &forget);
            }
        }
        held_something
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(number: i64, epoch: &str, entries: &[u64]) -> Value {
        let entry = |n: &u64| Value::BulkString(format!("{n} 5 {:032x} 1 3 7", 9).into());
        let entries = entries.iter().map(entry).collect();
        let epoch = Value::BulkString(epoch.into());
        Value::Array(vec![Value::Int(number), epoch, Value::Array(entries)])
    }

    fn place(number: u64, epoch: &str) -> Place {
        Place { number, epoch: epoch.into() }
    }

    #[test]
    fn entries_are_followed_where_none_is_missing() {
        let follow = |from: Place, reply: Value| {
            let (next, entries) = from.follow(&reply).unwrap();
            let numbers = |all: Vec<Entry>| all.iter().map(|e| e.number).collect::<Vec<_>>();
            (next, entries.map(numbers))
        };
        assert_eq!(follow(place(0, ""), reply(0, "", &[])), (place(0, ""), Some(vec![])));
        assert_eq!(follow(place(0, ""), reply(2, "e", &[1, 2])), (place(2, "e"), Some(vec![1, 2])));
        assert_eq!(follow(place(2, "e"), reply(2, "e", &[])), (place(2, "e"), Some(vec![])));
        assert_eq!(follow(place(2, "e"), reply(3, "e", &[3])), (place(3, "e"), Some(vec![3])));
        // The list was trimmed, the count was lost, and another one stands where ours did.
        assert_eq!(follow(place(2, "e"), reply(5, "e", &[4, 5])), (place(5, "e"), None));
        assert_eq!(follow(place(2, "e"), reply(0, "", &[])), (place(0, ""), None));
        assert_eq!(follow(place(2, "e"), reply(2, "other", &[])), (place(2, "other"), None));
        assert_eq!(follow(place(2, "e"), reply(1, "e", &[])), (place(1, "e"), None));
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let value = Value::BulkString("4 99 000000000000000000000000000000ff 1 12 77".into());
        let entry = Entry { number: 4, visitor: 255, accounts: 1..=12, until_us: 77 };
        assert_eq!(Entry::from_value(&value), Some(entry));
        for damaged in ["", "4 99 ff 1 12", "4 99 xyz 1 12 77", "a 99 ff 1 12 77"] {
            assert_eq!(Entry::from_value(&Value::BulkString(damaged.into())), None, "{damaged}");
        }
    }
}
