//! The placements of a page.

use std::collections::HashSet;

use slotwise_proto::v1::ChoosePageRequest;

use super::checks::problem_of;
use super::place::{Place, Wanted, Words};
use super::{Refusal, check_len};
use crate::limits::{EXPLAINED_IN_ALL_MAX, PLACEMENTS_MAX};

/// The placements of `request`, each checked for itself, in their order; and how many of the
/// keywords were too long or too many. A placement's own keywords come before those of the page.
///
/// # Errors
/// What is wrong with the page as a whole: too many placements, ids that could not name their
/// answers, more candidates to explain than one answer holds.
pub(super) fn places(
    request: &ChoosePageRequest,
    explain_max: Option<usize>,
) -> Result<(Vec<Result<Place<'_>, Refusal>>, usize), Refusal> {
    let placements = &request.placements;
    check_len("placements", placements.len(), PLACEMENTS_MAX)?;
    let mut ids = HashSet::with_capacity(placements.len());
    for (at, placement) in placements.iter().enumerate() {
        let id = placement.placement_id.as_str();
        let is_taken = || (!ids.insert(id)).then(|| "is that of another placement".to_owned());
        if let Some(problem) = problem_of(id).or_else(is_taken) {
            let field = format!("placements[{at}].placement_id");
            return Err(Refusal::invalid(&field, problem));
        }
    }
    let explained = explain_max.unwrap_or(0) * placements.len();
    if explained > EXPLAINED_IN_ALL_MAX {
        let problem =
            format!("is {explained} over all placements; the limit is {EXPLAINED_IN_ALL_MAX}");
        return Err(Refusal::invalid("explain_max", problem));
    }
    let of_page = Words::new(&request.keywords);
    let mut ignored = of_page.ignored;
    let mut places = Vec::with_capacity(placements.len());
    for placement in placements {
        let wanted = Wanted {
            site_id: &placement.site_id,
            zone_id: &placement.zone_id,
            count: placement.count,
            floor_ecpm_micros: placement.floor_ecpm_micros,
            sizes: &placement.sizes,
        };
        let place = wanted.check(Words::new(&placement.keywords).and(&of_page));
        ignored += place.as_ref().map_or(0, |place| place.ignored_keywords);
        places.push(place);
    }
    Ok((places, ignored))
}
