//! The catalogue in Redis.
//!
//! | key | what |
//! |---|---|
//! | `head` | hash: version, mark, counts, last serials |
//! | `objects` | hash: an object's name -> its value (see `keys`) |
//! | `ids`, `owned` | sorted sets of names, and of owner and id: for lists in order |
//! | `versions`, `removed` | sorted sets: which version an object is of, or went with |
//! | `statuses`, `status_versions` | the operators' switch of each campaign, outside its object |
//! | `log`, `changes`, `lines`, `line_order` | the audit log, by change, by object and by age |
//! | `serials` | hash: kind and serial of an object -> its name |
//! | `ended`, `buried` | what was deleted: serials by time, and serial -> the object as it was |
//! | `secrets` | hash: keys that all nodes share |
//! | `stage:*` | a large change on its way; lapses if nobody finishes it |
//! | `overlay`, `overlay_lines` | a large change that is visible and not yet folded in |
//! | `nodes`, `offers` | what nodes say of themselves; who could fill an empty store |
//!
//! Small changes are one script. A large one is staged part by part, becomes visible by one flip
//! of the head, and is folded in afterwards, so that no script holds up the visitors' profiles
//! for long. Every reader looks into the overlay first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use slotwise_core::index::Key;
use slotwise_proto::v1::CatalogChange;
use tokio::sync::{mpsc, watch};

use super::hints::Hints;
use super::keys::{Keys, bytes, head_from, name_of, number, rows_from, strange};
use super::scripts::{self, Script};
use super::server::Redis;
use crate::limits::REFILL_WAIT_US;
use crate::ports::{
    AuditPage, AuditQuery, CatalogStore, Commit, Delta, Head, Image, ListQuery, Row, Serial,
    StoreError,
};

/// The catalogue of one installation.
pub struct RedisCatalog {
    pub(super) redis: Arc<Redis>,
    pub(super) keys: Arc<Keys>,
    hints: Hints,
    /// The newest version that this process knows of: a store that stands at 0 was emptied.
    known: AtomicU64,
}

impl RedisCatalog {
    /// The catalogue in `redis`, of which this node already holds `known_version` (0: nothing).
    pub async fn open(redis: Arc<Redis>, known_version: u64) -> Self {
        let keys = Arc::new(Keys::new(redis.prefix()));
        let hints = Hints::follow(Arc::clone(&redis), &keys);
        let catalog = Self { redis, keys, hints, known: AtomicU64::new(known_version) };
        // Whether or not it answers: the refresher asks again.
        if let Ok(head) = catalog.head().await {
            catalog.hints.hear(head.version);
        }
        catalog
    }

    /// One script on keys of the catalogue.
    pub(super) async fn run<const N: usize>(
        &self,
        script: &Script,
        keys: [&str; N],
        arguments: impl FnOnce(&mut redis::Cmd),
    ) -> Result<redis::Value, StoreError> {
        self.redis.run(self.redis.prefix(), script, &self.keys.all(keys), arguments).await
    }

    /// One command on a key of the catalogue.
    pub(super) async fn call(&self, command: &redis::Cmd) -> Result<redis::Value, StoreError> {
        self.redis.call(self.redis.prefix(), command).await
    }

    pub(super) fn hear(&self, version: u64) {
        self.known.fetch_max(version, Ordering::SeqCst);
        self.hints.hear(version);
    }

    /// Refuses to go by a store that came back empty: what it lost has to come back first. That
    /// it did is known to those who held its catalogue, and they tell by offering to fill it.
    pub(super) async fn expect_not_emptied(&self, version: u64) -> Result<(), StoreError> {
        if version > 0 {
            return Ok(());
        }
        let known = self.known.load(Ordering::SeqCst);
        let mut ask = redis::cmd("EXISTS");
        if known > 0 || number(&self.call(ask.arg(self.keys.one("offers"))).await?)? > 0 {
            let why = "redis came back empty, and is filled from the nodes";
            return Err(StoreError::Unavailable(why.to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl CatalogStore for RedisCatalog {
    async fn head(&self) -> Result<Head, StoreError> {
        let mut ask = redis::cmd("HGETALL");
        let head = head_from(&self.call(ask.arg(self.keys.one("head"))).await?)?;
        self.known.fetch_max(head.version, Ordering::SeqCst);
        Ok(head)
    }

    async fn load(&self, parts: mpsc::Sender<Vec<Row>>) -> Result<Head, StoreError> {
        self.load_whole(parts).await
    }

    async fn delta(&self, version: u64, mark: u64) -> Result<Delta, StoreError> {
        self.changed_after(version, mark).await
    }

    async fn get(&self, keys: &[Key]) -> Result<(Head, Vec<Row>), StoreError> {
        self.get_now(keys).await
    }

    async fn by_serial(&self, serial: Serial) -> Result<Option<Row>, StoreError> {
        self.numbered(serial).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Vec<Row>, StoreError> {
        self.list_now(query).await
    }

    async fn commit(&self, commit: Commit) -> Result<u64, StoreError> {
        let version = self.apply(commit).await?;
        self.hear(version);
        Ok(version)
    }

    async fn changes(&self, version: u64, limit: usize) -> Result<Vec<CatalogChange>, StoreError> {
        self.changes_after(version, limit).await
    }

    async fn audit(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.audit_page(query).await
    }

    async fn secret(&self, name: &str) -> Result<[u8; 32], StoreError> {
        let key = self.keys.one("secrets");
        let mut ask = redis::cmd("HGET");
        ask.arg(&key).arg(name);
        // A store that takes no writes at the moment may well know it already.
        let mut kept = self.call(&ask).await?;
        if matches!(kept, redis::Value::Nil) {
            if self.head().await?.version == 0 {
                // Those who held its catalogue notice, and say so, within this.
                tokio::time::sleep(Duration::from_micros(REFILL_WAIT_US)).await;
            }
            self.expect_not_emptied(self.head().await?.version).await?;
            let mut fresh = [0_u8; 32];
            getrandom::fill(&mut fresh)
                .map_err(|error| StoreError::Unavailable(format!("random numbers: {error}")))?;
            let mut make = redis::cmd("HSETNX");
            self.call(make.arg(&key).arg(name).arg(&fresh[..])).await?;
            kept = self.call(&ask).await?;
        }
        bytes(&kept)?.try_into().map_err(|_| strange(&kept))
    }

    async fn wants_refill(&self, node: &str, version: u64) -> Result<bool, StoreError> {
        self.offer(node, version).await
    }

    async fn refill(&self, node: &str, image: Image) -> Result<(), StoreError> {
        self.restore(node, image).await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }
}

impl RedisCatalog {
    async fn get_now(&self, keys: &[Key]) -> Result<(Head, Vec<Row>), StoreError> {
        let names: Vec<_> = keys.iter().map(name_of).collect();
        let (head, rows) = self.get_named(&names).await?;
        self.expect_not_emptied(head.version).await?;
        Ok((head, rows))
    }

    /// The objects of these names that are there, and the head.
    pub(super) async fn get_named(
        &self,
        names: &[impl redis::ToRedisArgs],
    ) -> Result<(Head, Vec<Row>), StoreError> {
        let ask = |command: &mut redis::Cmd| {
            command.arg(names);
        };
        let wanted = ["head", "objects", "overlay", "statuses"];
        match &self.run(scripts::get(), wanted, ask).await? {
            redis::Value::Array(reply) if reply.len() == 2 => {
                Ok((head_from(&reply[0])?, rows_from(&reply[1])?))
            }
            other => Err(strange(other)),
        }
    }
}
