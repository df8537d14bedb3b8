//! The catalogue's objects: every value here has been checked, and holds as it stands.

use super::{
    AccountId, AccountSerial, AdSerial, AdUnitId, AdvertiserId, Blocks, CampaignId, CampaignSerial,
    Keywords, Names, SiteId, Targeting, ZoneId, ZoneSerial,
};

/// One tenant.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its number.
    pub serial: AccountSerial,
    /// Its id.
    pub id: AccountId,
    /// An IANA name; empty: UTC. Its days and hours are cut in this zone.
    pub time_zone: Box<str>,
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

/// What an advertiser pays, in micros of the account's currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// For 1,000 impressions.
    ThousandImpressions(i64),
    /// For each click.
    Click(i64),
    /// For each conversion.
    Conversion(i64),
}

impl Price {
    /// The micros per 1,000 impressions, where it is priced so.
    pub fn thousand_impressions_micros(self) -> Option<i64> {
        match self {
            Self::ThousandImpressions(micros) => Some(micros),
            Self::Click(_) | Self::Conversion(_) => None,
        }
    }

    /// What one event costs, in nanos: a thousandth of a price per thousand, so the same number.
    /// Prices that were checked at write are far from where it stays at the largest there is.
    pub fn event_nanos(self) -> i64 {
        match self {
            Self::ThousandImpressions(micros) => micros,
            Self::Click(micros) | Self::Conversion(micros) => micros.saturating_mul(1_000),
        }
    }
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
    /// Whom it is for; nothing: everybody.
    pub targeting: Option<Box<Targeting>>,
    /// No two advertisers that share one appear on one page.
    pub competitive_labels: Names,
    /// What is paid for; nothing: it is free, or paid for elsewhere.
    pub price: Option<Price>,
    /// IAB content categories.
    pub categories: Vec<String>,
    /// The advertiser's domains.
    pub advertiser_domains: Vec<String>,
}

impl Campaign {
    /// What its ads are ranked by where they say nothing: its price, where that is per thousand.
    pub fn thousand_impressions_micros(&self) -> Option<i64> {
        self.price.and_then(Price::thousand_impressions_micros)
    }

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
    /// What holds in single zones instead of the campaign's price, in order of site and zone: most
    /// ads have none.
    pub zone_prices: Box<[ZonePrice]>,
}

/// A price that holds in one zone.
#[derive(Clone, Debug)]
pub struct ZonePrice {
    /// The zone's site.
    pub site: SiteId,
    /// The zone.
    pub zone: ZoneId,
    /// What is paid for there.
    pub price: Price,
}

impl Ad {
    /// What is paid for in this zone, where that is not the campaign's price.
    pub fn price_in(&self, site: &SiteId, zone: &ZoneId) -> Option<Price> {
        let of = |own: &ZonePrice| (&own.site, &own.zone).cmp(&(site, zone));
        self.zone_prices.binary_search_by(of).ok().map(|at| self.zone_prices[at].price)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2,000 cents per thousand are 2 cents each, and 45 cents a click are 45.
    #[test]
    fn a_price_says_what_one_event_costs() {
        let price = Price::ThousandImpressions(20_000_000);
        assert_eq!(price.event_nanos(), 20_000_000);
        assert_eq!(price.thousand_impressions_micros(), Some(20_000_000));
        for price in [Price::Click(450_000), Price::Conversion(450_000)] {
            assert_eq!(price.event_nanos(), 450_000_000);
            assert_eq!(price.thousand_impressions_micros(), None);
        }
        assert_eq!(Price::ThousandImpressions(1).event_nanos(), 1);
    }
}
