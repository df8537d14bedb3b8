//! Whether a visitor may see an ad once more.

use crate::index::{CampaignRow, Entry};
use crate::model::{CapLevel, Profile};

/// Whether one more showing of `entry` holds under every cap of its campaign, and can be
/// recorded where some cap may ask for it later.
pub(super) fn fits(row: &CampaignRow, entry: &Entry, profile: &Profile, now_us: i64) -> bool {
    let campaign = &row.campaign;
    if row.exposure_life_us > 0 && !profile.has_room(&campaign.advertiser, now_us) {
        return false;
    }
    campaign.caps.iter().all(|cap| {
        let seen = profile.count(&campaign.advertiser, cap.window_us, now_us, |exposure| match cap
            .level
        {
            CapLevel::Ad => exposure.ad == entry.ad.serial,
            CapLevel::Campaign => exposure.campaign == entry.campaign,
            CapLevel::Advertiser => true,
        });
        seen < cap.impressions_max as usize
    })
}
