//! From what somebody wants the catalogue to hold to one commit: every object is checked in
//! itself and against all that it names, as it will be afterwards.

use std::collections::HashMap;

use slotwise_core::index::{Index, Key};
use slotwise_core::model::Status;
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::{Ad, CatalogChange};
use tokio::sync::mpsc;

use super::change::audited;
use super::check::check;
use super::object::{
    Object, as_stored, body_of, encode, id_field_of, key_of, owner_of, record_from, status_from,
};
use super::problem::Problem;
use crate::ports::{AuditRow, CatalogStore, Commit, Put, Row, StoreError};

mod references;

/// What else is meant than the records themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Intent {
    /// What the records do not name goes.
    pub(super) replace: bool,
    /// More than half of the ads may go.
    pub(super) force: bool,
    /// Campaigns get the status of their record, also where they are there already.
    pub(super) sets_status: bool,
}

/// A problem with the record of that number, from 1.
pub(super) struct Numbered {
    pub(super) record_number: u32,
    pub(super) problem: Problem,
}

/// Why there is no plan.
pub(super) enum PlanError {
    /// What is wrong, in order of the records.
    Problems(Vec<Numbered>),
    /// The catalogue changed while it was read: plan again.
    Moved,
    /// The store did not answer.
    Store(StoreError),
}

impl From<StoreError> for PlanError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// One change, ready to commit.
#[derive(Default)]
pub(super) struct Plan {
    /// The head that it was checked against.
    pub(super) base_version: u64,
    /// New objects.
    pub(super) added: usize,
    /// Objects that were there and are different.
    pub(super) changed: usize,
    puts: Vec<Put>,
    /// Objects that go.
    pub(super) deletes: Vec<Key>,
    forced: bool,
    lines: Vec<AuditRow>,
}

impl Plan {
    /// Whether it changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty()
    }

    /// Puts the line of the change itself in front; without lines for the objects it takes over
    /// the only object's before and after.
    pub(super) fn head_line(&mut self, kind: &str, id: &str, summary: &str, actor: &str) {
        let change = CatalogChange {
            kind: kind.to_owned(),
            id: id.to_owned(),
            summary: summary.to_owned(),
            ..CatalogChange::default()
        };
        let line = AuditRow { change, before: None, after: None };
        match self.lines.first_mut() {
            Some(only) if kind != "import" => only.change = line.change,
            _ => self.lines.insert(0, line),
        }
        for line in &mut self.lines {
            line.change.actor = actor.to_owned();
        }
    }

    /// The commit.
    pub(super) fn into_commit(self, at_us: i64) -> Commit {
        Commit {
            base_version: self.base_version,
            at_us,
            puts: self.puts,
            statuses: Vec::new(),
            deletes: self.deletes,
            forced: self.forced,
            audit: self.lines,
        }
    }
}

/// What is stored of all that the records are or name.
struct Stored {
    version: u64,
    rows: HashMap<Key, (Row, Record)>,
    /// Rows that cannot be read; with a campaign's status, which lies outside and stays.
    damaged: HashMap<Key, Option<Status>>,
    /// What the records do not name; only where they replace all.
    left_out: Vec<Row>,
    /// Ads that are there now.
    ads: u64,
}

/// Plans to write `records`.
pub(super) async fn plan(
    store: &dyn CatalogStore,
    index: &Index,
    records: &[Record],
    intent: &Intent,
) -> Result<Plan, PlanError> {
    let (staged, mut problems) = stage(records);
    let mut stored = read(store, records, &staged, intent).await?;
    add_dependent_ads(store, records, &mut stored, intent).await?;
    let stays = if intent.replace { None } else { Some(&stored.rows) };
    let view = references::View {
        records,
        staged: &staged,
        stored: stays,
        before: &stored.rows,
        places: references::Places::new(records, stays),
        index,
    };
    problems.extend(view.problems());
    if !problems.is_empty() {
        problems.sort_by_key(|numbered| numbered.record_number);
        return Err(PlanError::Problems(problems));
    }
    let mut plan = write(records, stored, intent)?;
    plan.forced = intent.force;
    Ok(plan)
}

/// The number of each record, by key; with what is wrong with them in themselves.
fn stage(records: &[Record]) -> (HashMap<Key, u32>, Vec<Numbered>) {
    let (mut staged, mut problems) = (HashMap::with_capacity(records.len()), Vec::new());
    for (record_number, record) in (1..).zip(records) {
        let key = key_of(record);
        if let Err(found) = check(record, 0, Status::Active) {
            let numbered = |problem| Numbered { record_number, problem };
            problems.extend(found.into_iter().map(numbered));
        }
        if let Some(first) = staged.insert(key, record_number) {
            let message = format!("is already in record {first}");
            let problem = Problem::invalid(id_field_of(record), message);
            problems.push(Numbered { record_number, problem });
        }
    }
    (staged, problems)
}

