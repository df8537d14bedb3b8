//! What changes: objects by their keys, and what became of them.

use crate::model::{
    Account, AccountId, Ad, AdUnitId, Campaign, CampaignId, Site, SiteId, Zone, ZoneId,
};

/// Names one object of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// An account.
    Account(AccountId),
    /// A site.
    Site(SiteId),
    /// A zone of a site.
    Zone(SiteId, ZoneId),
    /// A campaign.
    Campaign(CampaignId),
    /// An ad of a campaign.
    Ad(CampaignId, AdUnitId),
}

impl Key {
    /// The kind of object, as the contract spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Account(_) => "account",
            Self::Site(_) => "site",
            Self::Zone(..) => "zone",
            Self::Campaign(_) => "campaign",
            Self::Ad(..) => "ad",
        }
    }

    /// What the object's id is unique in (a zone's site, an ad's campaign; else empty), and the
    /// id itself.
    pub fn parts(&self) -> (&str, &str) {
        match self {
            Self::Account(id) => ("", id.as_str()),
            Self::Site(id) => ("", id.as_str()),
            Self::Zone(site, id) => (site.as_str(), id.as_str()),
            Self::Campaign(id) => ("", id.as_str()),
            Self::Ad(campaign, id) => (campaign.as_str(), id.as_str()),
        }
    }
}

/// The id as people write it: `site/zone`, `campaign/ad`.
impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.parts() {
            ("", id) => f.write_str(id),
            (parent, id) => write!(f, "{parent}/{id}"),
        }
    }
}

/// One change of the catalogue: an object as it is now, or that it is gone.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new or changed account.
    Account(Account),
    /// A new or changed site.
    Site(Site),
    /// A new or changed zone.
    Zone(Zone),
    /// A new or changed campaign.
    Campaign(Campaign),
    /// A new or changed ad.
    Ad(Ad),
    /// The object is no more.
    Removed(Key),
}

impl Change {
    /// Objects come after what they name, removals last and in the other direction.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Account(_) => 0,
            Self::Site(_) => 1,
            Self::Zone(_) => 2,
            Self::Campaign(_) => 3,
            Self::Ad(_) => 4,
            Self::Removed(Key::Ad(..)) => 5,
            Self::Removed(Key::Campaign(_)) => 6,
            Self::Removed(Key::Zone(..)) => 7,
            Self::Removed(Key::Site(_)) => 8,
            Self::Removed(Key::Account(_)) => 9,
        }
    }
}

/// An object that names what is not there, and is therefore not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Which.
    pub key: Key,
    /// Why, in words.
    pub why: String,
}
