//! Imports into the catalogue, from a file's JSON and from the wire: what is refused changes
//! nothing, and what is taken is there as it was sent, can be served, and exports and imports
//! again as itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use prost::Message as _;
use slotwise_core::index::{Builder, Index, Key};
use slotwise_proto::json;
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::import_request::Step;
use slotwise_proto::v1::{
    self as wire, Account, Ad, Campaign, CatalogRecord, ImportRequest, Site, Zone,
};
use slotwise_server::catalog::{Catalog, CatalogError, ImportOptions, change_of, record_from};
use slotwise_server::ports::{CatalogStore, Row};
use slotwise_server::store::embedded::EmbeddedCatalog;
use slotwise_server::testing::ManualClock;
use tokio::sync::mpsc;

/// 2026-11-30T12:00:00Z.
const NOON_US: i64 = 1_796_040_000_000_000;
/// More would only take longer.
const RECORDS_MAX: usize = 64;
const ACTOR: &str = "somebody";
/// Whatever is there goes, but for what the import names.
const REPLACING: ImportOptions = ImportOptions { replace: true, force: true, validate_only: false };

/// What is there before each import.
const BASE: [&str; 7] = [
    r#"{"account":{"accountId":"a","currency":"EUR","timeZone":"Europe/Vienna"}}"#,
    r#"{"account":{"accountId":"b"}}"#,
    r#"{"site":{"siteId":"s","accountId":"a"}}"#,
    r#"{"zone":{"siteId":"s","zoneId":"z"}}"#,
    r#"{"campaign":{"campaignId":"x:1","accountId":"a","price":{"thousandImpressionsMicros":"9"}}}"#,
    r#"{"ad":{"campaignId":"x:1","adUnitId":"a","zones":[{"siteId":"s","zoneId":"z"}],"landingUrl":"https://x.example/"}}"#,
    r#"{"ad":{"campaignId":"x:1","adUnitId":"b","zones":[{"siteId":"s","zoneId":"z"}],"landingUrl":"https://x.example/"}}"#,
];

/// A catalogue on a disk, and the index that follows it.
pub struct Imports {
    runtime: tokio::runtime::Runtime,
    catalog: Catalog,
    served: Mutex<Served>,
    base: Vec<Record>,
    _dir: tempfile::TempDir,
}

/// What a node would serve.
struct Served {
    builder: Builder,
    index: Arc<Index>,
    version: u64,
}

/// What an import came to, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing has changed.
    Refused,
    /// It is at this version.
    Taken(u64),
}

