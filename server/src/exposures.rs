//! What a decision holds until its impression, settled when the impression or the loss comes.

use std::sync::Arc;

use async_trait::async_trait;
use slotwise_core::index::Index;
use slotwise_core::model::{AdvertiserId, Exposure};

use crate::events::Settling;
use crate::ports::{ProfileStore, VisitorKey};
use crate::serials::Serials;
use crate::telemetry::{Counters, Metric};
use crate::tokens::Showing;

/// Turns events into what the visitor's profile knows.
pub struct Exposures {
    /// Whose campaigns say for how long an exposure counts.
    pub index: Arc<Index>,
    /// Which campaign an ad is of.
    pub serials: Arc<Serials>,
    /// What visitors have seen.
    pub profiles: Arc<dyn ProfileStore>,
    /// What is counted.
    pub counters: Arc<Counters>,
}

impl Exposures {
    /// Whose list `showing` belongs in, and as what. Nothing where there is nothing to settle, and
    /// where the ad or its campaign is gone: no cap asks for it any more.
    fn of(&self, showing: &Showing) -> Option<(VisitorKey, AdvertiserId, Exposure)> {
        let visitor = showing.visitor.filter(|_| showing.on_impression)?;
        let ad = self.serials.ad(showing.ad)?;
        let campaign = self.index.campaign_serial(&ad.campaign)?;
        let campaigns = self.index.campaigns();
        // Also of a campaign that was switched off here: what was seen of it was seen.
        let row = campaigns.table().get(campaign)?;
        let exposure = Exposure {
            // When it was decided, as its place was held from then on.
            at_us: showing.issued_at_ms.saturating_mul(1_000),
            life_us: row.exposure_life_us,
            is_held: false,
            decision: showing.decision,
            zone: showing.zone,
            campaign,
            ad: showing.ad,
        };
        let visitor = VisitorKey { account: showing.account, visitor };
        Some((visitor, row.campaign.advertiser.clone(), exposure))
    }

    fn failed(&self, error: &crate::ports::StoreError) {
        tracing::debug!(%error, "an exposure could not be settled");
        self.counters.add(Metric::ExposuresUnsettled, 1);
    }
}

#[async_trait]
impl Settling for Exposures {
    async fn seen(&self, showing: &Showing, now_us: i64) {
        let Some((visitor, advertiser, exposure)) = self.of(showing) else { return };
        if now_us.saturating_sub(exposure.at_us) >= exposure.life_us {
            return;
        }
        let confirmed = self.profiles.confirm(visitor, &advertiser, exposure, now_us).await;
        if let Err(error) = confirmed {
            self.failed(&error);
        }
    }

    async fn lost(&self, showing: &Showing, now_us: i64) {
        let Some((visitor, advertiser, exposure)) = self.of(showing) else { return };
        if let Err(error) = self.profiles.release(visitor, &advertiser, exposure, now_us).await {
            self.failed(&error);
        }
    }
}
