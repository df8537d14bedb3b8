//! Whether an ad may be shown here and now, whatever it is worth and however often it was seen.

use super::{Page, Query};
use crate::index::{Campaigns, Entry, Gate, SizeCodes, ZoneBlock};
use crate::model::{Blocks, Campaign, CampaignSerial, Clause, Profile, Segmented};

/// What becomes of a candidate. Of several reasons, the first in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is in the answer.
    Chosen,
    /// Its campaign is switched off.
    CampaignPaused,
    /// Its flight has not begun.
    FlightNotStarted,
    /// Its flight is over.
    FlightEnded,
    /// It has none of the sizes that fit.
    Size,
    /// It is worth less than the floor.
    BelowFloor,
    /// The request or the site blocks its advertiser.
    BlockedAdvertiser,
    /// The request or the site blocks one of its categories.
    BlockedCategory,
    /// The request or the site blocks one of its advertiser's domains.
    BlockedDomain,
    /// The request has a keyword that it must not stand beside.
    ExcludedKeyword,
    /// A targeting clause of its campaign does not hold.
    Targeting,
    /// Its campaign wants a known visitor.
    UserRequired,
    /// A cap of its campaign is reached.
    FrequencyCapped,
    /// What is stored of the visitor decides, and cannot be had.
    ProfileUnavailable,
    /// Its campaign's budget is spent.
    BudgetSpent,
    /// Its campaign has a budget, and these are not kept by this version.
    BudgetUnavailable,
    /// Its campaign's budget is spread over the day, and it is not its turn.
    Paced,
    /// The page has as many ads of its campaign as it may have, or this very ad.
    CampaignOnPage,
    /// A competitor of its advertiser is on the page.
    CompetitorOnPage,
    /// Others are worth more.
    Outranked,
}

impl Verdict {
    /// How many verdicts there are.
    pub const COUNT: usize = Self::Outranked as usize + 1;

    /// All of them, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Chosen,
        Self::CampaignPaused,
        Self::FlightNotStarted,
        Self::FlightEnded,
        Self::Size,
        Self::BelowFloor,
        Self::BlockedAdvertiser,
        Self::BlockedCategory,
        Self::BlockedDomain,
        Self::ExcludedKeyword,
        Self::Targeting,
        Self::UserRequired,
        Self::FrequencyCapped,
        Self::ProfileUnavailable,
        Self::BudgetSpent,
        Self::BudgetUnavailable,
        Self::Paced,
        Self::CampaignOnPage,
        Self::CompetitorOnPage,
        Self::Outranked,
    ];
}