impl Imports {
    /// Makes them on a directory of their own.
    #[allow(clippy::new_without_default, reason = "it makes a directory and starts threads")]
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn CatalogStore> = Arc::new(EmbeddedCatalog::open(dir.path()).unwrap());
        let index = Arc::<Index>::default();
        let catalog = Catalog::new(store, Arc::clone(&index), ManualClock::new(NOON_US));
        let served = Mutex::new(Served { builder: Builder::default(), index, version: 0 });
        let base = BASE.iter().map(|line| json::from_str::<CatalogRecord>(line).unwrap());
        let base = base.map(|record| record.record.unwrap()).collect();
        Self { runtime, catalog, served, base, _dir: dir }
    }

    /// Imports `data` as a file of NDJSON. Its first line may be words: `replace`, `force`,
    /// `check`. Lines that are no records are left out here.
    pub fn check_json(&self, data: &[u8]) {
        let first = data.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let says = |word: &str| first.split(|byte| *byte == b' ').any(|w| w == word.as_bytes());
        let (replace, force) = (says("replace"), says("force"));
        let options = ImportOptions { replace, force, validate_only: says("check") };
        let lines = data.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
        let records = lines.filter_map(|line| json::from_str::<CatalogRecord>(line).ok());
        let records = records.inspect(|record| {
            let again = json::from_str(&json::to_string(record));
            assert_eq!(again.ok().as_ref(), Some(record), "a record reads back as it is written");
        });
        self.check(records.filter_map(|record| record.record).collect(), options);
    }

    /// Imports `data` as the steps of a call, each behind its length.
    pub fn check_wire(&self, mut data: &[u8]) {
        let (mut options, mut records, mut is_first) = (ImportOptions::default(), Vec::new(), true);
        while let Ok(step) = ImportRequest::decode_length_delimited(&mut data) {
            match step.step {
                Some(Step::Options(given)) if is_first => {
                    let wire::ImportOptions { replace, force, validate_only } = given;
                    options = ImportOptions { replace, force, validate_only };
                }
                // The door refuses the whole call.
                Some(Step::Options(_)) => return,
                Some(Step::Record(record)) => records.extend(record.record),
                None => {}
            }
            is_first = false;
            if data.is_empty() {
                break;
            }
        }
        self.check(records, options);
    }

    fn check(&self, records: Vec<Record>, options: ImportOptions) {
        if records.is_empty() || records.len() > RECORDS_MAX {
            return;
        }
        let mut served = self.served.lock().unwrap();
        self.runtime.block_on(async {
            let before = self.based(&mut served).await;
            let outcome = self.import(&records, options).await;
            self.follow(&mut served).await;
            let after = self.export().await;
            if outcome == Outcome::Refused || options.validate_only {
                assert_eq!(before, after, "nothing has changed");
            }
            let Outcome::Taken(version) = outcome else { return };
            if options.validate_only {
                let really = ImportOptions { validate_only: false, ..options };
                let done = self.import(&records, really).await;
                assert!(matches!(done, Outcome::Taken(_)), "what was found good is good");
                self.follow(&mut served).await;
                return;
            }
            for record in &records {
                assert_eq!(
                    after.get(&key_of(record)),
                    Some(&plain(record)),
                    "it is as it was sent"
                );
            }
            if options.replace {
                assert_eq!(after.len(), records.len(), "and nothing else is there");
            } else {
                let stays = before.keys().filter(|key| !after.contains_key(*key));
                assert_eq!(stays.collect::<Vec<_>>(), Vec::<&Key>::new());
            }
            let all: Vec<_> = after.values().map(read_back).collect();
            for (records, options) in [(&records, options), (&all, REPLACING)] {
                let again = self.import(records, options).await;
                assert_eq!(again, Outcome::Taken(version), "a repeat changes nothing");
            }
        });
    }

    /// What is stored, which is the base: what the import before left is taken away first, as some
    /// of it never changes once set.
    async fn based(&self, served: &mut Served) -> BTreeMap<Key, Record> {
        let base = self.base.iter().map(|record| (key_of(record), plain(record))).collect();
        if self.export().await != base {
            for records in [&[], &self.base[..]] {
                let taken = self.import(records, REPLACING).await;
                assert!(matches!(taken, Outcome::Taken(_)), "{taken:?}");
                self.follow(served).await;
            }
        }
        assert_eq!(self.export().await, base);
        base
    }

    /// Imports, and holds what is said of it against what it did.
    async fn import(&self, records: &[Record], options: ImportOptions) -> Outcome {
        let head = async || self.catalog.store().head().await.unwrap();
        let before = head().await;
        let outcome = match self.catalog.import(records.to_vec(), options, ACTOR).await {
            Ok(outcome) => outcome,
            Err(CatalogError::Refused(problems)) => {
                assert!(!problems.is_empty());
                assert!(
                    options.replace && !options.force,
                    "only then about the whole: {problems:?}"
                );
                assert_eq!(head().await, before);
                return Outcome::Refused;
            }
            Err(other) => panic!("{other}"),
        };
        assert!(outcome.problem_count as usize >= outcome.problems.len());
        assert_eq!(outcome.problem_count == 0, outcome.problems.is_empty());
        for problem in &outcome.problems {
            let number = problem.record_number as usize;
            assert!((1..=records.len()).contains(&number), "{problem:?}");
            let kind = key_of(&records[number - 1]).kind();
            assert!(problem.field.starts_with(&format!("{kind}.")), "{problem:?}");
            assert!(!problem.message.is_empty(), "{problem:?}");
        }
        assert_eq!(outcome.version, head().await.version);
        if outcome.problem_count > 0 {
            assert_eq!(head().await, before);
            return Outcome::Refused;
        }
        Outcome::Taken(outcome.version)
    }

    /// Brings the index to where the store is: nothing that was taken is turned down.
    async fn follow(&self, served: &mut Served) {
        let delta = self.catalog.store().delta(served.version, 0).await.unwrap();
        let changes = delta.rows.iter().map(|row| change_of(row).unwrap());
        let removed = delta.removed.into_iter().map(slotwise_core::index::Change::Removed);
        let changes = changes.chain(removed).collect();
        let rejected = served.builder.apply(changes, delta.head.version, &served.index);
        let rejected: Vec<_> = rejected.into_iter().map(|rejected| rejected.why).collect();
        assert_eq!(rejected, Vec::<String>::new());
        assert_eq!(served.builder.ads_len() as u64, delta.head.ads);
        served.version = delta.head.version;
        served.builder.sweep();
    }

    /// Everything that is stored, without what the server sets.
    async fn export(&self) -> BTreeMap<Key, Record> {
        let (sender, mut parts) = mpsc::channel::<Vec<Row>>(4);
        let mut rows = Vec::new();
        let gathering = async {
            while let Some(part) = parts.recv().await {
                rows.extend(part);
            }
        };
        let (loaded, ()) = tokio::join!(self.catalog.store().load(sender), gathering);
        loaded.unwrap();
        rows.into_iter().map(|row| (row.key.clone(), plain(&record_from(&row).unwrap()))).collect()
    }
}

/// `record` by way of its JSON.
fn read_back(record: &Record) -> Record {
    let record = CatalogRecord { record: Some(record.clone()) };
    let again = json::from_str::<CatalogRecord>(&json::to_string(&record)).unwrap();
    assert_eq!(again, record, "an export reads back");
    again.record.unwrap()
}

fn key_of(record: &Record) -> Key {
    match record {
        Record::Account(o) => Key::Account(o.account_id.as_str().into()),
        Record::Site(o) => Key::Site(o.site_id.as_str().into()),
        Record::Zone(o) => Key::Zone(o.site_id.as_str().into(), o.zone_id.as_str().into()),
        Record::Campaign(o) => Key::Campaign(o.campaign_id.as_str().into()),
        Record::Ad(o) => Key::Ad(o.campaign_id.as_str().into(), o.ad_unit_id.as_str().into()),
    }
}

/// `record` without what the server sets: versions, and the status, which no import changes.
fn plain(record: &Record) -> Record {
    match record.clone() {
        Record::Account(o) => Record::Account(Account { version: 0, ..o }),
        Record::Site(o) => Record::Site(Site { version: 0, ..o }),
        Record::Zone(o) => Record::Zone(Zone { version: 0, ..o }),
        Record::Campaign(o) => Record::Campaign(Campaign { version: 0, status: 0, ..o }),
        Record::Ad(o) => Record::Ad(Ad { version: 0, ..o }),
    }
}
