//! What a node knows by serial, filled by hand from what it serves.

use slotwise_server::serials::NamedAd;
use slotwise_server::testing::Server;

/// Every ad that `server` serves, with this markup and landing URL.
pub fn fill(server: &Server, landing_url: &str, markup: &str) {
    for block in server.app().admin.index.blocks() {
        for entry in &block.entries {
            server.app().showings.serials.put_ad(NamedAd {
                serial: entry.ad.serial,
                campaign: entry.ad.campaign.clone(),
                unit: entry.ad.unit.clone(),
                landing_url: landing_url.into(),
                markup: markup.into(),
            });
        }
    }
}
