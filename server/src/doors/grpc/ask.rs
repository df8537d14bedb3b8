//! A ChooseAds request on its way in: checked against every limit, as the decision needs it.

pub(super) mod context;

use prost_types::Timestamp;
use slotwise_core::decide::Query;
use slotwise_core::model::{Blocks, HOURS_OF_WEEK, Keywords, Size, normalise_keyword};
use slotwise_proto::v1::{ChooseAdsRequest, Detail, Exposure};

use super::super::refusal::Refusal;
use crate::limits::{
    BLOCKED_MAX, COUNT_MAX, ID_BYTES_MAX, KEYWORD_BYTES_MAX, KEYWORDS_USED_MAX, PRICE_MICROS_MAX,
    SIZES_MAX, TIMEOUT_MS_MAX,
};

/// A checked request.
pub(super) struct Ask {
    query: Query,
    visit: Visit,
    /// Keywords that were too long or too many.
    pub(super) ignored_keywords: usize,
}

/// What is done with the decision once it is made.
pub(super) struct Visit {
    /// The instant that is decided for.
    pub(super) now_us: i64,
    /// Size, domains and categories are given.
    pub(super) with_facts: bool,
    /// Nothing is recorded.
    pub(super) dry_run: bool,
    /// The clock stands at another instant than now.
    pub(super) is_replay: bool,
}

impl Ask {
    /// Checks `request`, which came at `now_us`.
    pub(super) fn new(request: &ChooseAdsRequest, now_us: i64) -> Result<Self, Refusal> {
        for (field, id) in [
            ("request_id", &request.request_id),
            ("site_id", &request.site_id),
            ("zone_id", &request.zone_id),
            ("user_id", &request.user_id),
        ] {
            check_id(field, id)?;
        }
        for (field, id) in [("site_id", &request.site_id), ("zone_id", &request.zone_id)] {
            if id.is_empty() {
                return Err(Refusal::invalid(field, "must not be empty"));
            }
        }
        refuse_what_is_not_built(request)?;
        if request.count > COUNT_MAX {
            return Err(over("count", request.count, COUNT_MAX));
        }
        if request.timeout_ms > TIMEOUT_MS_MAX {
            return Err(over("timeout_ms", request.timeout_ms, TIMEOUT_MS_MAX));
        }
        let floor = request.floor_ecpm_micros;
        if !(0..=PRICE_MICROS_MAX).contains(&floor) {
            let problem = format!("is {floor}; 0 to {PRICE_MICROS_MAX} would do");
            return Err(Refusal::invalid("floor_ecpm_micros", problem));
        }
        let as_of_us = request.as_of.as_ref().map(instant_us).transpose()?;
        if as_of_us.is_some() && !request.dry_run {
            return Err(Refusal::invalid("as_of", "goes only with dry_run"));
        }
        let (keywords, ignored_keywords) = keywords(&request.keywords);
        let now_us = as_of_us.unwrap_or(now_us);
        Ok(Self {
            query: Query {
                now_us,
                count: request.count.max(1) as usize,
                keywords,
                floor_ecpm_micros: floor,
                sizes: sizes(request)?,
                blocks: blocks(request)?,
                // Known with the account's time zone, see `Chooser`; until then no hour at all.
                hour_of_week: HOURS_OF_WEEK,
                context: request
                    .context
                    .as_ref()
                    .map(context::context)
                    .transpose()?
                    .unwrap_or_default(),
                visitor_known: !request.user_id.is_empty() && !request.limited,
                without_budgets: as_of_us.is_some(),
            },
            visit: Visit {
                now_us,
                with_facts: request.detail == i32::from(Detail::Facts),
                dry_run: request.dry_run,
                is_replay: as_of_us.is_some(),
            },
            ignored_keywords,
        })
    }

    /// What is done with the answer, and the question itself.
    pub(super) fn into_parts(self) -> (Visit, Query) {
        (self.visit, self.query)
    }
}

