//! The catalogue's objects: every value here has been checked, and holds as it stands.

use super::{
    AccountId, AccountSerial, AdSerial, AdUnitId, AdvertiserId, CampaignId, CampaignSerial,
    Keywords, SiteId, ZoneId, ZoneSerial,
};

/// One tenant.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its number.
    pub serial: AccountSerial,
    /// Its id.
    pub id: AccountId,
}

/// What a site or a request will not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Advertisers, whole.
    pub advertisers: Vec<String>,
    /// IAB categories: "IAB2" blocks "IAB2-1" too.
    pub categories: Vec<String>,
    /// Advertisers' domains: "example.com" blocks "shop.example.com" too.
    pub domains: Vec<String>,
}

impl Blocks {
    /// Whether the advertiser is blocked.
    pub fn advertiser(&self, advertiser: &AdvertiserId) -> bool {
        self.advertisers.iter().any(|blocked| blocked == advertiser.as_str())
    }

    /// Whether any of `categories` is blocked, itself or by what stands before its hyphen.
    pub fn any_category(&self, categories: &[String]) -> bool {
        let blocks = |blocked: &str, category: &str| {
            category.get(..blocked.len()).is_some_and(|head| head.eq_ignore_ascii_case(blocked))
                && matches!(category.as_bytes().get(blocked.len()), None | Some(b'-'))
        };
        self.categories.iter().any(|blocked| categories.iter().any(|c| blocks(blocked, c)))
    }

    /// Whether any of `domains` is blocked, itself or by a domain that it lies under.
    pub fn any_domain(&self, domains: &[String]) -> bool {
        let blocks = |blocked: &str, domain: &str| {
            let Some(rest) = domain.len().checked_sub(blocked.len()) else { return false };
            domain.get(rest..).is_some_and(|tail| tail.eq_ignore_ascii_case(blocked))
                && (rest == 0 || domain.as_bytes().get(rest - 1) == Some(&b'.'))
        };
        self.domains.iter().any(|blocked| domains.iter().any(|d| blocks(blocked, d)))
    }
}

/// A site of an account.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its id.
    pub id: SiteId,
    /// Whose it is.
    pub account: AccountId,
    /// What it will not show.
    pub blocks: Blocks,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
}

/// A slot on a site.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its number.
    pub serial: ZoneSerial,
    /// The site it is on.
    pub site: SiteId,
    /// Its name there.
    pub id: ZoneId,
    /// The sizes that fit; empty: any.
    pub sizes: Box<[Size]>,
    /// Micros of the account's currency per 1,000 impressions.
    pub floor_ecpm_micros: i64,
}

/// Whether a campaign is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It may serve.
    Active,
    /// It must not.
    Paused,
}

/// When a campaign serves: [start, end), in microseconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The first instant; `i64::MIN` when open.
    pub start_us: i64,
    /// The first instant that it is over; `i64::MAX` when open.
    pub end_us: i64,
}

impl Flight {
    /// From ever to ever.
    pub const OPEN: Self = Self { start_us: i64::MIN, end_us: i64::MAX };
}

/// Whose exposures a cap counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapLevel {
    /// Those of the ad alone.
    Ad,
    /// Those of the campaign.
    Campaign,
    /// Those of everything the advertiser has in the account.
    Advertiser,
}

/// At most so many exposures of one visitor within a rolling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// What it counts.
    pub level: CapLevel,
    /// At least 1, at most [`super::EXPOSURES_PER_ADVERTISER_MAX`].
    pub impressions_max: u32,
    /// An exposure counts while its age is below this.
    pub window_us: i64,
}

/// A campaign, as the decision needs it.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Its number.
    pub serial: CampaignSerial,
    /// Its id.
    pub id: CampaignId,
    /// Whose it is.
    pub account: AccountId,
    /// The advertiser in its id.
    pub advertiser: AdvertiserId,
    /// The operators' switch.
    pub status: Status,
    /// When it serves.
    pub flight: Flight,
    /// Higher tiers are exhausted first.
    pub tier: i32,
    /// All must hold.
    pub caps: Box<[Cap]>,
    /// Its caps hold across all nodes, whatever that costs.
    pub strict_caps: bool,
    /// Never shown to an unknown visitor.
    pub requires_user: bool,
    /// Whether it has a daily or total budget.
    pub has_budget: bool,
    /// Whether it has a targeting clause.
    pub has_targeting: bool,
    /// Micros of the account's currency per 1,000 impressions, where it is priced so.
    pub thousand_impressions_micros: Option<i64>,
    /// IAB content categories.
    pub categories: Vec<String>,
    /// The advertiser's domains.
    pub advertiser_domains: Vec<String>,
}

impl Campaign {
    /// Whether only the store itself can say that one more showing fits.
    pub fn asks_the_store(&self) -> bool {
        self.strict_caps && !self.caps.is_empty()
    }

    /// The longest window of its own caps; 0 without caps.
    pub fn cap_window_us(&self) -> i64 {
        self.caps.iter().map(|cap| cap.window_us).max().unwrap_or(0)
    }

    /// The longest window of its caps that count the whole advertiser; 0 without one.
    pub fn advertiser_cap_window_us(&self) -> i64 {
        let counts_advertiser = |cap: &&Cap| cap.level == CapLevel::Advertiser;
        self.caps.iter().filter(counts_advertiser).map(|cap| cap.window_us).max().unwrap_or(0)
    }
}

/// Where an ad may serve, and what it is ranked by there.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The zone's site.
    pub site: SiteId,
    /// The zone.
    pub zone: ZoneId,
    /// Micros per 1,000 impressions; absent: the campaign's price per thousand.
    pub ecpm_micros: Option<i64>,
}

/// An ad, as the decision needs it.
#[derive(Clone, Debug)]
pub struct Ad {
    /// Its number.
    pub serial: AdSerial,
    /// Its campaign.
    pub campaign: CampaignId,
    /// Its name there.
    pub unit: AdUnitId,
    /// Where it may serve; no zone twice.
    pub placements: Box<[Placement]>,
    /// What it matches.
    pub keywords: Keywords,
    /// What it must not stand beside.
    pub excluded_keywords: Keywords,
    /// Its size, where it has one.
    pub size: Option<Size>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(values: &[&str]) -> Vec<String> {
        values.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_category_blocks_what_lies_under_it() {
        let blocks = Blocks { categories: strings(&["IAB2"]), ..Blocks::default() };
        assert!(blocks.any_category(&strings(&["IAB2"])));
        assert!(blocks.any_category(&strings(&["IAB1", "iab2-1"])));
        assert!(!blocks.any_category(&strings(&["IAB25", "IAB", "IAB1-2"])));
    }

    #[test]
    fn a_domain_blocks_what_lies_under_it() {
        let blocks = Blocks { domains: strings(&["Example.com"]), ..Blocks::default() };
        assert!(blocks.any_domain(&strings(&["example.com"])));
        assert!(blocks.any_domain(&strings(&["shop.example.com"])));
        assert!(!blocks.any_domain(&strings(&["badexample.com", "example.com.evil", "com"])));
    }

    #[test]
    fn excluding_advertiser_3_leaves_campaign_7_3_alone() {
        let of = |campaign: &str| CampaignId::from(campaign).advertiser();
        let blocks = |id: &str| Blocks { advertisers: strings(&[id]), ..Blocks::default() };
        assert!(!blocks("3").advertiser(&of("7:3")));
        assert!(blocks("7").advertiser(&of("7:3")));
    }
}
