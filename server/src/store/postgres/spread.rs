//! Several servers as one: partition p lies on server p mod n, and reads are joined. One server
//! is the same with n = 1.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use slotwise_core::model::AccountSerial;
use tokio_postgres::Config;

use super::counts::OneServer;
use super::link::Part;
use crate::events::{HotAd, HotAds, PARTITIONS, Partition};
use crate::ports::{
    Claim, CountError, CountReader, CountStore, Counted, Counts, MinuteQuery, MinuteRow, PairRow,
    Place, Step, StoreError, SweepAt, Swept,
};

/// Counts on PostgreSQL.
pub struct PostgresCounts {
    first: OneServer,
    others: Vec<OneServer>,
}

impl PostgresCounts {
    /// On these servers, which are connected to when something is asked of them. Their number and
    /// order must stay: each remembers which it is, and refuses to be another.
    ///
    /// # Errors
    /// [`StoreError::Full`]: there is none, or there are more than partitions.
    pub fn new(servers: Vec<Config>) -> Result<Self, StoreError> {
        let count = servers.len();
        if count == 0 || count > usize::from(PARTITIONS) {
            return Err(StoreError::Full("the counts take from one server to one a partition"));
        }
        let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let mut servers = servers.into_iter().enumerate().map(|(at, config)| {
            OneServer::new(config, Part { server: number(at), servers: number(count) })
        });
        let first = servers.next().ok_or(StoreError::Full("no server"))?;
        Ok(Self { first, others: servers.collect() })
    }

    fn all(&self) -> impl Iterator<Item = &OneServer> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn of(&self, partition: Partition) -> &OneServer {
        match usize::from(partition.0) % (1 + self.others.len()) {
            0 => &self.first,
            at => &self.others[at - 1],
        }
    }
}

#[async_trait]
impl CountStore for PostgresCounts {
    async fn claim(&self, counter: &str, _: i64) -> Result<Vec<(Claim, Place)>, StoreError> {
        let claims = join_all(self.all().map(|server| server.claim(counter))).await;
        // What lies on a server that is there is counted.
        if claims.iter().any(Result::is_ok) {
            for error in claims.iter().filter_map(|claim| claim.as_ref().err()) {
                tracing::warn!(%error, "one of the servers of the counts is away");
            }
            return Ok(claims.into_iter().flatten().flatten().collect());
        }
        claims.into_iter().next().unwrap_or(Ok(Vec::new()))
    }

    async fn release(&self, counter: &str) -> Result<(), StoreError> {
        join_all(self.all().map(|server| server.release(counter))).await.into_iter().collect()
    }

    async fn place(&self, partition: Partition) -> Result<Place, StoreError> {
        self.of(partition).place(partition).await
    }

    async fn count(&self, step: Step) -> Result<Counted, CountError> {
        self.of(step.claim.partition).count(step).await
    }

    async fn sweep(&self, at: SweepAt, now_us: i64, rows_max: usize) -> Result<Swept, StoreError> {
        self.of(at.partition).sweep(at, now_us, rows_max).await
    }

    async fn hot_ads(&self) -> Result<HotAds, StoreError> {
        self.first.hot_ads().await
    }

    async fn put_hot_ad(&self, hot: HotAd, ended_before_ms: i64) -> Result<(), StoreError> {
        self.first.put_hot_ad(hot, ended_before_ms).await
    }
}

#[async_trait]
impl CountReader for PostgresCounts {
    async fn minutes(&self, query: &MinuteQuery) -> Result<Vec<MinuteRow>, StoreError> {
        let parts = try_join_all(self.all().map(|server| server.minutes(query))).await?;
        let sums = parts.into_iter().flatten();
        Ok(MinuteRow::joined(
            sums.flat_map(|row| [(row.minute, false, row.counts), (row.minute, true, row.late)]),
        ))
    }

    async fn pairs(
        &self,
        account: AccountSerial,
        from_min: i64,
        until_min: i64,
    ) -> Result<Vec<PairRow>, StoreError> {
        let parts = self.all().map(|server| server.pairs(account, from_min, until_min));
        let mut joined = BTreeMap::<_, Counts>::new();
        for pair in try_join_all(parts).await?.into_iter().flatten() {
            let sum = joined.entry((pair.zone, pair.ad)).or_default();
            *sum = sum.plus(pair.counts);
        }
        Ok(joined.into_iter().map(|((zone, ad), counts)| PairRow { zone, ad, counts }).collect())
    }

    async fn promised_us(&self) -> Result<i64, StoreError> {
        let promises = try_join_all(self.all().map(OneServer::promised_us)).await?;
        Ok(promises.into_iter().min().unwrap_or(i64::MIN))
    }
}
