//! Where a click leads: what the catalogue holds for its ad, and nothing that the request says.

use std::sync::Arc;

use slotwise_core::model::AdSerial;

use crate::catalog::{change_of, record_from};
use crate::limits::LANDING_WAIT_MAX;
use crate::ports::{CatalogStore, Serial, StoreError};
use crate::serials::{NamedAd, Serials};

/// Stands in a landing URL for the click's own token.
const CLICK_TOKEN: &str = "{click_token}";

/// Ads by serial: as this node knows them, else as the store does.
pub struct Landings {
    serials: Arc<Serials>,
    store: Arc<dyn CatalogStore>,
}

impl Landings {
    /// Asks `store` for what `serials` does not know.
    pub fn new(serials: Arc<Serials>, store: Arc<dyn CatalogStore>) -> Self {
        Self { serials, store }
    }

    /// Where a click on `ad` by `token` leads; nothing where nobody knows such an ad.
    ///
    /// # Errors
    /// When this node does not know it, and the store does not answer in time.
    pub(super) async fn of(&self, ad: AdSerial, token: &str) -> Result<Option<String>, StoreError> {
        let known = match self.serials.ad(ad) {
            Some(known) => Some(known),
            None => self.ask(ad).await?,
        };
        Ok(known.map(|ad| ad.landing_url.replace(CLICK_TOKEN, token)))
    }

    /// The ad may be so new that this node has not heard of it, or have been deleted before this
    /// process began.
    async fn ask(&self, ad: AdSerial) -> Result<Option<Arc<NamedAd>>, StoreError> {
        let asked = self.store.by_serial(Serial::Ad(ad));
        let row = tokio::time::timeout(LANDING_WAIT_MAX, asked)
            .await
            .map_err(|_| StoreError::Unavailable("it did not name an ad in time".to_owned()))??;
        // What would not be served does not lead anywhere either.
        let sound = row.filter(|row| change_of(row).is_ok());
        let Some((serial, record)) =
            sound.and_then(|row| Some((row.serial, record_from(&row).ok()?)))
        else {
            return Ok(None);
        };
        self.serials.put(serial, record);
        Ok(self.serials.ad(ad))
    }
}
