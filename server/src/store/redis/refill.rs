//! A store that came back empty: who fills it, and with what.

use redis::Cmd;
use slotwise_core::index::Key;
use slotwise_proto::v1::CatalogChange;

use super::catalog::RedisCatalog;
use super::commit::{Outcome, fresh_mark, record};
use super::keys::{array, name_of, number, strange, value_of};
use super::scripts;
use super::stage::{Flip, Stage};
use crate::limits::{
    REDIS_PART_ROWS, REDIS_STAGE_LIFE, REFILL_ACCOUNTS_JUMP, REFILL_OFFER_LIFE_US,
    REFILL_SERIALS_JUMP, REFILL_VERSIONS_JUMP, REFILL_WAIT_US,
};
use crate::ports::{AuditRow, Image, StoreError};

impl RedisCatalog {
    /// Offers this node's catalogue of `version`; true where it is the newest of those that were
    /// offered, and others had the time to offer theirs.
    pub(super) async fn offer(&self, node: &str, version: u64) -> Result<bool, StoreError> {
        let arguments = |command: &mut Cmd| {
            command
                .arg(node)
                .arg(version)
                .arg(REFILL_WAIT_US)
                .arg(REFILL_OFFER_LIFE_US)
                .arg(5 * REFILL_OFFER_LIFE_US / 1_000);
        };
        let chosen = self.run(scripts::offer(), ["head", "offers"], arguments).await?;
        Ok(number(&chosen)? == 1)
    }

    /// Fills the store with `image`, if nobody has: under a version above all that nodes may
    /// have seen, and with serials above all that may have been given.
    pub(super) async fn restore(&self, node: &str, image: Image) -> Result<(), StoreError> {
        let stage = Stage::new()?;
        let rows = stage.rows();
        let names = ["head", "ids", "owned", rows.as_str()];
        for part in image.rows.chunks(REDIS_PART_ROWS) {
            let arguments = |command: &mut Cmd| {
                command.arg(REDIS_STAGE_LIFE.as_secs() * 1_000);
                for (row, owner) in part {
                    command.arg(name_of(&row.key)).arg(owner).arg(value_of(row, owner));
                }
            };
            let is_empty = self.run(scripts::restore(), names, arguments).await?;
            if number(&is_empty)? == 0 {
                return Ok(());
            }
        }
        let version = image.head.version + REFILL_VERSIONS_JUMP;
        let at_us = self.redis_time_us().await?;
        let line = AuditRow {
            change: CatalogChange {
                kind: "import".to_owned(),
                summary: format!("refilled from version {} of a node", image.head.version),
                actor: node.to_owned(),
                ..CatalogChange::default()
            },
            before: None,
            after: None,
        };
        let ads = image.rows.iter().filter(|(row, _)| matches!(row.key, Key::Ad(..))).count();
        let flip = Flip {
            base: 0,
            version,
            ads: i64::try_from(ads).unwrap_or(i64::MAX),
            forced: true,
            mark: fresh_mark()?,
            at_us,
            rows: i64::try_from(image.rows.len()).unwrap_or(i64::MAX),
            lines: 0,
            line: (String::new(), record(&line, version, at_us)),
        };
        let more = |command: &mut Cmd| {
            let [accounts, others @ ..] = image.head.serials;
            command.arg(accounts.saturating_add(REFILL_ACCOUNTS_JUMP));
            for serial in others {
                command.arg(serial.saturating_add(REFILL_SERIALS_JUMP));
            }
            for (name, secret) in &image.secrets {
                command.arg(name).arg(&secret[..]);
            }
        };
        match self.flip(&stage, flip, more).await {
            Ok(Outcome::Done(_)) => {
                tracing::warn!(version, ads, "redis came back empty, and was filled by this node");
                self.hear(version);
                Ok(())
            }
            // Somebody else was first.
            Ok(Outcome::Fold) | Err(StoreError::Conflict { .. }) => {
                self.drop_stage(&stage).await;
                Ok(())
            }
            Err(error) => {
                self.drop_stage(&stage).await;
                Err(error)
            }
        }
    }

    async fn redis_time_us(&self) -> Result<i64, StoreError> {
        let time = self.call(&redis::cmd("TIME")).await?;
        let parts = array(&time)?;
        let [seconds, micros] = parts else { return Err(strange(&time)) };
        Ok(number(seconds)? * 1_000_000 + number(micros)?)
    }
}
