//! WatchMinutes: minutes as they change. A watcher looks again only once its caller has taken what
//! was found before, so that a slow one slows only itself.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream::{self, Stream};
use slotwise_proto::v1::MinuteCount;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use super::ask::What;
use super::{Admin, minute_of};
use crate::doors::listener::Drain;
use crate::doors::refusal::Refusal;
use crate::limits::WATCH_INTERVAL;
use crate::ports::MinuteQuery;
use crate::reports::{self, Minute, Watched};

struct Watcher {
    admin: Arc<Admin>,
    what: What,
    drain: Drain,
    watched: Watched,
    ready: VecDeque<Minute>,
    has_looked: bool,
    _slot: OwnedSemaphorePermit,
}

/// Begins with the minutes of the last while in which something happened, or which are closed;
/// then each again when it changes. Ends when the node stops.
pub(super) fn watch(
    admin: Arc<Admin>,
    what: What,
    drain: Drain,
    slot: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<MinuteCount, Status>> {
    let watcher = Watcher {
        admin,
        what,
        drain,
        watched: Watched::default(),
        ready: VecDeque::new(),
        has_looked: false,
        _slot: slot,
    };
    stream::try_unfold(watcher, |mut watcher| async move {
        let next = watcher.next().await?;
        Ok(next.map(|minute| (minute_of(&watcher.what, &minute), watcher)))
    })
}

impl Watcher {
    async fn next(&mut self) -> Result<Option<Minute>, Refusal> {
        let drain = self.drain.clone();
        tokio::select! {
            biased;
            () = drain.begun() => Ok(None),
            next = self.news() => next.map(Some),
        }
    }

    async fn news(&mut self) -> Result<Minute, Refusal> {
        loop {
            if let Some(minute) = self.ready.pop_front() {
                return Ok(minute);
            }
            if self.has_looked {
                tokio::time::sleep(WATCH_INTERVAL).await;
            }
            self.has_looked = true;
            self.look().await?;
        }
    }

    async fn look(&mut self) -> Result<(), Refusal> {
        let ledger = &self.admin.ledger;
        let now_us = self.admin.users.clock.now_us();
        // Before the rows: what a minute was closed with is in them then.
        let promised_us = ledger.counts.promised_us().await?;
        let (from_min, until_min) = Watched::range(now_us, promised_us);
        // An ad that was made meanwhile is seen, too.
        let ads = self.what.ads(&ledger.serials);
        let query = MinuteQuery { account: self.what.account, ads, from_min, until_min };
        let rows = ledger.counts.minutes(&query).await?;
        let minutes = reports::fill(&rows, from_min, until_min, promised_us);
        self.ready.extend(self.watched.news(minutes));
        Ok(())
    }
}
