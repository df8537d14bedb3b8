//! Whether a visitor may see an ad once more.

use crate::index::Entry;
use crate::model::{Campaign, Cap, CapLevel, Exposure, Profile};

/// Whether one more showing of `entry` holds under every cap of its campaign. That it can be
/// recorded is for [`Profile::record`] to say.
pub(super) fn fits(campaign: &Campaign, entry: &Entry, profile: &Profile, now_us: i64) -> bool {
    reached(campaign, entry, profile, now_us).is_none()
}

/// The first cap of the campaign that is reached.
pub(super) fn reached(
    campaign: &Campaign,
    entry: &Entry,
    profile: &Profile,
    now_us: i64,
) -> Option<Cap> {
    reached_by(campaign, entry, profile, now_us, |_| true)
}

/// The same where only the exposures that `is_seen` names were shown.
pub(super) fn reached_by(
    campaign: &Campaign,
    entry: &Entry,
    profile: &Profile,
    now_us: i64,
    is_seen: impl Fn(&Exposure) -> bool,
) -> Option<Cap> {
    let list = profile.list(&campaign.advertiser);
    let is_reached = |cap: &&Cap| {
        let counted = list.iter().filter(|seen| {
            seen.is_within(cap.window_us, now_us) && counts(**cap, entry, seen) && is_seen(seen)
        });
        counted.count() >= cap.impressions_max as usize
    };
    campaign.caps.iter().find(is_reached).copied()
}

/// What a person should know of a cap that is reached: what it counts now, and when it counts less
/// than it allows, in microseconds of Unix time.
pub(super) fn told(
    cap: Cap,
    campaign: &Campaign,
    entry: &Entry,
    profile: &Profile,
    now_us: i64,
) -> (usize, i64) {
    let list = profile.list(&campaign.advertiser);
    let mut counted: Vec<i64> = list
        .iter()
        .filter(|seen| seen.is_within(cap.window_us, now_us))
        .filter(|seen| counts(cap, entry, seen))
        .map(|seen| seen.at_us.saturating_add(seen.counts_us(cap.window_us)))
        .collect();
    counted.sort_unstable();
    // The one that has to leave the window before there is room again.
    let leaves = counted.len().checked_sub(cap.impressions_max as usize);
    let none_us = now_us.saturating_add(cap.window_us);
    (counted.len(), leaves.and_then(|at| counted.get(at)).copied().unwrap_or(none_us))
}

fn counts(cap: Cap, entry: &Entry, exposure: &Exposure) -> bool {
    match cap.level {
        CapLevel::Ad => exposure.ad == entry.serial,
        CapLevel::Campaign => exposure.campaign == entry.campaign,
        CapLevel::Advertiser => true,
    }
}
