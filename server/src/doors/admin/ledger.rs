//! What the calls on counts and events share.

use std::sync::Arc;

use slotwise_core::index::Key;
use slotwise_core::model::AccountSerial;
use slotwise_proto::v1::Account;
use slotwise_proto::v1::catalog_record::Record;
use tokio::sync::Semaphore;

use super::Admin;
use crate::catalog::{CatalogError, record_from};
use crate::doors::refusal::Refusal;
use crate::events::Recorder;
use crate::limits::{REPLAYS_MAX, REPORTS_AT_ONCE_MAX, WATCHERS_MAX};
use crate::ports::CountReader;
use crate::serials::Serials;

/// What was counted, under which names, and where events go.
pub struct Ledger {
    /// What was counted.
    pub counts: Arc<dyn CountReader>,
    /// The names of what was counted.
    pub serials: Arc<Serials>,
    /// Where replayed events go.
    pub recorder: Arc<dyn Recorder>,
    pub(super) reporting: Semaphore,
    pub(super) watching: Arc<Semaphore>,
    pub(super) replaying: Semaphore,
}

impl Ledger {
    /// With nothing going on.
    pub fn new(
        counts: Arc<dyn CountReader>,
        serials: Arc<Serials>,
        recorder: Arc<dyn Recorder>,
    ) -> Self {
        let (reporting, watching) =
            (Semaphore::new(REPORTS_AT_ONCE_MAX), Semaphore::new(WATCHERS_MAX));
        let (watching, replaying) = (Arc::new(watching), Semaphore::new(REPLAYS_MAX));
        Self { counts, serials, recorder, reporting, watching, replaying }
    }
}

impl Admin {
    /// An account as the store has it: a change that is not served yet counts.
    pub(super) async fn account(
        &self,
        account_id: &str,
    ) -> Result<(AccountSerial, Account), Refusal> {
        if account_id.is_empty() {
            return Err(Refusal::invalid("account_id", "is missing"));
        }
        let key = Key::Account(account_id.into());
        let (_, rows) = self.catalog.store().get(std::slice::from_ref(&key)).await?;
        let not_found = || CatalogError::NotFound { kind: "account", id: account_id.to_owned() };
        let row = rows.first().ok_or_else(not_found)?;
        match record_from(row) {
            Ok(Record::Account(account)) if row.serial > 0 => {
                Ok((AccountSerial(row.serial), account))
            }
            _ => Err(Refusal::unavailable(format!("account {account_id} is damaged in the store"))),
        }
    }
}
