//! Checks of single fields; each refusal names the field, what is wrong and the limit.

use prost_types::Timestamp;
use slotwise_core::model::Blocks;

use super::{Common, Refusal};
use crate::limits::{BLOCKED_MAX, ID_BYTES_MAX};

/// Protobuf's timestamps begin with the year 1. They end with the year 9999, of which the calendar
/// that our hours come from leaves out the last day, as it is over in some time zones.
const YEAR_1_US: i64 = -62_135_596_800_000_000;

/// What the request will not show.
pub(super) fn blocks(common: &Common<'_>) -> Result<Blocks, Refusal> {
    let (advertisers, categories, domains) =
        (common.blocked_advertisers, common.blocked_categories, common.blocked_domains);
    let lists = [
        ("blocked_advertisers", advertisers),
        ("blocked_categories", categories),
        ("blocked_domains", domains),
    ];
    for (field, values) in lists {
        check_len(field, values.len(), BLOCKED_MAX)?;
        for (at, value) in values.iter().enumerate() {
            // The field is named only where it is refused: there may be a thousand.
            if let Some(problem) = problem_of_name(value) {
                return Err(Refusal::invalid(&format!("{field}[{at}]"), problem));
            }
        }
    }
    Ok(Blocks::new(
        advertisers.iter().map(String::as_str),
        categories.iter().map(String::as_str),
        domains.iter().map(String::as_str),
    ))
}

pub(super) fn check_id(field: &str, id: &str) -> Result<(), Refusal> {
    problem_of(id).map_or(Ok(()), |problem| Err(Refusal::invalid(field, problem)))
}

/// What is wrong with an id, if anything is.
pub(super) fn problem_of(id: &str) -> Option<String> {
    if id.len() > ID_BYTES_MAX {
        return Some(format!("has {} bytes; the limit is {ID_BYTES_MAX}", id.len()));
    }
    id.chars().any(char::is_control).then(|| "holds a control character".to_owned())
}

/// What is wrong with an id that has to be there, if anything is.
pub(super) fn problem_of_name(name: &str) -> Option<String> {
    if name.is_empty() { Some("must not be empty".to_owned()) } else { problem_of(name) }
}

pub(super) fn check_len(field: &str, len: usize, len_max: usize) -> Result<(), Refusal> {
    if len > len_max {
        let problem = format!("has {len} entries; the limit is {len_max}");
        return Err(Refusal::invalid(field, problem));
    }
    Ok(())
}

pub(super) fn over(field: &str, value: u32, max: u32) -> Refusal {
    Refusal::invalid(field, format!("is {value}; the limit is {max}"))
}

pub(super) fn instant_us(value: &Timestamp) -> Result<i64, Refusal> {
    let seconds_us = value.seconds.checked_mul(1_000_000);
    let is_sound = (0..1_000_000_000).contains(&value.nanos);
    seconds_us
        .and_then(|us| us.checked_add(i64::from(value.nanos / 1_000)))
        .filter(|us| is_sound && (YEAR_1_US..=jiff::Timestamp::MAX.as_microsecond()).contains(us))
        .ok_or_else(|| Refusal::invalid("as_of", "is no instant of the years 1 to 9999"))
}
