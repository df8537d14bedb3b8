//! The words of the catalogue and of a visitor's history, as the decision needs them: checked,
//! normalised, and without what only people read.

mod blocks;
mod context;
mod expression;
mod ids;
mod keywords;
mod objects;
mod profile;
mod targeting;

pub use blocks::Blocks;
pub use context::{Context, Country, DeviceType, Names, Values, is_language, is_region};
pub use expression::{EXPRESSION_NESTING_MAX, Expression, SyntaxError};
pub use ids::{
    AccountId, AccountSerial, AdSerial, AdUnitId, AdvertiserId, CampaignId, CampaignSerial, SiteId,
    ZoneId, ZoneSerial,
};
pub use keywords::{KEYWORDS_USED_MAX, Keywords, normalise_keyword};
pub use objects::{
    Account, Ad, Campaign, Cap, CapLevel, Flight, Placement, Price, Site, Size, Status, Zone,
    ZonePrice,
};
pub use profile::{
    ADVERTISERS_IN_PROFILE_MAX, EXPOSURES_PER_ADVERTISER_MAX, Exposure, ListFull, Profile,
    SEGMENTS_IN_PROFILE_MAX, Segment, SegmentsFull,
};
pub use targeting::{Clause, HOURS_OF_WEEK, Segmented, Targeting};
