//! What a visitor was shown, by advertiser.
//!
//! A busy visitor has hundreds of lists, and a decision waits for every piece of memory that it has
//! to look up: so an advertiser is found in an array of hashes, four bytes for each list, and only
//! the list that is meant is touched. Each has its first showing in itself, as most visitors saw
//! one of most advertisers.

use smallvec::SmallVec;

use super::{ADVERTISERS_IN_PROFILE_MAX, EXPOSURES_PER_ADVERTISER_MAX, Exposure, ListFull};
use crate::model::AdvertiserId;

/// Hashes that are compared at once.
const AT_ONCE: usize = 16;

/// One of them: never empty, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    of: AdvertiserId,
    shown: SmallVec<[Exposure; 1]>,
}

/// All of one visitor's, in no order that means anything.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    /// Of each list a part of its advertiser's hash.
    hashes: SmallVec<[u32; 4]>,
    lists: Vec<List>,
    /// Until then, in microseconds of Unix time, each list has something that is live: there is no
    /// room for one more where there are as many as there may be.
    live_until_us: i64,
}

impl PartialEq for Lists {
    fn eq(&self, other: &Self) -> bool {
        let is_in_other = |list: &List| other.of(&list.of) == list.shown.as_slice();
        self.lists.len() == other.lists.len() && self.lists.iter().all(is_in_other)
    }
}

impl Eq for Lists {}

