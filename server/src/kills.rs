//! Campaigns that this node must not show, whatever the catalogue says, because a pause is not
//! stored yet: the store was away. They are kept on this node's disk, and written to the store
//! once it is back.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use slotwise_core::index::Index;
use slotwise_core::model::CampaignId;
use tokio::sync::watch;

/// The kills of this node that are not stored yet.
pub struct Kills {
    path: PathBuf,
    held: Mutex<BTreeSet<String>>,
    /// How many there are.
    count: watch::Sender<usize>,
}

impl Kills {
    /// Those in the file at `path`, which no decision on `index` will show.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn open(path: PathBuf, index: &Index) -> std::io::Result<Self> {
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        // Ids hold no line breaks.
        let held: BTreeSet<String> = text.lines().map(ToOwned::to_owned).collect();
        for campaign in &held {
            tracing::warn!(campaign, "stopped on this node, and not stored yet");
            index.kill(&campaign.as_str().into());
        }
        let count = watch::Sender::new(held.len());
        Ok(Self { path, held: Mutex::new(held), count })
    }

    /// From now on it is not shown here, also after a restart, until it is released.
    pub fn hold(&self, index: &Index, campaign: &CampaignId) {
        index.kill(campaign);
        let mut held = self.lock();
        held.insert(campaign.as_str().to_owned());
        self.write(&held);
    }

    /// The catalogue decides again.
    pub fn release(&self, index: &Index, campaign: &CampaignId) {
        let mut held = self.lock();
        if held.remove(campaign.as_str()) {
            self.write(&held);
        }
        index.lift(campaign);
    }

    /// The catalogue decides again, unless the campaign was held meanwhile: a kill that is not
    /// stored outlasts a pause that is.
    pub fn lift(&self, index: &Index, campaign: &CampaignId) {
        let held = self.lock();
        if !held.contains(campaign.as_str()) {
            index.lift(campaign);
        }
    }

    /// Whether it is held.
    pub fn holds(&self, campaign: &CampaignId) -> bool {
        self.lock().contains(campaign.as_str())
    }

    /// All that are held.
    pub fn held(&self) -> Vec<CampaignId> {
        self.lock().iter().map(|campaign| campaign.as_str().into()).collect()
    }

    /// How many are held, as it changes.
    pub fn count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    fn write(&self, held: &BTreeSet<String>) {
        let text: String = held.iter().map(|campaign| format!("{campaign}\n")).collect();
        let fresh = self.path.with_extension("new");
        let written = std::fs::write(&fresh, text)
            .and_then(|()| std::fs::File::open(&fresh)?.sync_all())
            .and_then(|()| std::fs::rename(&fresh, &self.path))
            .and_then(|()| match self.path.parent() {
                Some(dir) => std::fs::File::open(dir)?.sync_all(),
                None => Ok(()),
            });
        if let Err(error) = written {
            tracing::error!(%error, "a kill of this node is not on its disk: a restart forgets it");
        }
        self.count.send_replace(held.len());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // Nothing that is done under it can be half done.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_holds_over_a_restart_until_it_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kills");
        let (x, y) = (CampaignId::from("x:1"), CampaignId::from("y:1"));
        let index = Index::default();
        let kills = Kills::open(path.clone(), &index).unwrap();
        kills.hold(&index, &x);
        kills.hold(&index, &y);
        kills.release(&index, &y);
        let index = Index::default();
        let kills = Kills::open(path.clone(), &index).unwrap();
        assert_eq!((kills.held(), *kills.count().borrow()), (vec![x.clone()], 1));
        assert!(index.is_killed(&x) && !index.is_killed(&y));
        kills.lift(&index, &x);
        assert!(index.is_killed(&x), "a pause that is stored lifts no kill that is not");
        kills.release(&index, &x);
        assert!(!index.is_killed(&x));
        assert_eq!(Kills::open(path, &Index::default()).unwrap().held(), []);
    }
}
