//! The audit log in Redis: records by version and line, listed by change and by object.

use prost::Message;
use redis::Cmd;
use slotwise_proto::v1::{CatalogChange, ChangeRecord};

use super::catalog::RedisCatalog;
use super::keys::{array, bytes};
use crate::ports::{AuditPage, AuditQuery, CatalogStore, StoreError};

/// Beyond this, versions are not exact in a sorted set; no catalogue gets there.
const VERSION_MAX: u64 = 1 << 53;

impl RedisCatalog {
    /// See [`CatalogStore::changes`].
    pub(super) async fn changes_after(
        &self,
        version: u64,
        limit: usize,
    ) -> Result<Vec<CatalogChange>, StoreError> {
        if version >= VERSION_MAX || version >= self.head().await?.version {
            return Ok(Vec::new());
        }
        let members = self.changes_between(&format!("({version}"), "+inf", limit, false).await?;
        let versions: Vec<u64> = members.iter().filter_map(|member| version_of(member)).collect();
        match versions.first() {
            Some(first) if *first == version + 1 => {}
            Some(oldest) => return Err(StoreError::Gap { oldest: *oldest }),
            None => return Ok(Vec::new()),
        }
        let places: Vec<_> = versions.into_iter().map(|version| (version, 0)).collect();
        let records = self.records(&places).await?;
        Ok(records.into_iter().filter_map(|(_, record)| record.change).collect())
    }

    /// See [`CatalogStore::audit`].
    pub(super) async fn audit_page(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        let (version, line) = query.before.unwrap_or((VERSION_MAX, 0));
        let version = version.min(VERSION_MAX);
        let limit = query.limit + 1;
        let mut places: Vec<(u64, u64)> = if query.id.is_empty() {
            // Line 0 of the version itself comes before its other lines.
            let to = if line > 0 { version.to_string() } else { format!("({version}") };
            let members = self.changes_between("-inf", &to, limit, true).await?;
            members.iter().filter_map(|member| Some((version_of(member)?, 0))).collect()
        } else {
            let from = [b"[", query.id.as_bytes(), b"\0"].concat();
            let place = format!("{version:016}.{line:08}");
            let to = [b"(", query.id.as_bytes(), b"\0", place.as_bytes()].concat();
            let mut ask = redis::cmd("ZREVRANGEBYLEX");
            ask.arg(self.keys.one("lines")).arg(to).arg(from).arg("LIMIT").arg(0).arg(limit);
            self.members(&ask).await?.iter().filter_map(|member| place_of(member)).collect()
        };
        let is_cut = places.len() > query.limit;
        places.truncate(query.limit);
        let next_before = places.last().filter(|_| is_cut).copied();
        let records = self.records(&places).await?;
        Ok(AuditPage { records: records.into_iter().map(|(_, r)| r).collect(), next_before })
    }

    async fn changes_between(
        &self,
        from: &str,
        to: &str,
        limit: usize,
        is_newest_first: bool,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut ask =
            redis::cmd(if is_newest_first { "ZREVRANGEBYSCORE" } else { "ZRANGEBYSCORE" });
        ask.arg(self.keys.one("changes"));
        let (first, last) = if is_newest_first { (to, from) } else { (from, to) };
        self.members(ask.arg(first).arg(last).arg("LIMIT").arg(0).arg(limit)).await
    }

    async fn members(&self, ask: &Cmd) -> Result<Vec<Vec<u8>>, StoreError> {
        let reply = self.call(ask).await?;
        array(&reply)?.iter().map(|member| Ok(bytes(member)?.to_vec())).collect()
    }

    /// The records at these places; what is not kept, or is damaged, is left out.
    async fn records(
        &self,
        places: &[(u64, u64)],
    ) -> Result<Vec<((u64, u64), ChangeRecord)>, StoreError> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let mut ask = redis::cmd("HMGET");
        ask.arg(self.keys.one("log"));
        for (version, line) in places {
            ask.arg(format!("{version}.{line}"));
        }
        let reply = self.call(&ask).await?;
        let mut records = Vec::with_capacity(places.len());
        for (place, value) in places.iter().zip(array(&reply)?) {
            if let Ok(record) = ChangeRecord::decode(bytes(value)?)
                && record.change.is_some()
            {
                records.push((*place, record));
            }
        }
        Ok(records)
    }
}

/// The version in a member of the changes: `<version> <mark> <id>`.
fn version_of(member: &[u8]) -> Option<u64> {
    std::str::from_utf8(member).ok()?.split(' ').next()?.parse().ok()
}

/// The place in a member of the lines: `<id>\0<version>.<line>`.
fn place_of(member: &[u8]) -> Option<(u64, u64)> {
    let (_, place) = std::str::from_utf8(member).ok()?.rsplit_once('\0')?;
    let (version, line) = place.split_once('.')?;
    Some((version.parse().ok()?, line.parse().ok()?))
}
