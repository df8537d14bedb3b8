//! Counts on one server.

use std::sync::Arc;

use slotwise_core::model::{AccountSerial, AdSerial};
use tokio_postgres::Config;

use super::link::{Lane, Link, Part};
use super::{claims, failed, reading, writing};
use crate::events::{HotAd, HotAds, Partition};
use crate::ports::{
    Claim, CountError, Counted, MinuteQuery, MinuteRow, PairRow, Place, Step, StoreError, SweepAt,
    Swept,
};

/// One server, which keeps its part of the partitions.
#[derive(Clone)]
pub(super) struct OneServer {
    link: Arc<Link>,
    turn: usize,
}

/// Does `$work` on the connection of `$lane`, and drops that after an error.
macro_rules! on {
    ($server:expr, $lane:expr, |$connected:ident| $work:expr) => {{
        let mut held = $server.link.take($lane).await?;
        let $connected = held.get()?;
        let done = $work.await;
        held.done(&done, |_| false);
        done
    }};
}

impl OneServer {
    pub(super) fn new(config: Config, part: Part) -> Self {
        let turn = usize::try_from(part.server).unwrap_or(0);
        Self { link: Arc::new(Link::new(config, part)), turn }
    }

    pub(super) async fn claim(&self, counter: &str) -> Result<Vec<(Claim, Place)>, StoreError> {
        on!(self, Lane::Manage, |connected| claims::claim(connected, counter, self.turn))
    }

    pub(super) async fn release(&self, counter: &str) -> Result<(), StoreError> {
        on!(self, Lane::Manage, |connected| claims::release(connected, counter))
    }

    pub(super) async fn place(&self, partition: Partition) -> Result<Place, StoreError> {
        on!(self, Lane::Count(partition), |connected| claims::stands(connected, partition))
    }

    /// In a task of its own: a transaction that is called off half way leaves a connection in a
    /// state that nobody knows.
    pub(super) async fn count(&self, step: Step) -> Result<Counted, CountError> {
        let this = self.clone();
        let counting = tokio::spawn(async move {
            let mut held = this.link.take(Lane::Count(step.claim.partition)).await?;
            let done = writing::count(held.get()?, &step).await;
            held.done(&done, |error| !matches!(error, CountError::Store(_)));
            done
        });
        let ended = counting.await;
        ended.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string()).into()))
    }

    pub(super) async fn sweep(
        &self,
        at: SweepAt,
        now_us: i64,
        rows_max: usize,
    ) -> Result<Swept, StoreError> {
        on!(self, Lane::Count(at.partition), |connected| {
            writing::sweep(connected, at, now_us, rows_max)
        })
    }

    pub(super) async fn hot_ads(&self) -> Result<HotAds, StoreError> {
        let rows = on!(self, Lane::Manage, |connected| async {
            let sql = "SELECT ad, from_ms, until_ms FROM hot_ads";
            connected.client.query(sql, &[]).await.map_err(failed)
        })?;
        let hot = |row: &tokio_postgres::Row| {
            let ad = AdSerial(reading::serial(row, 0));
            HotAd { ad, from_ms: row.get(1), until_ms: row.get(2) }
        };
        Ok(HotAds::new(rows.iter().map(hot).collect()))
    }

    pub(super) async fn put_hot_ad(
        &self,
        hot: HotAd,
        ended_before_ms: i64,
    ) -> Result<(), StoreError> {
        on!(self, Lane::Manage, |connected| async {
            let sql = "WITH gone AS (DELETE FROM hot_ads WHERE until_ms < $4)
                        INSERT INTO hot_ads VALUES ($1, $2, $3)
                        ON CONFLICT (ad, from_ms) DO UPDATE SET until_ms = excluded.until_ms";
            let ad = i64::from(hot.ad.0);
            let row: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&ad, &hot.from_ms, &hot.until_ms, &ended_before_ms];
            connected.client.execute(sql, &row).await.map(drop).map_err(failed)
        })
    }

    pub(super) async fn minutes(&self, query: &MinuteQuery) -> Result<Vec<MinuteRow>, StoreError> {
        on!(self, Lane::Read, |connected| reading::minutes(connected, query))
    }

    pub(super) async fn pairs(
        &self,
        account: AccountSerial,
        from_min: i64,
        until_min: i64,
    ) -> Result<Vec<PairRow>, StoreError> {
        on!(self, Lane::Read, |connected| {
            reading::pairs(connected, account, from_min, until_min)
        })
    }

    pub(super) async fn promised_us(&self) -> Result<i64, StoreError> {
        on!(self, Lane::Read, |connected| reading::promised_us(connected))
    }
}