impl Lists {
    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&AdvertiserId, &[Exposure])> {
        self.lists.iter().map(|list| (&list.of, list.shown.as_slice()))
    }

    /// The list of `advertiser`.
    pub(super) fn of(&self, advertiser: &AdvertiserId) -> &[Exposure] {
        self.place(advertiser).map_or(&[], |at| self.lists[at].shown.as_slice())
    }

    /// Where the advertiser's list is.
    fn place(&self, advertiser: &AdvertiserId) -> Option<usize> {
        let hash = short(advertiser);
        for (number, hashes) in self.hashes.chunks(AT_ONCE).enumerate() {
            // All of them, whatever the first says: the compiler compares them in one step.
            if !hashes.iter().fold(false, |is_any, one| is_any | (*one == hash)) {
                continue;
            }
            let first = number * AT_ONCE;
            let mut of_hash = (first..).zip(hashes).filter(|(_, one)| **one == hash);
            // Two names with one hash are rare, but they may be.
            if let Some((at, _)) = of_hash.find(|(at, _)| self.lists[*at].of == *advertiser) {
                return Some(at);
            }
        }
        None
    }

    /// Whether there is room for one more of `advertiser`, where what is not live may go for it.
    pub(super) fn has_room(&self, advertiser: &AdvertiserId, now_us: i64) -> bool {
        match self.place(advertiser) {
            Some(at) => {
                let shown = &self.lists[at].shown;
                let is_live = |seen: &Exposure| seen.is_live(now_us);
                shown.len() < EXPOSURES_PER_ADVERTISER_MAX || !shown.iter().all(is_live)
            }
            None => {
                let is_over = |list: &List| list.live_until_us() <= now_us;
                self.lists.len() < ADVERTISERS_IN_PROFILE_MAX || self.lists.iter().any(is_over)
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
        now_us: i64,
    ) -> Result<bool, ListFull> {
        let Some(at) = self.place(advertiser) else {
            self.make_room(now_us)?;
            if self.lists.len() == self.lists.capacity() {
                // Most visitors have few: twice as many at once would mostly stay empty.
                self.lists.reserve_exact(self.lists.len() / 2 + 1);
            }
            self.hashes.push(short(advertiser));
            let shown = SmallVec::from_buf([exposure]);
            self.lists.push(List { of: advertiser.clone(), shown });
            return Ok(true);
        };
        let shown = &mut self.lists[at].shown;
        if let Some(seen) = shown.iter_mut().find(|seen| seen.is_same(&exposure)) {
            let is_more = !seen.covers(&exposure);
            if is_more {
                *seen = exposure;
                // It may live shorter than the one before.
                self.live_until_us = i64::MIN;
            }
            return Ok(is_more);
        }
        if shown.len() >= EXPOSURES_PER_ADVERTISER_MAX {
            shown.retain(|seen| seen.is_live(now_us));
            if shown.len() >= EXPOSURES_PER_ADVERTISER_MAX {
                return Err(ListFull);
            }
        }
        shown.push(exposure);
        Ok(true)
    }

    /// Sees that there is room for one more list.
    fn make_room(&mut self, now_us: i64) -> Result<(), ListFull> {
        if self.lists.len() < ADVERTISERS_IN_PROFILE_MAX {
            self.live_until_us = i64::MIN;
            return Ok(());
        }
        if now_us < self.live_until_us {
            return Err(ListFull);
        }
        let before = self.lists.len();
        self.lists.retain(|list| list.live_until_us() > now_us);
        if self.lists.len() < before {
            self.hash_anew();
            return Ok(());
        }
        let first_us = self.lists.iter().map(List::live_until_us).min();
        self.live_until_us = first_us.unwrap_or(i64::MIN);
        Err(ListFull)
    }

    /// Takes what `is_meant` out of the advertiser's list; returns whether there was any.
    pub(super) fn remove(
        &mut self,
        advertiser: &AdvertiserId,
        is_meant: impl Fn(&Exposure) -> bool,
    ) -> bool {
        let Some(at) = self.place(advertiser) else { return false };
        let shown = &mut self.lists[at].shown;
        let before = shown.len();
        shown.retain(|seen| !is_meant(seen));
        let is_any = shown.len() < before;
        if shown.is_empty() {
            self.lists.swap_remove(at);
            self.hashes.swap_remove(at);
        }
        self.live_until_us = i64::MIN;
        is_any
    }

    /// Keeps what `stays` of all lists.
    pub(super) fn retain(&mut self, stays: impl Fn(&Exposure) -> bool) {
        self.lists.retain_mut(|list| {
            list.shown.retain(|seen| stays(seen));
            !list.shown.is_empty()
        });
        self.hash_anew();
    }

    fn hash_anew(&mut self) {
        self.hashes = self.lists.iter().map(|list| short(&list.of)).collect();
        self.live_until_us = i64::MIN;
    }
}

impl List {
    /// When nothing of it is live any more.
    fn live_until_us(&self) -> i64 {
        let ends = self.shown.iter().map(|seen| seen.at_us.saturating_add(seen.life_us));
        ends.max().unwrap_or(i64::MIN)
    }
}

fn short(advertiser: &AdvertiserId) -> u32 {
    // Any part of a hash is one.
    #[allow(clippy::cast_possible_truncation)]
    let short = advertiser.hash() as u32;
    short
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
            assert_eq!(lists.add(&name(n * 77 % 200), exposure(n * 77 % 200), 0), Ok(true));
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
            assert_eq!(lists.add(name, exposure(decision), 0), Ok(true));
        }
        let of = |name| lists.of(name).iter().map(|seen| seen.decision).collect::<Vec<_>>();
        assert_eq!((of(&one), of(&two)), (vec![1], vec![2, 3]));
    }

    /// What is remembered of a full profile must not outlive what it was remembered of.
    #[test]
    fn a_full_profile_has_room_as_soon_as_one_list_is_over() {
        let name = |n: usize| AdvertiserId::from(format!("advertiser {n}").as_str());
        let shown = |decision, life_us| Exposure { life_us, ..exposure(decision) };
        let full = || {
            let mut lists = Lists::default();
            for n in 0..ADVERTISERS_IN_PROFILE_MAX {
                assert_eq!(
                    lists.add(&name(n), shown(n as u64, 1_000 + i64::try_from(n).unwrap()), 0),
                    Ok(true)
                );
            }
            assert_eq!(lists.add(&name(999), shown(999, 1), 1), Err(ListFull));
            lists
        };
        let takes =
            |lists: &mut Lists, now_us| lists.add(&name(999), shown(999, 1), now_us).is_ok();
        // Nothing happens: the first one ends at 1,000.
        let mut lists = full();
        assert_eq!([998, 999, 1_000].map(|now_us| takes(&mut lists, now_us)), [false, false, true]);
        // That one is shown again.
        let mut lists = full();
        assert_eq!(lists.add(&name(0), shown(888, 5_000), 2), Ok(true));
        assert_eq!([1_000, 1_001].map(|now_us| takes(&mut lists, now_us)), [false, true]);
        // Another is said anew, and lives shorter now.
        let mut lists = full();
        let held = Exposure { is_held: true, ..shown(888, 4_000) };
        assert!(lists.remove(&name(7), |_| true));
        assert_eq!(lists.add(&name(7), held, 2), Ok(true));
        assert_eq!(lists.add(&name(999), shown(999, 1), 3), Err(ListFull));
        assert_eq!(lists.add(&name(7), shown(888, 10), 4), Ok(true));
        assert_eq!([9, 10].map(|now_us| takes(&mut lists, now_us)), [false, true]);
        // One is taken out.
        let mut lists = full();
        assert!(lists.remove(&name(9), |_| true));
        assert!(takes(&mut lists, 2));
        // Some are kept.
        let mut lists = full();
        lists.retain(|seen| seen.decision != 9);
        assert!(takes(&mut lists, 2));
    }

    #[test]
    fn lists_are_equal_in_whatever_order_they_came() {
        let lists = |order: [u64; 3]| {
            let mut lists = Lists::default();
            for n in order {
                let name = AdvertiserId::from(n.to_string().as_str());
                assert_eq!(lists.add(&name, exposure(n), 0), Ok(true));
            }
            lists
        };
        assert_eq!(lists([1, 2, 3]), lists([3, 1, 2]));
        assert_ne!(lists([1, 2, 3]), lists([1, 2, 4]));
    }
}
