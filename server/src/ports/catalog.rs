//! The port to the catalogue: objects, their versions, the feed of changes and the audit log.

use async_trait::async_trait;
use slotwise_core::index::Key;
use slotwise_core::model::{AccountSerial, AdSerial, CampaignSerial, Status, ZoneSerial};
use slotwise_proto::v1::{CatalogChange, ChangeRecord};
use tokio::sync::{mpsc, watch};

use super::StoreError;

/// Where the catalogue stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Names the change that made this version, so that a store which went back and came to the
    /// same number by another way is recognised; 0: the store cannot go back under a node.
    pub mark: u64,
    /// The last serial given for each kind: accounts, sites, zones, campaigns, ads.
    pub serials: [u32; 5],
    /// The version of the newest change; 0: nothing was ever written.
    pub version: u64,
    /// How many ads there are, as the store itself counts them: a load that finds another
    /// number is not trusted.
    pub ads: u64,
    /// The version of the last change that was allowed to drop more than half of the ads.
    pub forced_version: u64,
}

/// One stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which.
    pub key: Key,
    /// Its number, given by the store when it was made. Unique for its kind, never reused.
    pub serial: u32,
    /// The version of the change that it is of.
    pub version: u64,
    /// Campaigns: the operators' switch, which lies outside the body.
    pub status: Option<Status>,
    /// The object as an encoded protobuf message, without version and status.
    pub body: Vec<u8>,
}

/// An object by the number that the store gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Serial {
    /// An account.
    Account(AccountSerial),
    /// A zone.
    Zone(ZoneSerial),
    /// A campaign.
    Campaign(CampaignSerial),
    /// An ad.
    Ad(AdSerial),
}

/// An object to write.
#[derive(Clone, Debug)]
pub struct Put {
    /// Which.
    pub key: Key,
    /// What it is listed under: a site's or campaign's account; empty for the others.
    pub owner: String,
    /// See [`Row::body`].
    pub body: Vec<u8>,
    /// Sets a campaign's status; nothing: a new campaign is active, an old one as it was.
    pub status: Option<Status>,
}

/// One line of the audit log.
#[derive(Clone, Debug)]
pub struct AuditRow {
    /// Without version and time: the commit gives both.
    pub change: CatalogChange,
    /// Encoded `CatalogRecord`.
    pub before: Option<Vec<u8>>,
    /// Encoded `CatalogRecord`.
    pub after: Option<Vec<u8>>,
}

/// One change of the catalogue, all or nothing.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// The head that it was checked against.
    pub base_version: u64,
    /// When, in microseconds of Unix time.
    pub at_us: i64,
    /// Objects that are new or different.
    pub puts: Vec<Put>,
    /// Campaigns whose status alone changes.
    pub statuses: Vec<(Key, Status)>,
    /// Objects that go. A campaign's ads are named one by one.
    pub deletes: Vec<Key>,
    /// Whether it may drop more than half of the ads.
    pub forced: bool,
    /// The change itself first; then, for an import, one for each object.
    pub audit: Vec<AuditRow>,
}

/// The whole catalogue as a node keeps it on its disk.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Where it stands.
    pub head: Head,
    /// Every object, with what it is listed under (see [`Put::owner`]).
    pub rows: Vec<(Row, String)>,
    /// The secrets that the node knows, by name.
    pub secrets: Vec<(String, [u8; 32])>,
}

/// What changed after a version.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// The head that it leads to.
    pub head: Head,
    /// Objects as they are now.
    pub rows: Vec<Row>,
    /// Objects that are gone.
    pub removed: Vec<Key>,
}

/// Which objects to list, in order of their ids.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// A key of the wanted kind to start after; an empty id starts at the first. For zones and
    /// ads its site or campaign is the one listed.
    pub after: Key,
    /// Sites and campaigns: only this account's; empty: all.
    pub owner: String,
    /// Only ids that begin so; empty: all.
    pub id_prefix: String,
    /// How many at most.
    pub limit: usize,
}

/// Which lines of the audit log to give, newest first.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only this object's; empty: the changes themselves.
    pub id: String,
    /// Only lines before this (version, line).
    pub before: Option<(u64, u64)>,
    /// How many at most.
    pub limit: usize,
}

/// Lines of the audit log.
#[derive(Clone, Debug, Default)]
pub struct AuditPage {
    /// Newest first.
    pub records: Vec<ChangeRecord>,
    /// Where the next page goes on; nothing: this was the last.
    pub next_before: Option<(u64, u64)>,
}

/// Keeps the catalogue.
///
/// A reader never sees half a change. A commit is acknowledged only when it is durable.
#[async_trait]
pub trait CatalogStore: Send + Sync {
    /// The newest version and its counts.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; so for every call below, beside what each names.
    async fn head(&self) -> Result<Head, StoreError>;

    /// Sends every object at one version into `parts`: accounts, sites, zones, campaigns, ads,
    /// each in order of its ids. Waits where the receiver is slower; ends early, with an error,
    /// when it is gone.
    async fn load(&self, parts: mpsc::Sender<Vec<Row>>) -> Result<Head, StoreError>;

    /// What changed after `version`, where that is the change of `mark`; 0: whichever it is.
    ///
    /// # Errors
    /// [`StoreError::Gap`] when that is no longer kept, is more than a delta may be, or is not
    /// the store's own past.
    async fn delta(&self, version: u64, mark: u64) -> Result<Delta, StoreError>;

    /// The objects of `keys` that are there, and the head at which they were read.
    async fn get(&self, keys: &[Key]) -> Result<(Head, Vec<Row>), StoreError>;

    /// The object of this number: as it is, or as it was when it was deleted, where that is no
    /// longer ago than [`crate::limits::SERIAL_AFTERLIFE`]. One that was made again under the
    /// same id has another number. A deleted campaign has no status.
    async fn by_serial(&self, serial: Serial) -> Result<Option<Row>, StoreError>;

    /// Objects of one kind.
    async fn list(&self, query: &ListQuery) -> Result<Vec<Row>, StoreError>;

    /// Applies `commit` and returns the version that it became: the base and one.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the head is no longer the commit's base; nothing changed.
    async fn commit(&self, commit: Commit) -> Result<u64, StoreError>;

    /// At most `limit` changes after `version`, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Gap`] when the first of them is no longer kept.
    async fn changes(&self, version: u64, limit: usize) -> Result<Vec<CatalogChange>, StoreError>;

    /// A page of the audit log.
    async fn audit(&self, query: &AuditQuery) -> Result<AuditPage, StoreError>;

    /// A secret that is the same for all nodes, made by whoever asks first.
    async fn secret(&self, name: &str) -> Result<[u8; 32], StoreError>;

    /// Whether `node`, which holds the catalogue at `version` on its disk, should fill this store,
    /// as it came back empty and nobody holds a newer one. False where there is nothing to fill,
    /// or where another node will.
    async fn wants_refill(&self, node: &str, version: u64) -> Result<bool, StoreError> {
        let _ = (node, version);
        Ok(false)
    }

    /// Fills the store, if it is still empty, with what this node holds: under versions and
    /// serials above all that were ever given.
    async fn refill(&self, node: &str, image: Image) -> Result<(), StoreError> {
        let _ = (node, image);
        Err(StoreError::Full("this store is never refilled"))
    }

    /// Versions as this process hears of them. Only a hint: polling [`CatalogStore::head`] is
    /// the truth.
    fn hints(&self) -> watch::Receiver<u64>;
}