async fn read(
    store: &dyn CatalogStore,
    records: &[Record],
    staged: &HashMap<Key, u32>,
    intent: &Intent,
) -> Result<Stored, PlanError> {
    let (head, rows) = store.get(&references::keys(records)).await?;
    let (mut readable, mut damaged) = (HashMap::with_capacity(rows.len()), HashMap::new());
    for row in rows {
        // A damaged row counts as not there: writing it anew is how it is mended.
        match record_from(&row) {
            Ok(record) => drop(readable.insert(row.key.clone(), (row, record))),
            Err(_) => {
                damaged.insert(row.key, row.status);
            }
        }
    }
    let (version, ads) = (head.version, head.ads);
    let mut found = Stored { version, rows: readable, damaged, left_out: Vec::new(), ads };
    if intent.replace {
        let (sender, mut parts) = mpsc::channel::<Vec<Row>>(2);
        let gather = async {
            while let Some(part) = parts.recv().await {
                found.left_out.extend(part.into_iter().filter(|r| !staged.contains_key(&r.key)));
            }
        };
        let (at, ()) = tokio::join!(store.load(sender), gather);
        if at?.version != head.version {
            return Err(PlanError::Moved);
        }
    }
    Ok(found)
}

/// A campaign that gives up its price per thousand may leave ads behind that ranked by it.
async fn add_dependent_ads(
    store: &dyn CatalogStore,
    records: &[Record],
    stored_rows: &mut Stored,
    intent: &Intent,
) -> Result<(), PlanError> {
    if intent.replace {
        return Ok(());
    }
    for record in records {
        let Record::Campaign(campaign) = record else { continue };
        let before = stored_rows.rows.get(&campaign.key());
        let Some((_, Record::Campaign(before))) = before else { continue };
        if references::per_thousand(before).is_none()
            || references::per_thousand(campaign).is_some()
        {
            continue;
        }
        for row in super::ads::ads_of(store, &campaign.campaign_id).await? {
            let Ok(record) = record_from(&row) else { continue };
            stored_rows.rows.insert(row.key.clone(), (row, record));
        }
    }
    Ok(())
}

fn write(records: &[Record], mut stored: Stored, intent: &Intent) -> Result<Plan, PlanError> {
    let mut plan = Plan { base_version: stored.version, ..Plan::default() };
    let is_ad = |row: &&Row| matches!(row.key, Key::Ad(..));
    let dropped = stored.left_out.iter().filter(is_ad).count() as u64;
    if 2 * dropped > stored.ads && !intent.force {
        let message = format!(
            "would drop {dropped} of {} ads, which is more than half; say force to do so",
            stored.ads
        );
        let problem = Problem::precondition("options.force", message);
        return Err(PlanError::Problems(vec![Numbered { record_number: 0, problem }]));
    }
    for row in stored.left_out {
        plan.lines.push(line(&row.key, "deleted by an import", audited(&row), None));
        plan.deletes.push(row.key);
    }
    for record in records {
        let key = key_of(record);
        let before = stored.rows.remove(&key);
        let body = body_of(record);
        let damaged = stored.damaged.remove(&key);
        let is_new = before.is_none() && damaged.is_none();
        let status = match record {
            Record::Campaign(campaign) if intent.sets_status || is_new => {
                status_from(campaign.status)
            }
            _ => None,
        };
        if let Some((row, _)) = &before
            && row.body == body
            && (status.is_none() || status == row.status)
        {
            continue;
        }
        let summary = if is_new { "created by an import" } else { "changed by an import" };
        *(if is_new { &mut plan.added } else { &mut plan.changed }) += 1;
        let kept = before.as_ref().map(|(row, _)| row.status).or(damaged).flatten();
        let after = as_stored(record, status.or(kept));
        let before = before.map(|(_, record)| encode(record));
        plan.lines.push(line(&key, summary, before, Some(encode(after))));
        plan.puts.push(Put { key, owner: owner_of(record).to_owned(), body, status });
    }
    Ok(plan)
}

fn line(key: &Key, summary: &str, before: Option<Vec<u8>>, after: Option<Vec<u8>>) -> AuditRow {
    let change = CatalogChange {
        kind: key.kind().to_owned(),
        id: key.to_string(),
        summary: summary.to_owned(),
        ..CatalogChange::default()
    };
    AuditRow { change, before, after }
}

/// The ads among `rows` that are of `campaign`.
fn ads_of<'r>(
    rows: &'r HashMap<Key, (Row, Record)>,
    campaign: &'r str,
) -> impl Iterator<Item = &'r Ad> {
    rows.values().filter_map(move |(_, record)| match record {
        Record::Ad(ad) if ad.campaign_id == campaign => Some(ad),
        _ => None,
    })
}
