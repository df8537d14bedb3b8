//! What a visitor was shown, by advertiser.
//!
//! One piece of memory holds the lists, in the order of their advertisers' hashes, and in each its
//! first showing: most visitors saw one of most advertisers, and a decision waits for every piece
//! that it has to look up. A busy visitor has hundreds of lists, so they are found by halving.

use smallvec::SmallVec;

use super::{ADVERTISERS_IN_PROFILE_MAX, EXPOSURES_PER_ADVERTISER_MAX, Exposure, ListFull};
use crate::model::AdvertiserId;

/// One of them: never empty, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    of: AdvertiserId,
    shown: SmallVec<[Exposure; 1]>,
}

/// All of one visitor's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists(Vec<List>);

impl Lists {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&AdvertiserId, &[Exposure])> {
        self.0.iter().map(|list| (&list.of, list.shown.as_slice()))
    }

    /// The list of `advertiser`.
    pub(super) fn of(&self, advertiser: &AdvertiserId) -> &[Exposure] {
        self.place(advertiser).map_or(&[], |at| self.0[at].shown.as_slice())
    }

    /// Where the advertiser's list is, or where it would be.
    fn place(&self, advertiser: &AdvertiserId) -> Result<usize, usize> {
        let mut at = self.0.partition_point(|list| list.of.hash() < advertiser.hash());
        // Two names with one hash are as good as unheard of, but they may be.
        while let Some(list) = self.0.get(at).filter(|list| list.of.hash() == advertiser.hash()) {
            if list.of == *advertiser {
                return Ok(at);
            }
            at += 1;
        }
        Err(at)
    }

    /// Whether there is room for one more of `advertiser`, where what is not live may go for it.
    pub(super) fn has_room(
        &self,
        advertiser: &AdvertiserId,
        is_live: impl Fn(&Exposure) -> bool,
    ) -> bool {
        match self.place(advertiser) {
            Ok(at) => {
                let shown = &self.0[at].shown;
                shown.len() < EXPOSURES_PER_ADVERTISER_MAX || !shown.iter().all(is_live)
            }
            Err(_) => {
                let is_over = |list: &List| !list.shown.iter().any(&is_live);
                self.0.len() < ADVERTISERS_IN_PROFILE_MAX || self.0.iter().any(is_over)
            }
        }
    }

    /// Adds `exposure`, or says it anew where it is there and this says more; returns whether
    /// anything has changed. Only where there is no room goes what is not live.
    ///
    /// # Errors
    /// [`ListFull`] when all of it is.
    pub(super) fn add(
        &mut self,
        advertiser: &AdvertiserId,
        exposure: Exposure,
        is_live: impl Fn(&Exposure) -> bool,
    ) -> Result<bool, ListFull> {
        match self.place(advertiser) {
            Ok(at) => add_to(&mut self.0[at].shown, exposure, is_live),
            Err(mut at) => {
                if self.0.len() >= ADVERTISERS_IN_PROFILE_MAX {
                    self.0.retain(|list| list.shown.iter().any(&is_live));
                    if self.0.len() >= ADVERTISERS_IN_PROFILE_MAX {
                        return Err(ListFull);
                    }
                    at = self.place(advertiser).unwrap_or_else(|at| at);
                }
                let shown = SmallVec::from_buf([exposure]);
                self.0.insert(at, List { of: advertiser.clone(), shown });
                Ok(true)
            }
        }
    }

    /// Takes what `is_meant` out of the advertiser's list; returns whether there was any.
    pub(super) fn remove(
        &mut self,
        advertiser: &AdvertiserId,
        is_meant: impl Fn(&Exposure) -> bool,
    ) -> bool {
        let Ok(at) = self.place(advertiser) else { return false };
        let shown = &mut self.0[at].shown;
        let before = shown.len();
        shown.retain(|seen| !is_meant(seen));
        let is_any = shown.len() < before;
        if shown.is_empty() {
            self.0.remove(at);
        }
        is_any
    }

    /// Keeps what `stays` of all lists.
    pub(super) fn retain(&mut self, stays: impl Fn(&Exposure) -> bool) {
        self.0.retain_mut(|list| {
            list.shown.retain(|seen| stays(seen));
            !list.shown.is_empty()
        });
    }
}

fn add_to(
    shown: &mut SmallVec<[Exposure; 1]>,
    exposure: Exposure,
    is_live: impl Fn(&Exposure) -> bool,
) -> Result<bool, ListFull> {
    if let Some(seen) = shown.iter_mut().find(|seen| seen.is_same(&exposure)) {
        let is_more = !seen.covers(&exposure);
        if is_more {
            *seen = exposure;
        }
        return Ok(is_more);
    }
    if shown.len() >= EXPOSURES_PER_ADVERTISER_MAX {
        shown.retain(|seen| is_live(seen));
        if shown.len() >= EXPOSURES_PER_ADVERTISER_MAX {
            return Err(ListFull);
        }
    }
    shown.push(exposure);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AdSerial, CampaignSerial, ZoneSerial};

    fn exposure(decision: u64) -> Exposure {
        Exposure {
            at_us: 0,
            life_us: 1,
            is_held: false,
            decision,
            zone: ZoneSerial(1),
            campaign: CampaignSerial(1),
            ad: AdSerial(1),
        }
    }

    /// In whatever order they come and go, each advertiser's list is its own.
    #[test]
    fn lists_are_found_among_many_and_gone_where_they_are_empty() {
        let name = |n: u64| AdvertiserId::from(format!("advertiser {n}").as_str());
        let mut lists = Lists::default();
        for n in 0..200 {
            // 77 has no common factor with 200: each once, out of order.
            assert_eq!(lists.add(&name(n * 77 % 200), exposure(n * 77 % 200), |_| true), Ok(true));
        }
        let of =
            |lists: &Lists, n| lists.of(&name(n)).iter().map(|s| s.decision).collect::<Vec<_>>();
        for n in 0..200 {
            assert_eq!(of(&lists, n), [n]);
        }
        assert!(lists.of(&name(200)).is_empty());
        for n in (0..200).step_by(2) {
            assert!(lists.remove(&name(n), |seen| seen.decision == n));
            assert!(!lists.remove(&name(n), |_| true));
        }
        assert_eq!(lists.iter().count(), 100);
        lists.retain(|seen| seen.decision % 3 == 0);
        for n in 0..200 {
            let expected = if n % 6 == 3 { vec![n] } else { vec![] };
            assert_eq!(of(&lists, n), expected);
        }
    }

    #[test]
    fn two_names_with_one_hash_have_a_list_each() {
        let [one, two] = AdvertiserId::with_one_hash(["one", "two"]);
        let mut lists = Lists::default();
        for (name, decision) in [(&two, 2), (&one, 1), (&two, 3)] {
            assert_eq!(lists.add(name, exposure(decision), |_| true), Ok(true));
        }
        let of = |name| lists.of(name).iter().map(|seen| seen.decision).collect::<Vec<_>>();
        assert_eq!((of(&one), of(&two)), (vec![1], vec![2, 3]));
    }
}
