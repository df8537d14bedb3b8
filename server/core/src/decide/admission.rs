//! Whether a visitor may see an ad once more.

use crate::index::Entry;
use crate::model::{Campaign, CapLevel, Profile};

/// Whether one more showing of `entry` holds under every cap of its campaign. That it can be
/// recorded is for [`Profile::record`] to say.
pub(super) fn fits(campaign: &Campaign, entry: &Entry, profile: &Profile, now_us: i64) -> bool {
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
