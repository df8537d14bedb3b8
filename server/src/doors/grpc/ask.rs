//! A request on its way in: checked against every limit, as the decision needs it. ChooseAds is
//! read as a page of one placement.

mod checks;
pub(super) mod context;
mod page;
mod place;

use prost_types::Timestamp;
use slotwise_core::decide::{Page, PageRules};
use slotwise_core::model::HOURS_OF_WEEK;
use slotwise_proto::v1::{ChooseAdsRequest, ChoosePageRequest, Detail, Exposure, RequestContext};

use super::super::refusal::Refusal;
use crate::limits::{EXPLAIN_DEFAULT, EXPLAIN_MAX, TIMEOUT_MS_MAX};

use checks::{check_id, check_len, instant_us, over};
pub(super) use place::Place;
use place::{Wanted, Words};

/// What holds for every placement of a checked request.
pub(super) struct Ask<'r> {
    pub(super) page: Page,
    pub(super) visit: Visit<'r>,
    /// Keywords that were too long or too many.
    pub(super) ignored_keywords: usize,
}

/// Who asks, and what is done with the decision.
#[derive(Clone, Copy)]
pub(super) struct Visit<'r> {
    /// The visitor's id; empty: unknown, or not to be known.
    pub(super) user_id: &'r str,
    /// The visitor's profile is neither read nor written.
    pub(super) limited: bool,
    /// What is known of the visit, as it was said.
    pub(super) context: Option<&'r RequestContext>,
    /// The instant that is decided for.
    pub(super) now_us: i64,
    /// How long the caller waits; 0: not said.
    pub(super) timeout_ms: u32,
    /// The request's id; empty: it has none.
    pub(super) request_id: &'r str,
    /// What makes the decision an exposure.
    pub(super) exposure: Exposure,
    /// How much of each ad is given.
    pub(super) detail: Detail,
    /// Nothing is recorded.
    pub(super) dry_run: bool,
    /// The clock stands at another instant than now.
    pub(super) is_replay: bool,
    /// Where every random choice comes from.
    pub(super) seed: Option<u64>,
    /// The request has no id, and its answer gets one.
    pub(super) makes_id: bool,
    /// How many candidates are explained one by one; nothing: no explanation.
    pub(super) explain_max: Option<usize>,
}

/// The fields that both calls have.
struct Common<'r> {
    request_id: &'r str,
    user_id: &'r str,
    context: Option<&'r RequestContext>,
    blocked_advertisers: &'r [String],
    blocked_categories: &'r [String],
    blocked_domains: &'r [String],
    timeout_ms: u32,
    exposure: i32,
    detail: i32,
    limited: bool,
    explain: bool,
    explain_max: u32,
    dry_run: bool,
    seed: Option<u64>,
    as_of: Option<&'r Timestamp>,
}

/// The fields of `$request` by their names.
macro_rules! common {
    ($request:expr) => {
        Common {
            request_id: &$request.request_id,
            user_id: &$request.user_id,
            context: $request.context.as_ref(),
            blocked_advertisers: &$request.blocked_advertisers,
            blocked_categories: &$request.blocked_categories,
            blocked_domains: &$request.blocked_domains,
            timeout_ms: $request.timeout_ms,
            exposure: $request.exposure,
            detail: $request.detail,
            limited: $request.limited,
            explain: $request.explain,
            explain_max: $request.explain_max,
            dry_run: $request.dry_run,
            seed: $request.seed,
            as_of: $request.as_of.as_ref(),
        }
    };
}

impl<'r> Ask<'r> {
    /// Checks `request`, which came at `now_us`.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub(super) fn of_ads(
        request: &'r ChooseAdsRequest,
        now_us: i64,
    ) -> Result<(Self, Place<'r>), Refusal> {
        let mut ask = Self::new(&common!(request), None, now_us)?;
        let wanted = Wanted {
            site_id: &request.site_id,
            zone_id: &request.zone_id,
            count: request.count,
            floor_ecpm_micros: request.floor_ecpm_micros,
            sizes: &request.sizes,
        };
        let place = wanted.check(Words::new(&request.keywords))?;
        ask.ignored_keywords = place.ignored_keywords;
        Ok((ask, place))
    }

    /// Checks `request`, which came at `now_us`: each placement for itself, in their order.
    ///
    /// # Errors
    /// The first field that is wrong for all of them.
    pub(super) fn of_page(
        request: &'r ChoosePageRequest,
        now_us: i64,
    ) -> Result<(Self, Vec<Result<Place<'r>, Refusal>>), Refusal> {
        let rules = PageRules { campaign_max: request.campaign_max_per_page };
        let mut ask = Self::new(&common!(request), Some(rules), now_us)?;
        let (places, ignored_keywords) = page::places(request, ask.visit.explain_max)?;
        ask.ignored_keywords = ignored_keywords;
        Ok((ask, places))
    }

    fn new(common: &Common<'r>, rules: Option<PageRules>, now_us: i64) -> Result<Self, Refusal> {
        check_id("request_id", common.request_id)?;
        check_id("user_id", common.user_id)?;
        let exposure = Exposure::try_from(common.exposure)
            .map_err(|_| Refusal::invalid("exposure", "is no exposure that the contract names"))?;
        let detail = Detail::try_from(common.detail)
            .map_err(|_| Refusal::invalid("detail", "is no detail that the contract names"))?;
        if common.timeout_ms > TIMEOUT_MS_MAX {
            return Err(over("timeout_ms", common.timeout_ms, TIMEOUT_MS_MAX));
        }
        if common.explain_max > EXPLAIN_MAX {
            return Err(over("explain_max", common.explain_max, EXPLAIN_MAX));
        }
        let as_of_us = common.as_of.map(instant_us).transpose()?;
        if as_of_us.is_some() && !common.dry_run {
            return Err(Refusal::invalid("as_of", "goes only with dry_run"));
        }
        let now_us = as_of_us.unwrap_or(now_us);
        let user_id = if common.limited { "" } else { common.user_id };
        let context = common.context.map(context::context).transpose()?;
        Ok(Self {
            page: Page {
                now_us,
                // Known with the account's time zone, see `Chooser`; until then no hour at all.
                hour_of_week: HOURS_OF_WEEK,
                context: context.unwrap_or_default(),
                blocks: checks::blocks(common)?,
                visitor_known: !user_id.is_empty(),
                without_budgets: as_of_us.is_some(),
                // As the server is configured, where the request does not say: see `Chooser`.
                holds_us: None,
                rules,
            },
            visit: Visit {
                user_id,
                limited: common.limited,
                context: common.context,
                now_us,
                timeout_ms: common.timeout_ms,
                request_id: common.request_id,
                exposure,
                detail,
                dry_run: common.dry_run,
                is_replay: as_of_us.is_some(),
                seed: common.seed,
                makes_id: common.request_id.is_empty(),
                explain_max: explain_max(common.explain, common.explain_max),
            },
            ignored_keywords: 0,
        })
    }
}

/// How many candidates are explained one by one; nothing: no explanation.
pub(super) fn explain_max(explain: bool, max: u32) -> Option<usize> {
    explain.then_some(if max == 0 { EXPLAIN_DEFAULT } else { max } as usize)
}
