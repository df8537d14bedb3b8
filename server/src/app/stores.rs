//! Which stores: the one place that names them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::time::Instant;

use crate::config::{Config, StoreChoice};
use crate::ports::{CatalogStore, Clock, EventLog, IncrementStore, NodeStore, ProfileStore};
use crate::refresh::{Disk, Snapshot, Stored};
use crate::store::embedded::{
    EmbeddedCatalog, EmbeddedIncrements, EmbeddedLog, EmbeddedNodes, EmbeddedProfiles,
};
use crate::store::redis::{
    Redis, RedisCatalog, RedisIncrements, RedisLog, RedisNodes, RedisProfiles,
};

/// The secret that visitors' ids are hashed with.
const VISITOR_SECRET: &str = "visitor-hash";
/// The key that tokens are sealed with where no file names one.
const TOKEN_SECRET: &str = "token-key";
/// How long a first start waits for a store that it cannot do without.
pub(super) const FIRST_LOAD_MAX: Duration = Duration::from_secs(300);
/// How often it asks again.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// What the rest is built on.
pub(super) struct Stores {
    pub(super) catalog: Arc<dyn CatalogStore>,
    pub(super) profiles: Arc<dyn ProfileStore>,
    pub(super) nodes: Arc<dyn NodeStore>,
    /// This node's copy of a catalogue that is kept elsewhere.
    pub(super) disk: Option<Disk>,
    /// What visitors' ids are hashed with.
    pub(super) visitor_secret: [u8; 32],
    /// What tokens are sealed with, unless a file says otherwise.
    pub(super) token_secret: [u8; 32],
    /// Whether other nodes may be there.
    pub(super) is_shared: bool,
    /// Where events are recorded.
    pub(super) log: Arc<dyn EventLog>,
    /// Where the estimates are added up.
    pub(super) increments: Arc<dyn IncrementStore>,
}

impl Stores {
    /// Opens what `config` names.
    pub(super) async fn open(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        match &config.store {
            StoreChoice::Embedded => Self::embedded(&config.data_dir, clock).await,
            StoreChoice::Redis { .. } => Self::redis(config, clock).await,
        }
    }

    async fn embedded(dir: &Path, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let at = || format!("data_dir = {:?}", dir.display());
        let catalog: Arc<dyn CatalogStore> = Arc::new(EmbeddedCatalog::open(dir).with_context(at)?);
        let visitor_secret = catalog.secret(VISITOR_SECRET).await.with_context(at)?;
        let token_secret = catalog.secret(TOKEN_SECRET).await.with_context(at)?;
        let profiles = open_profiles(dir.to_owned(), Arc::clone(&clock)).await.with_context(at)?;
        let log = Arc::new(EmbeddedLog::open(dir, Arc::clone(&clock)).with_context(at)?);
        let increments = Arc::new(EmbeddedIncrements::open(dir).with_context(at)?);
        let nodes = Arc::new(EmbeddedNodes::new(clock));
        Ok(Self {
            catalog,
            profiles,
            nodes,
            disk: None,
            visitor_secret,
            token_secret,
            is_shared: false,
            log,
            increments,
        })
    }

    async fn redis(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let StoreChoice::Redis { address, prefix } = &config.store else {
            return Err(anyhow!("the store is not Redis"));
        };
        let path = config.data_dir.join("catalog.snapshot");
        let (mut snapshot, stored) = Snapshot::open(&path);
        let redis = Arc::new(Redis::open(address.clone(), prefix)?);
        if let Err(error) = redis.wait().await {
            tracing::warn!(%error, "the store is away at the start");
        }
        if let Some(policy) = redis.eviction().await {
            tracing::warn!(
                policy,
                "redis may throw away what is stored when its memory is full: set its \
                 maxmemory-policy to noeviction"
            );
        }
        let known = stored.as_ref().map_or(0, |stored| stored.head.version);
        let catalog: Arc<dyn CatalogStore> =
            Arc::new(RedisCatalog::open(Arc::clone(&redis), known).await);
        let visitor_secret = shared_secret(&*catalog, VISITOR_SECRET, stored.as_ref()).await?;
        let token_secret = shared_secret(&*catalog, TOKEN_SECRET, stored.as_ref()).await?;
        let secrets = [(VISITOR_SECRET, visitor_secret), (TOKEN_SECRET, token_secret)];
        snapshot.keep_secrets(secrets.map(|(name, secret)| (name.to_owned(), secret)).into());
        let profiles =
            Arc::new(RedisProfiles::open(Arc::clone(&redis), clock, config.profile_fresh));
        let nodes = Arc::new(RedisNodes::new(Arc::clone(&redis)));
        Ok(Self {
            catalog,
            profiles,
            nodes,
            disk: Some((snapshot, stored)),
            visitor_secret,
            token_secret,
            is_shared: true,
            log: Arc::new(RedisLog::new(Arc::clone(&redis))),
            increments: Arc::new(RedisIncrements::new(redis)),
        })
    }
}

/// The secret `name` from the store; while that is away or empty, from this node's disk.
async fn shared_secret(
    catalog: &dyn CatalogStore,
    name: &str,
    stored: Option<&Stored>,
) -> anyhow::Result<[u8; 32]> {
    let until = Instant::now() + FIRST_LOAD_MAX;
    loop {
        let error = match catalog.secret(name).await {
            Ok(secret) => return Ok(secret),
            Err(error) => error,
        };
        let kept = stored.into_iter().flat_map(|stored| &stored.secrets);
        if let Some((_, secret)) = kept.into_iter().find(|(of, _)| of == name) {
            return Ok(*secret);
        }
        if Instant::now() >= until {
            return Err(error).context("the store is away, and this node has no snapshot");
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

async fn open_profiles(
    dir: PathBuf,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn ProfileStore>> {
    let opened = tokio::task::spawn_blocking(move || EmbeddedProfiles::open(&dir, clock));
    Ok(Arc::new(opened.await??))
}
