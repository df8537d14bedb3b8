//! Whether a call on a visitor says what it must. No message repeats a visitor's id.

use std::collections::HashSet;
use std::time::Duration;

use slotwise_core::model::Segment;
use slotwise_proto::v1::{ForgetUserRequest, GetProfileRequest, UpdateSegmentsRequest};

use crate::catalog::{CatalogError, Checker};
use crate::doors::refusal::Refusal;
use crate::limits::{
    SEGMENT_LIFE_DEFAULT, SEGMENT_LIFE_MAX, SEGMENT_NAME_BYTES_MAX, SEGMENTS_CHANGED_MAX,
};
use crate::ports::SegmentsChange;

pub(super) fn get(request: &GetProfileRequest) -> Result<(), Refusal> {
    let mut checker = Checker::default();
    checker.id("account_id", &request.account_id);
    checker.id("user_id", &request.user_id);
    if !request.advertiser_id.is_empty() {
        checker.id("advertiser_id", &request.advertiser_id);
        let has_colon = request.advertiser_id.contains(':');
        checker.require(!has_colon, "advertiser_id", "holds a colon: none does");
    }
    finish(checker, ())
}

pub(super) fn forget(request: &ForgetUserRequest) -> Result<(), Refusal> {
    let mut checker = Checker::default();
    if !request.account_id.is_empty() {
        checker.id("account_id", &request.account_id);
    }
    checker.id("user_id", &request.user_id);
    finish(checker, ())
}

/// What is to be added until when, and removed.
pub(super) fn segments(
    request: &UpdateSegmentsRequest,
    now_us: i64,
) -> Result<SegmentsChange, Refusal> {
    let mut checker = Checker::default();
    checker.id("account_id", &request.account_id);
    checker.id("user_id", &request.user_id);
    names(&mut checker, "add", &request.add);
    names(&mut checker, "remove", &request.remove);
    let added: HashSet<&String> = request.add.iter().collect();
    for (at, name) in request.remove.iter().enumerate() {
        let message = "is added by the same call";
        checker.require(!added.contains(name), &format!("remove[{at}]"), message);
    }
    let expires_us = now_us.saturating_add(life_us(&mut checker, request));
    let segment = |name: &String| Segment { name: name.clone(), expires_us };
    let add = request.add.iter().map(segment).collect();
    finish(checker, SegmentsChange { add, remove: request.remove.clone() })
}

fn names(checker: &mut Checker, field: &str, names: &[String]) {
    checker.len(field, names.len(), SEGMENTS_CHANGED_MAX);
    for (at, name) in names.iter().enumerate() {
        let field = format!("{field}[{at}]");
        checker.text(&field, name, SEGMENT_NAME_BYTES_MAX);
        let is_whole = name.split_once('/').is_some_and(|(f, n)| !f.is_empty() && !n.is_empty());
        checker.require(is_whole, &field, "is no <family>/<name>; auto/in-market would do");
    }
}

fn life_us(checker: &mut Checker, request: &UpdateSegmentsRequest) -> i64 {
    let life = match request.time_to_live {
        None => Some(SEGMENT_LIFE_DEFAULT),
        Some(given) => Duration::try_from(given).ok().filter(|life| *life <= SEGMENT_LIFE_MAX),
    };
    let life_us = life.and_then(|life| i64::try_from(life.as_micros()).ok()).unwrap_or(0);
    let limit = SEGMENT_LIFE_MAX.as_secs();
    let message = format!("is not above 0 s and at most the limit of {limit} s");
    checker.require(life_us > 0, "time_to_live", message);
    life_us
}

fn finish<T>(checker: Checker, value: T) -> Result<T, Refusal> {
    checker.finish(value).map_err(|problems| CatalogError::Refused(problems).into())
}
