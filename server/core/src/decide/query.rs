//! What is asked, checked and normalised: once for a page, and for each of its placements.

use crate::index::ZoneBlock;
use crate::model::{Blocks, Context, Keywords, Size};

/// What holds for every placement of one page; ChooseAds asks for a page of one placement.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The instant to decide for, in microseconds of Unix time.
    pub now_us: i64,
    /// The hour of the week at that instant in the account's time zone: 0 is Monday 00:00.
    pub hour_of_week: u8,
    /// What is known of the visit.
    pub context: Context,
    /// What the caller will not show; each site's own blocks hold as well.
    pub blocks: Blocks,
    /// Whether the visitor is known.
    pub visitor_known: bool,
    /// For how long a showing holds its place until its impression comes, in microseconds; nothing:
    /// choosing is showing.
    pub holds_us: Option<i64>,
    /// Whether budgets are left out, as in a replay at another instant.
    pub without_budgets: bool,
    /// What the placements do to each other; nothing for a single one, in which competitors do
    /// not meet all the same.
    pub rules: Option<PageRules>,
}

/// What the placements of one page do to each other. No ad comes twice, and no two advertisers
/// that share a competitive label appear together.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageRules {
    /// Ads of one campaign at most; 0: any number.
    pub campaign_max: u32,
}

/// What is asked for one placement.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// How many ads at most; at least 1.
    pub count: usize,
    /// What the page or the search is about; at most [`crate::model::KEYWORDS_USED_MAX`].
    pub keywords: Keywords,
    /// Micros per 1,000 impressions; the zone's own floor holds as well.
    pub floor_ecpm_micros: i64,
    /// Only these sizes; empty: the zone's own.
    pub sizes: Vec<Size>,
}

impl Query {
    /// The sizes that fit; empty: any, and none.
    pub(super) fn sizes<'a>(&'a self, block: &'a ZoneBlock) -> &'a [Size] {
        if self.sizes.is_empty() { &block.zone.sizes } else { &self.sizes }
    }

    /// What an ad must be worth in this zone, in micros per 1,000 impressions.
    pub(super) fn floor(&self, block: &ZoneBlock) -> i64 {
        self.floor_ecpm_micros.max(block.zone.floor_ecpm_micros)
    }
}