/// Judges the candidates of one zone for one request.
pub(super) struct Judge<'a> {
    pub(super) page: &'a Page,
    pub(super) query: &'a Query,
    pub(super) block: &'a ZoneBlock,
    pub(super) campaigns: &'a Campaigns,
    /// What is known of the visitor; nothing: not read.
    pub(super) profile: Option<&'a Profile>,
    floor_ecpm_micros: i64,
    sizes: SizeCodes,
    has_blocks: bool,
    country_bit: u64,
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        page: &'a Page,
        query: &'a Query,
        block: &'a ZoneBlock,
        sizes: SizeCodes,
        campaigns: &'a Campaigns,
        profile: Option<&'a Profile>,
    ) -> Self {
        Self {
            page,
            query,
            block,
            campaigns,
            profile,
            floor_ecpm_micros: query.floor(block),
            sizes,
            has_blocks: !page.blocks.is_empty() || !block.site.blocks.is_empty(),
            country_bit: page.context.country.map_or(0, |country| country.bit()),
        }
    }

    /// Whether nothing speaks against the ad, caps and segments that were not read aside.
    pub(super) fn admits(&self, entry: &Entry) -> bool {
        self.turns_down(entry).is_none()
    }

    /// What speaks against `entry`, caps aside; where what is stored of the visitor would decide
    /// and was not read, that does not.
    pub(super) fn turns_down(&self, entry: &Entry) -> Option<Verdict> {
        let Some(gate) = self.campaigns.gate(entry.campaign) else {
            // A campaign that is gone from the table is gone, whatever the block still holds.
            return Some(Verdict::CampaignPaused);
        };
        // In the order of the verdicts; the costly tests are reached where there is something to
        // test.
        if gate.asks & Gate::PAUSED != 0 {
            return Some(Verdict::CampaignPaused);
        }
        if self.page.now_us < gate.start_us {
            return Some(Verdict::FlightNotStarted);
        }
        if self.page.now_us >= gate.end_us {
            return Some(Verdict::FlightEnded);
        }
        if !self.sizes.fit(entry, self.query.sizes(self.block)) {
            return Some(Verdict::Size);
        }
        if self.floor_ecpm_micros > 0 && self.block.ecpm_micros(entry) < self.floor_ecpm_micros {
            return Some(Verdict::BelowFloor);
        }
        if self.has_blocks {
            let Some(campaign) = self.campaign(entry.campaign) else {
                return Some(Verdict::CampaignPaused);
            };
            let blocked = self.blocked(campaign);
            if blocked.is_some() {
                return blocked;
            }
        }
        if entry.excludes && self.excluded(entry).is_some() {
            return Some(Verdict::ExcludedKeyword);
        }
        if gate.asks & Gate::TURNS_DOWN == 0 { None } else { self.turned_down_by(gate, entry) }
    }

    fn turned_down_by(&self, gate: &Gate, entry: &Entry) -> Option<Verdict> {
        if gate.asks & Gate::TARGETING != 0 {
            let is_elsewhere = gate.countries & self.country_bit == 0 && gate.countries != u64::MAX;
            let fits = |campaign| self.off_target(campaign).is_none();
            if is_elsewhere || !self.campaign(entry.campaign).is_some_and(fits) {
                return Some(Verdict::Targeting);
            }
        }
        if gate.asks & Gate::USER != 0 && !self.page.visitor_known {
            return Some(Verdict::UserRequired);
        }
        let is_unpaid = gate.asks & Gate::BUDGET != 0 && !self.page.without_budgets;
        is_unpaid.then_some(Verdict::BudgetUnavailable)
    }

    pub(super) fn campaign(&self, serial: CampaignSerial) -> Option<&'a Campaign> {
        self.campaigns.get(serial).map(|row| &row.campaign)
    }

    /// The keyword of the request that the ad must not stand beside.
    pub(super) fn excluded(&self, entry: &'a Entry) -> Option<&'a str> {
        self.query.keywords.first_common(&entry.ad.excluded_keywords)
    }

    fn blocked(&self, campaign: &Campaign) -> Option<Verdict> {
        let lists = [&self.page.blocks, &self.block.site.blocks];
        let by = |is_blocked: &dyn Fn(&Blocks) -> bool| lists.into_iter().any(is_blocked);
        if by(&|blocks| blocks.advertiser(&campaign.advertiser)) {
            Some(Verdict::BlockedAdvertiser)
        } else if by(&|blocks| blocks.category(&campaign.categories).is_some()) {
            Some(Verdict::BlockedCategory)
        } else if by(&|blocks| blocks.domain(&campaign.advertiser_domains).is_some()) {
            Some(Verdict::BlockedDomain)
        } else {
            None
        }
    }

    /// The targeting clause that does not hold.
    pub(super) fn off_target(&self, campaign: &Campaign) -> Option<Clause> {
        let targeting = campaign.targeting.as_deref()?;
        targeting.fails(&self.page.context, self.page.hour_of_week).or_else(|| {
            match self.segmented(campaign) {
                Segmented::Fails(clause) => Some(clause),
                Segmented::Fits | Segmented::AsksProfile => None,
            }
        })
    }

    /// What the clauses on segments say.
    pub(super) fn segmented(&self, campaign: &Campaign) -> Segmented {
        campaign.targeting.as_deref().map_or(Segmented::Fits, |targeting| {
            targeting.segmented(&self.page.context.segments, self.profile, self.page.now_us)
        })
    }
}
