//! All ads of one campaign.

use slotwise_core::index::Key;

use crate::ports::{CatalogStore, ListQuery, Row, StoreError};

/// Ads that are read at once.
const PAGE: usize = 1_000;

/// Every ad of `campaign`, in order of their ids.
pub(super) async fn ads_of(
    store: &dyn CatalogStore,
    campaign: &str,
) -> Result<Vec<Row>, StoreError> {
    let mut ads: Vec<Row> = Vec::new();
    loop {
        let first = || Key::Ad(campaign.into(), "".into());
        let query = ListQuery {
            after: ads.last().map_or_else(first, |last| last.key.clone()),
            owner: String::new(),
            id_prefix: String::new(),
            limit: PAGE,
        };
        let page = store.list(&query).await?;
        let is_last = page.len() < PAGE;
        ads.extend(page);
        if is_last {
            return Ok(ads);
        }
    }
}
