//! One step after another: what does the store have, and how does it get into the index?

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use slotwise_core::index::{Builder, Change, Index, Key};
use slotwise_core::model::{CampaignId, Status};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::snapshot::{Snapshot, Stored};
use super::{Node, Served};
use crate::catalog::{change_of, owner_of_row, record_from};
use crate::limits::{ANSWER_PATIENCE, REFRESH_INTERVAL, RELOAD_RETRY, SNAPSHOT_RETRY};
use crate::ports::{CatalogStore, Clock, Delta, Head, Image, Row, StoreError};
use crate::serials::Serials;

pub(super) struct Follower {
    store: Arc<dyn CatalogStore>,
    node: Node,
    clock: Arc<dyn Clock>,
    builder: Builder,
    /// What is in the index.
    head: Head,
    /// Why each row that is not served is not.
    quarantined: BTreeMap<Key, String>,
    disk: Option<Disk>,
    /// The head whose load was refused, with why and when.
    refused: Option<(Head, StoreError, Instant)>,
    publish: watch::Sender<Served>,
}

/// This node's copy of the catalogue.
struct Disk {
    snapshot: Snapshot,
    /// Read at the start, and not served yet.
    stored: Option<Stored>,
    /// Why it is behind, and since when; it has to be written whole then.
    failed: Option<(String, Instant)>,
}

