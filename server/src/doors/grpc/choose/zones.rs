//! From the names of placements to what may be shown there.

use std::sync::Arc;

use slotwise_core::decide::Query;
use slotwise_core::index::{Index, ZoneBlock};
use slotwise_core::model::AccountSerial;
use slotwise_proto::v1::NoAdReason;
use smallvec::SmallVec;

use super::super::answer::{Filled, Fillings};
use super::super::ask::Place;
use super::Refusal;

/// The zones of a page.
#[derive(Default)]
pub(super) struct Zones {
    /// Whose the page is: that of the first zone that there is.
    account: Option<AccountSerial>,
    /// The placements that something may be chosen for.
    pub(super) open: SmallVec<[(Arc<ZoneBlock>, Query); 1]>,
    /// The answer of each placement, empty so far.
    pub(super) filled: Fillings,
    /// Which answer belongs to which of the open ones.
    pub(super) numbers: SmallVec<[usize; 1]>,
}

impl Zones {
    /// Finds the zones of `places`. With `is_stale`, nothing is chosen for any.
    pub(super) fn find<'r>(
        index: &Index,
        is_stale: bool,
        places: impl ExactSizeIterator<Item = Result<Place<'r>, Refusal>>,
    ) -> Self {
        let mut zones = Self::default();
        for place in places {
            let filled = match place {
                Err(refusal) => Filled::refused(refusal),
                Ok(_) if is_stale => Filled::none(NoAdReason::CatalogStale),
                Ok(place) => zones.enter(index, place),
            };
            zones.filled.push(filled);
        }
        zones
    }

    /// The answer of `place` as far as it is known: that of an open one is filled later.
    fn enter(&mut self, index: &Index, place: Place<'_>) -> Filled {
        let Some(block) = index.zone(place.site_id, place.zone_id) else {
            return Filled::none(NoAdReason::ZoneUnknown);
        };
        let account = block.account.serial;
        if *self.account.get_or_insert(account) != account {
            let problem = "belongs to another account than the page's first zone";
            return Filled::refused(Refusal::unfit("site_id", problem));
        }
        if block.entries.is_empty() {
            return Filled::none(NoAdReason::ZoneEmpty);
        }
        self.open.push((block, place.query));
        self.numbers.push(self.filled.len());
        Filled::none(NoAdReason::AllTurnedDown)
    }
}