/// What the contract has and this version does not: refused by name, never ignored.
fn refuse_what_is_not_built(request: &ChooseAdsRequest) -> Result<(), Refusal> {
    let not_yet = |field, problem: &str| Err(Refusal::invalid(field, problem));
    match Exposure::try_from(request.exposure) {
        Ok(Exposure::Unspecified | Exposure::OnDecision) => {}
        Ok(Exposure::OnImpression) => {
            return not_yet("exposure", "ON_IMPRESSION is not supported by this version");
        }
        Err(_) => return not_yet("exposure", "is no exposure that the contract names"),
    }
    match Detail::try_from(request.detail) {
        Ok(Detail::Unspecified | Detail::Facts) => {}
        Ok(Detail::Markup) => {
            return not_yet("detail", "MARKUP is not supported by this version; FACTS would do");
        }
        Err(_) => return not_yet("detail", "is no detail that the contract names"),
    }
    if request.explain {
        return not_yet("explain", "is not supported by this version");
    }
    if request.explain_max != 0 {
        return not_yet("explain_max", "is not supported by this version");
    }
    Ok(())
}

/// Normalised keywords, and how many had to be ignored.
fn keywords(raw: &[String]) -> (Keywords, usize) {
    let mut used: Vec<String> = Vec::with_capacity(raw.len().min(KEYWORDS_USED_MAX));
    let mut ignored = 0;
    for keyword in raw {
        // Trimmed first: outer spaces do not make a keyword long.
        if keyword.trim().len() > KEYWORD_BYTES_MAX {
            ignored += 1;
            continue;
        }
        let keyword = normalise_keyword(keyword);
        if keyword.is_empty() || used.iter().any(|seen| *seen == keyword) {
            continue;
        }
        if used.len() == KEYWORDS_USED_MAX {
            ignored += 1;
            continue;
        }
        used.push(keyword.into_owned());
    }
    (Keywords::from_normalised(used.iter().map(String::as_str).collect()), ignored)
}

fn sizes(request: &ChooseAdsRequest) -> Result<Vec<Size>, Refusal> {
    check_len("sizes", request.sizes.len(), SIZES_MAX)?;
    let size = |(at, size): (usize, &slotwise_proto::v1::Size)| {
        if size.width == 0 || size.height == 0 {
            return Err(Refusal::invalid(&format!("sizes[{at}]"), "has a side of 0 pixels"));
        }
        Ok(Size { width: size.width, height: size.height })
    };
    request.sizes.iter().enumerate().map(size).collect()
}

fn blocks(request: &ChooseAdsRequest) -> Result<Blocks, Refusal> {
    let lists = [
        ("blocked_advertisers", &request.blocked_advertisers),
        ("blocked_categories", &request.blocked_categories),
        ("blocked_domains", &request.blocked_domains),
    ];
    for (field, values) in lists {
        check_len(field, values.len(), BLOCKED_MAX)?;
        for (at, value) in values.iter().enumerate() {
            let field = format!("{field}[{at}]");
            check_id(&field, value)?;
            if value.is_empty() {
                return Err(Refusal::invalid(&field, "must not be empty"));
            }
        }
    }
    Ok(Blocks::new(
        request.blocked_advertisers.iter().map(String::as_str),
        request.blocked_categories.iter().map(String::as_str),
        request.blocked_domains.iter().map(String::as_str),
    ))
}

fn check_id(field: &str, id: &str) -> Result<(), Refusal> {
    problem_of(id).map_or(Ok(()), |problem| Err(Refusal::invalid(field, problem)))
}

/// What is wrong with an id, if anything is.
fn problem_of(id: &str) -> Option<String> {
    if id.len() > ID_BYTES_MAX {
        return Some(format!("has {} bytes; the limit is {ID_BYTES_MAX}", id.len()));
    }
    id.chars().any(char::is_control).then(|| "holds a control character".to_owned())
}

fn check_len(field: &str, len: usize, len_max: usize) -> Result<(), Refusal> {
    if len > len_max {
        let problem = format!("has {len} entries; the limit is {len_max}");
        return Err(Refusal::invalid(field, problem));
    }
    Ok(())
}

fn over(field: &str, value: u32, max: u32) -> Refusal {
    Refusal::invalid(field, format!("is {value}; the limit is {max}"))
}

fn instant_us(value: &Timestamp) -> Result<i64, Refusal> {
    let seconds_us = value.seconds.checked_mul(1_000_000);
    let is_sound = (0..1_000_000_000).contains(&value.nanos);
    seconds_us
        .and_then(|us| us.checked_add(i64::from(value.nanos / 1_000)))
        .filter(|_| is_sound)
        .ok_or_else(|| Refusal::invalid("as_of", "is no instant"))
}