impl Follower {
    pub(super) fn new(
        store: Arc<dyn CatalogStore>,
        node: Node,
        disk: Option<super::Disk>,
        clock: Arc<dyn Clock>,
        publish: watch::Sender<Served>,
    ) -> Self {
        let disk = disk.map(|(snapshot, stored)| Disk { snapshot, stored, failed: None });
        Self {
            store,
            node,
            clock,
            builder: Builder::default(),
            head: Head::default(),
            quarantined: BTreeMap::new(),
            disk,
            refused: None,
            publish,
        }
    }

    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut hints = self.store.hints();
        loop {
            hints.borrow_and_update();
            let done = self.step().await;
            self.tell(&done);
            self.builder.sweep();
            tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => return,
                _ = hints.changed() => {}
                () = tokio::time::sleep(REFRESH_INTERVAL) => {}
            }
        }
    }

    /// Publishes how the step went, and logs what is new of it.
    fn tell(&self, done: &Result<(), StoreError>) {
        let disk = self.disk.as_ref().and_then(|disk| disk.failed.as_ref());
        let reason = match (done, disk) {
            (Ok(()), None) => String::new(),
            (Ok(()), Some((why, _))) => format!("the snapshot is not written: {why}"),
            (Err(error), _) if self.head.version > 0 => {
                format!("{error}; version {} is served", self.head.version)
            }
            (Err(error), _) => error.to_string(),
        };
        self.publish.send_modify(|served| {
            served.checks += 1;
            if done.is_ok() {
                served.confirmed_at_us = self.clock.now_us();
            }
            let is_new = served.degraded_reason != reason;
            if is_new && !reason.is_empty() {
                tracing::warn!(reason, "the catalogue is not followed as it should be");
            } else if is_new {
                tracing::info!(version = served.version, "the catalogue is followed again");
            }
            served.degraded_reason = reason;
        });
    }

    async fn step(&mut self) -> Result<(), StoreError> {
        let is_loaded = self.publish.borrow().is_loaded;
        if let Some(stored) = self.disk.as_mut().and_then(|disk| disk.stored.take()) {
            self.build_stored(stored);
        }
        let done = self.follow().await;
        // Only now, so that nothing old is shown that the store would have corrected.
        if !is_loaded && done.is_err() && self.head.version > 0 {
            tracing::warn!(version = self.head.version, "serving the snapshot on this node's disk");
            self.published(self.head);
        }
        done
    }

    /// Brings the index to where the store is.
    async fn follow(&mut self) -> Result<(), StoreError> {
        let is_loaded = self.publish.borrow().is_loaded;
        if !is_loaded && self.head.version == 0 {
            return self.reload().await;
        }
        let head = self.store.head().await?;
        if head.version == 0 && self.head.version > 0 {
            return self.refill().await;
        }
        if (head.version, head.mark) == (self.head.version, self.head.mark) {
            if !is_loaded {
                self.published(head);
            }
            return self.mend_snapshot().await;
        }
        match self.store.delta(self.head.version, self.head.mark).await {
            Ok(delta) => {
                if self.may_mend(&delta) {
                    match self.reload().await {
                        Ok(()) => return Ok(()),
                        // A load that is refused must not hold up what changed.
                        Err(error) => tracing::warn!(%error, "what hung on a bad row stays out"),
                    }
                }
                self.apply(delta);
                Ok(())
            }
            Err(StoreError::Gap { .. }) => self.reload_unless_refused(head).await,
            Err(error) => Err(error),
        }
    }

    /// A load that was refused finds the same again, and is no small thing to ask of a store in
    /// trouble: not at every look.
    async fn reload_unless_refused(&mut self, head: Head) -> Result<(), StoreError> {
        if let Some((refused, why, at)) = &self.refused
            && *refused == head
            && at.elapsed() < RELOAD_RETRY
        {
            return Err(why.clone());
        }
        let done = self.reload().await;
        self.refused = done.as_ref().err().map(|why| (head, why.clone(), Instant::now()));
        done
    }

    /// The store came back empty: the node with the newest catalogue fills it.
    async fn refill(&mut self) -> Result<(), StoreError> {
        if let Some(disk) = &mut self.disk
            && disk.snapshot.version() > 0
            // That may be less than is served; a node that has more on its disk comes first.
            && self.store.wants_refill(&self.node.id, disk.snapshot.version()).await?
            && let Some(stored) = disk.read()?
        {
            let rows = stored.rows.into_values();
            let rows = rows.map(|row| (owner_of_row(&row), row)).map(|(owner, row)| (row, owner));
            let image = Image { head: stored.head, rows: rows.collect(), secrets: stored.secrets };
            self.store.refill(&self.node.id, image).await?;
        }
        let why = "the store came back empty, and is filled from the nodes".to_owned();
        Err(StoreError::Unavailable(why))
    }

    /// Whether the delta has a row that others name and that was not served so far. What was
    /// turned down because of it is not in the delta: only a load finds it.
    fn may_mend(&self, delta: &Delta) -> bool {
        let is_named = |key: &Key| !matches!(key, Key::Ad(..));
        delta.rows.iter().any(|row| {
            is_named(&row.key) && self.quarantined.contains_key(&row.key) && change_of(row).is_ok()
        })
    }

    /// Rebuilds what `delta` touches.
    fn apply(&mut self, delta: Delta) {
        if let Some(disk) = &mut self.disk {
            // Before it is served: a store that comes back empty gets back all that was.
            disk.write(|snapshot| snapshot.append(&delta));
        }
        let mut changes: Vec<Change> = delta
            .rows
            .iter()
            .map(|row| judge(row, &mut self.quarantined, &self.node.serials))
            .collect();
        for key in delta.removed {
            self.quarantined.remove(&key);
            changes.push(Change::Removed(key));
        }
        let rejected = self.builder.apply(changes, delta.head.version, &self.node.index);
        for rejected in rejected {
            quarantine(rejected.key, rejected.why, &mut self.quarantined);
        }
        self.published(delta.head);
        if let Some(disk) = &mut self.disk {
            disk.write(|snapshot| snapshot.sync());
        }
    }

    /// Builds what was on the disk, to be shown or corrected.
    fn build_stored(&mut self, stored: Stored) {
        let sound =
            stored.rows.values().map(|row| judge(row, &mut self.quarantined, &self.node.serials));
        let changes: Vec<_> = sound.filter(|c| !matches!(c, Change::Removed(_))).collect();
        let version = stored.head.version;
        for rejected in self.builder.apply(changes, version, &self.node.index) {
            quarantine(rejected.key, rejected.why, &mut self.quarantined);
        }
        self.head = stored.head;
    }

    /// Builds everything anew beside what is served, and shows it in one go.
    async fn reload(&mut self) -> Result<(), StoreError> {
        let was = self.head.version;
        let paused: HashSet<CampaignId> = self.builder.paused().cloned().collect();
        let mut revived = Vec::new();
        let (sender, mut parts) = mpsc::channel::<Vec<Row>>(2);
        let (mut changes, mut quarantined, mut ads) = (Vec::new(), BTreeMap::new(), 0_u64);
        let mut copy = self.disk.as_ref().map(|disk| disk.snapshot.begin());
        let judging = async {
            while let Some(rows) = parts.recv().await {
                if let Some(Ok(fresh)) = &mut copy
                    && let Err(error) = fresh.rows(&rows)
                {
                    copy = Some(Err(error));
                }
                for row in &rows {
                    ads += u64::from(matches!(row.key, Key::Ad(..)));
                    if let Key::Campaign(campaign) = &row.key
                        && row.status == Some(Status::Active)
                        && row.version <= was
                        && paused.contains(campaign)
                    {
                        revived.push(campaign.clone());
                    }
                    match judge(row, &mut quarantined, &self.node.serials) {
                        // Nothing of it is shown yet that would have to go.
                        Change::Removed(_) => {}
                        change => changes.push(change),
                    }
                }
            }
        };
        let (head, ()) = tokio::join!(self.store.load(sender), judging);
        let head = head?;
        if ads != head.ads {
            let why = format!("the load found {ads} ads where the head counts {}", head.ads);
            return Err(StoreError::Unavailable(why));
        }
        let fresh = Index::default();
        let mut builder = Builder::default();
        for rejected in builder.apply(changes, head.version, &fresh) {
            quarantine(rejected.key, rejected.why, &mut quarantined);
        }
        guard(head, builder.ads_len(), self.builder.ads_len(), self.head.version)?;
        if let (Some(disk), Some(copy)) = (&mut self.disk, copy) {
            disk.failed = None;
            disk.write(|snapshot| snapshot.replace(copy?, head));
        }
        if head.version < was {
            tracing::error!(was, is = head.version, "the store went back to an older version");
        }
        self.keep_pauses(&revived);
        builder.retire(self.node.index.adopt(&fresh));
        (self.builder, self.quarantined) = (builder, quarantined);
        tracing::info!(version = head.version, ads, "catalogue loaded");
        self.published(head);
        Ok(())
    }

    /// Campaigns that are paused here and active in the store, without a change since: the store
    /// went back, as after a failover that lost what it had acknowledged. What was paused stays
    /// so, and is written again.
    fn keep_pauses(&self, revived: &[CampaignId]) {
        for campaign in revived {
            tracing::error!(%campaign, "its pause is lost in the store, and is kept here");
            self.node.kills.hold(&self.node.index, campaign);
        }
    }

    /// Writes the whole snapshot where a part of it could not be written.
    async fn mend_snapshot(&mut self) -> Result<(), StoreError> {
        let failed = self.disk.as_ref().and_then(|disk| disk.failed.as_ref());
        match failed {
            Some((_, since)) if since.elapsed() >= SNAPSHOT_RETRY => self.reload().await,
            _ => Ok(()),
        }
    }

    /// Says that `head` is served, once no answer from before is on its way.
    fn published(&mut self, head: Head) {
        self.head = head;
        self.node.in_flight.settle(ANSWER_PATIENCE);
        self.publish.send_modify(|served| {
            served.version = head.version;
            served.is_loaded = true;
            served.ads = self.builder.ads_len();
            served.quarantined_rows = u32::try_from(self.quarantined.len()).unwrap_or(u32::MAX);
        });
    }
}

