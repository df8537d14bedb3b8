//! Whether an ad may be shown here and now, whatever it is worth and whoever has seen it.

use crate::index::{Entry, ZoneBlock};
use crate::model::{Blocks, Campaign, Context, Keywords, Size, Status};

/// One question, checked and normalised.
#[derive(Clone, Debug)]
pub struct Query {
    /// The instant to decide for, in microseconds of Unix time.
    pub now_us: i64,
    /// The hour of the week at that instant in the account's time zone: 0 is Monday 00:00.
    pub hour_of_week: u8,
    /// How many ads at most; at least 1.
    pub count: usize,
    /// What the page or the search is about; at most [`crate::model::KEYWORDS_USED_MAX`].
    pub keywords: Keywords,
    /// Micros per 1,000 impressions; the zone's own floor holds as well.
    pub floor_ecpm_micros: i64,
    /// Only these sizes; empty: the zone's own.
    pub sizes: Vec<Size>,
    /// What the caller will not show; the site's own blocks hold as well.
    pub blocks: Blocks,
    /// What is known of the visit.
    pub context: Context,
    /// Whether the visitor is known.
    pub visitor_known: bool,
    /// Whether budgets are left out, as in a replay at another instant.
    pub without_budgets: bool,
}

/// Why an ad was turned down. Of several reasons, the first in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
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
    /// Its campaign has a budget, and these are not kept by this version.
    BudgetUnavailable,
}

impl Query {
    /// Why `entry` is turned down, if it is; caps come later, see [`super::Decision::admit`].
    pub fn turns_down(
        &self,
        block: &ZoneBlock,
        entry: &Entry,
        campaign: &Campaign,
    ) -> Option<Verdict> {
        let site = &block.site.blocks;
        let sizes = if self.sizes.is_empty() { &block.zone.sizes[..] } else { &self.sizes };
        let fits = |size: Option<Size>| size.is_some_and(|size| sizes.contains(&size));
        let floor = self.floor_ecpm_micros.max(block.zone.floor_ecpm_micros);
        let blocks = [&self.blocks, site];
        let by = |is_blocked: &dyn Fn(&Blocks) -> bool| blocks.into_iter().any(is_blocked);
        let is_sized = sizes.is_empty() || fits(entry.ad.size);
        // In the order of the verdicts; the costly tests come last, and are rarely reached.
        Some(if campaign.status == Status::Paused {
            Verdict::CampaignPaused
        } else if self.now_us < campaign.flight.start_us {
            Verdict::FlightNotStarted
        } else if self.now_us >= campaign.flight.end_us {
            Verdict::FlightEnded
        } else if !is_sized {
            Verdict::Size
        } else if entry.ecpm_micros < floor {
            Verdict::BelowFloor
        } else if by(&|blocks| blocks.advertiser(&campaign.advertiser)) {
            Verdict::BlockedAdvertiser
        } else if by(&|blocks| blocks.category(&campaign.categories).is_some()) {
            Verdict::BlockedCategory
        } else if by(&|blocks| blocks.domain(&campaign.advertiser_domains).is_some()) {
            Verdict::BlockedDomain
        } else if self.keywords.first_common(&entry.ad.excluded_keywords).is_some() {
            Verdict::ExcludedKeyword
        } else if campaign
            .targeting
            .as_deref()
            .is_some_and(|targeting| targeting.fails(&self.context, self.hour_of_week).is_some())
        {
            Verdict::Targeting
        } else if campaign.requires_user && !self.visitor_known {
            Verdict::UserRequired
        } else if campaign.has_budget && !self.without_budgets {
            Verdict::BudgetUnavailable
        } else {
            return None;
        })
    }
}