impl Disk {
    /// Does `work`, unless the copy is behind anyway; what fails is told, and hinders nobody.
    fn write(&mut self, work: impl FnOnce(&mut Snapshot) -> std::io::Result<()>) {
        if self.failed.is_some() {
            return;
        }
        if let Err(error) = work(&mut self.snapshot) {
            tracing::error!(%error, "the snapshot could not be written");
            self.failed = Some((error.to_string(), Instant::now()));
        }
    }

    /// All that it holds; where that cannot be read, nothing will be offered from it.
    fn read(&mut self) -> Result<Option<Stored>, StoreError> {
        self.snapshot.stored().map_err(|error| {
            self.failed = Some((error.to_string(), Instant::now()));
            StoreError::Unavailable(format!("the snapshot: {error}"))
        })
    }
}

/// Refuses to serve less than half of the ads that are served, with no forced change behind it:
/// rows that were lost and rows that are damaged alike.
fn guard(head: Head, ads: usize, served: usize, served_version: u64) -> Result<(), StoreError> {
    if 2 * ads < served && head.forced_version <= served_version {
        return Err(StoreError::Unavailable(format!(
            "the load has {ads} sound ads where {served} are served, and no forced change says so"
        )));
    }
    Ok(())
}

/// What `row` means for the index; a bad one is taken out of sight. A sound one is named by its
/// serial, and stays so while the process lives, whatever becomes of it: what was shown is named
/// in tokens that are on pages.
fn judge(row: &Row, quarantined: &mut BTreeMap<Key, String>, serials: &Serials) -> Change {
    match change_of(row) {
        Ok(change) => {
            quarantined.remove(&row.key);
            if let Ok(record) = record_from(row) {
                serials.put(row.serial, record);
            }
            change
        }
        Err(why) => {
            quarantine(row.key.clone(), why, quarantined);
            Change::Removed(row.key.clone())
        }
    }
}

fn quarantine(key: Key, why: String, quarantined: &mut BTreeMap<Key, String>) {
    tracing::warn!(kind = key.kind(), id = %key, why, "a bad row is not served");
    quarantined.insert(key, why);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_lost_ads_is_refused() {
        let head = |forced_version| Head { version: 9, forced_version, ..Head::default() };
        assert!(guard(head(0), 50, 100, 8).is_ok(), "half may go");
        assert!(guard(head(0), 49, 100, 8).is_err());
        assert!(guard(head(9), 49, 100, 8).is_ok(), "a forced change is newer");
        assert!(guard(head(8), 49, 100, 8).is_err(), "a forced change is served already");
        assert!(guard(head(0), 0, 0, 0).is_ok(), "an empty start");
    }
}
