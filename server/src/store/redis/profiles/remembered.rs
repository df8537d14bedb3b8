//! What a node remembers of one visitor: the profile as the store said it last, with what the node
//! itself has shown, and of that what the store has still to confirm.

use std::ops::Range;

use slotwise_core::model::{AdvertiserId, Exposure, Profile};
use tokio::time::Instant;

use super::record::Stored;

/// See the module.
#[derive(Debug)]
pub(super) struct Remembered {
    /// Everything that is known, `unconfirmed` included.
    pub(super) profile: Profile,
    /// In the order in which they were shown, numbered.
    unconfirmed: Vec<(u64, (AdvertiserId, Exposure))>,
    /// The number that was given last.
    last: u64,
    /// What was shown until then is forgotten.
    forgotten_until_us: i64,
    /// The latest instant that a decision had.
    pub(super) now_us: i64,
    /// Whether somebody sees to it already that what is unconfirmed is sent.
    pub(super) is_queued: bool,
    /// Whether the store did not take it when it was last told.
    pub(super) is_failing: bool,
    /// When a decision last asked.
    pub(super) used: Instant,
    /// What the store said last holds for decisions of these instants; nothing: for none.
    said_us: Option<Range<i64>>,
    /// What the store calls what it said last: the profile but for what is unconfirmed. Nothing: it
    /// has no name, or is not known as a whole.
    name: Option<Box<str>>,
}

impl Default for Remembered {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            unconfirmed: Vec::new(),
            last: 0,
            forgotten_until_us: 0,
            now_us: 0,
            is_queued: false,
            is_failing: false,
            used: Instant::now(),
            said_us: None,
            name: None,
        }
    }
}

impl Remembered {
    /// A decision of this instant asks.
    pub(super) fn meet(&mut self, now_us: i64) {
        self.now_us = self.now_us.max(now_us);
        self.used = Instant::now();
    }

    /// Whether the store said all that there is to know less than `fresh_us` before the decision
    /// that asks now.
    pub(super) fn is_fresh(&self, fresh_us: i64) -> bool {
        self.unconfirmed.is_empty()
            && self.said_us.as_ref().is_some_and(|said_us| {
                said_us.contains(&self.now_us) && self.now_us - said_us.start < fresh_us
            })
    }

    /// What the store has still to confirm, oldest first.
    pub(super) fn unconfirmed(&self) -> impl Iterator<Item = &(AdvertiserId, Exposure)> {
        self.unconfirmed.iter().map(|(_, shown)| shown)
    }

    /// The number of the last exposure that is unconfirmed; nothing where all are.
    pub(super) fn awaits(&self) -> Option<u64> {
        self.unconfirmed.last().map(|(number, _)| *number)
    }

    /// Whether all is confirmed up to this number.
    pub(super) fn is_confirmed(&self, number: u64) -> bool {
        self.unconfirmed.first().is_none_or(|(first, _)| *first > number)
    }

    /// Takes what a decision recorded; returns how many exposures are unconfirmed since.
    pub(super) fn take_fresh(&mut self) -> usize {
        if self.forgotten_until_us > 0 {
            self.profile.forget_until(self.forgotten_until_us);
        }
        let fresh = self.profile.take_fresh();
        self.push(fresh)
    }

    fn push(&mut self, shown: Vec<(AdvertiserId, Exposure)>) -> usize {
        let count = shown.len();
        for shown in shown {
            self.last += 1;
            self.unconfirmed.push((self.last, shown));
        }
        count
    }

    /// What the store says, and what of our own it does not have: that stays known, and is
    /// unconfirmed from now on, where it was not before. Returns how many exposures that are.
    ///
    /// So a store that lost something is told again. Left out is what no cap counts any more, what
    /// was forgotten meanwhile, and a hold that the store knew: another node has released it.
    pub(super) fn learn(&mut self, stored: Stored) -> usize {
        self.learn_without(stored, &[])
    }

    /// The same where `told` is either in what the store says, or was left out by it: there was no
    /// room, or no cap counts it.
    fn learn_without(&mut self, stored: Stored, told: &[(u64, (AdvertiserId, Exposure))]) -> usize {
        self.forgotten_until_us = self.forgotten_until_us.max(stored.forgotten_until_us);
        let (floor_us, now_us) = (self.forgotten_until_us, self.now_us);
        let mut profile = stored.profile;
        profile.forget_until(floor_us);
        let counts = |shown: &&Exposure| {
            shown.at_us > floor_us
                && now_us.saturating_sub(shown.at_us) < shown.life_us
                && !told.iter().any(|(_, (_, told))| told.covers(shown))
                && (!shown.is_held || self.unconfirmed().any(|(_, known)| known.is_same(shown)))
        };
        for (advertiser, list) in self.profile.lists() {
            // As nearly always; the rest is for when something was lost, or comes late.
            if profile.list(advertiser) == list {
                continue;
            }
            for shown in list.iter().filter(counts) {
                // A list that is full without it is as capped as it can be.
                let _ = profile.record(advertiser, *shown, now_us);
            }
        }
        let mut missing = profile.take_fresh();
        missing.retain(|(_, shown)| !self.unconfirmed().any(|(_, known)| known.covers(shown)));
        // The end of a hold may be where another node has made it permanent.
        let held = profile.lists().flat_map(|(_, list)| list).filter(|shown| shown.is_held);
        let holds_end_us = held.map(|held| held.at_us.saturating_add(held.life_us)).min();
        self.said_us = Some(now_us..holds_end_us.unwrap_or(i64::MAX));
        self.name = stored.name;
        self.profile = profile;
        self.push(missing)
    }

    /// The store was told everything up to this number, and this is what it says. Returns how
    /// many exposures need no confirmation any more, and how many others do.
    pub(super) fn confirm(&mut self, number: u64, stored: Stored) -> (usize, usize) {
        let untold = self.unconfirmed.partition_point(|(of, _)| *of <= number);
        let told: Vec<_> = self.unconfirmed.drain(..untold).collect();
        (told.len(), self.learn_without(stored, &told))
    }

    /// The store says that what it calls `known` is all that it has, still. Says whether that is
    /// what is remembered; if not, it is something later.
    pub(super) fn confirm_known(&mut self, known: &str) -> bool {
        let is_known = self.name.as_deref() == Some(known);
        if let Some(said_us) = self.said_us.as_mut().filter(|_| is_known) {
            said_us.start = self.now_us;
        }
        is_known
    }

    /// The store was told everything up to this number, and it has just that beside what it called
    /// `known`; all this is called `name`. Returns how many exposures need no confirmation any more.
    pub(super) fn confirm_told(&mut self, number: u64, known: &str, name: &str) -> usize {
        let untold = self.unconfirmed.partition_point(|(of, _)| *of <= number);
        let told: Vec<_> = self.unconfirmed.drain(..untold).collect();
        // Where something later was said meanwhile, that is not what is remembered.
        if self.confirm_known(known) {
            self.name = Some(name).filter(|name| !name.is_empty()).map(Box::from);
            let held = told.iter().map(|(_, (_, shown))| shown).filter(|shown| shown.is_held);
            let end_us = held.map(|held| held.at_us.saturating_add(held.life_us)).min();
            if let (Some(said_us), Some(end_us)) = (&mut self.said_us, end_us) {
                said_us.end = said_us.end.min(end_us);
            }
        }
        told.len()
    }

    /// What the store calls what is remembered of it.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// It is not known as a whole what the store has.
    fn lose_track(&mut self) {
        (self.said_us, self.name) = (None, None);
    }

    /// Frees the place that `showing` holds; returns how many exposures need no confirmation any
    /// more.
    pub(super) fn release(&mut self, advertiser: &AdvertiserId, showing: &Exposure) -> usize {
        self.lose_track();
        self.profile.release(advertiser, showing);
        let before = self.unconfirmed.len();
        self.unconfirmed.retain(|(_, (_, shown))| !(shown.is_held && shown.is_same(showing)));
        before - self.unconfirmed.len()
    }

    /// Forgets what was shown until then, and every segment; returns how many exposures need no
    /// confirmation any more.
    pub(super) fn forget(&mut self, until_us: i64) -> usize {
        self.lose_track();
        self.forgotten_until_us = self.forgotten_until_us.max(until_us);
        self.profile.forget_until(until_us);
        self.profile.set_segments(Vec::new());
        let before = self.unconfirmed.len();
        self.unconfirmed.retain(|(_, (_, shown))| shown.at_us > until_us);
        before - self.unconfirmed.len()
    }

    /// Forgets everything, also what somebody with a clock ahead of ours has shown; returns how
    /// many exposures need no confirmation any more.
    pub(super) fn forget_all(&mut self, until_us: i64) -> usize {
        self.forgotten_until_us = self.forgotten_until_us.max(until_us);
        self.lose_track();
        self.profile = Profile::default();
        std::mem::take(&mut self.unconfirmed).len()
    }

    /// Forgets all that the store has.
    pub(super) fn forget_confirmed(&mut self) {
        self.lose_track();
        self.profile = Profile::default();
        for (_, (advertiser, shown)) in &self.unconfirmed {
            let _ = self.profile.record(advertiser, *shown, self.now_us);
        }
        self.profile.take_fresh();
    }
}

#[cfg(test)]
mod tests {
    use slotwise_core::model::{AdSerial, CampaignSerial, Segment, ZoneSerial};

    use super::*;

    const LIFE_US: i64 = 100;

    fn exposure(at_us: i64) -> Exposure {
        Exposure {
            at_us,
            life_us: LIFE_US,
            is_held: false,
            decision: at_us.unsigned_abs(),
            zone: ZoneSerial(1),
            campaign: CampaignSerial(1),
            ad: AdSerial(1),
        }
    }

    fn profile(shown: &[i64]) -> Profile {
        let mut profile = Profile::default();
        for at_us in shown {
            profile.record(&"x".into(), exposure(*at_us), *at_us).unwrap();
        }
        profile.take_fresh();
        profile
    }

    fn stored(shown: &[i64]) -> Stored {
        Stored { profile: profile(shown), ..Stored::default() }
    }

    fn shown(remembered: &Remembered) -> Vec<i64> {
        remembered.profile.list(&"x".into()).iter().map(|shown| shown.at_us).collect()
    }

    fn untold(remembered: &Remembered) -> Vec<i64> {
        remembered.unconfirmed().map(|(_, shown)| shown.at_us).collect()
    }

    /// Knows what the store said, and has shown more since.
    fn remembered(said: &[i64], since: &[i64]) -> Remembered {
        let mut remembered = Remembered::default();
        assert_eq!(remembered.learn(stored(said)), 0);
        for at_us in since {
            remembered.meet(*at_us);
            remembered.profile.record(&"x".into(), exposure(*at_us), *at_us).unwrap();
        }
        assert_eq!(remembered.take_fresh(), since.len());
        remembered
    }

    #[test]
    fn what_the_store_said_is_fresh_for_a_while() {
        let is_fresh = |remembered: &mut Remembered, now_us| {
            remembered.meet(now_us);
            remembered.is_fresh(10)
        };
        let mut new = Remembered::default();
        assert!(!is_fresh(&mut new, 0), "it has said nothing");
        let mut known = remembered(&[1], &[]);
        known.meet(5);
        known.learn(stored(&[1]));
        assert_eq!([5, 14, 15].map(|now_us| is_fresh(&mut known, now_us)), [true, true, false]);
        assert!(!known.is_fresh(0), "as nobody wants it to be");
        let mut since = remembered(&[1], &[2]);
        assert!(!is_fresh(&mut since, 2), "it has still to confirm something");
        let number = since.awaits().unwrap();
        since.confirm(number, stored(&[1, 2]));
        assert!(is_fresh(&mut since, 3));
        since.forget(1);
        assert!(!is_fresh(&mut since, 3), "it was not asked since");
    }

    fn named(name: &str, shown: &[i64]) -> Stored {
        Stored { name: Some(name.into()), ..stored(shown) }
    }

    #[test]
    fn what_is_as_expected_has_the_name_that_it_was_given() {
        let mut remembered = remembered(&[1], &[]);
        remembered.learn(named("one", &[1]));
        remembered.profile.record(&"x".into(), exposure(2), 2).unwrap();
        remembered.take_fresh();
        let number = remembered.awaits().unwrap();
        remembered.meet(9);
        assert_eq!(remembered.confirm_told(number, "one", "two"), 1);
        assert_eq!((remembered.name(), remembered.awaits()), (Some("two"), None));
        assert_eq!(shown(&remembered), [1, 2]);
        remembered.meet(18);
        assert!(remembered.is_fresh(10), "it was said at 9");
        assert!(!remembered.confirm_known("one"));
        remembered.meet(19);
        assert!(!remembered.is_fresh(10), "that says nothing of what is remembered");
        assert!(remembered.confirm_known("two"));
        assert!(remembered.is_fresh(10));
        remembered.release(&"x".into(), &exposure(2));
        assert_eq!(remembered.name(), None, "the store may still have it");
    }

    /// A reply that was passed by another one on the way.
    #[test]
    fn what_was_said_later_keeps_its_name() {
        let mut remembered = remembered(&[1], &[2]);
        remembered.learn(named("one", &[1]));
        let number = remembered.awaits().unwrap();
        remembered.learn(named("three", &[1, 2, 3]));
        remembered.confirm_told(number, "one", "two");
        assert_eq!(remembered.name(), Some("three"));
        assert_eq!(shown(&remembered), [1, 2, 3]);
    }

    /// Another node may have made it permanent.
    #[test]
    fn what_the_store_said_is_not_fresh_when_a_hold_has_ended_since() {
        let mut profile = Profile::default();
        for (decision, life_us) in [(1, 60), (2, 7)] {
            let held = Exposure { is_held: true, life_us, decision, ..exposure(1) };
            profile.record(&"x".into(), held, 1).unwrap();
        }
        profile.take_fresh();
        let mut remembered = Remembered::default();
        remembered.learn(Stored { profile, ..Stored::default() });
        remembered.meet(7);
        assert!(remembered.is_fresh(10));
        remembered.meet(8);
        assert!(!remembered.is_fresh(10));
    }

    #[test]
    fn what_the_store_confirms_is_awaited_no_more() {
        let mut remembered = remembered(&[1], &[2, 3]);
        let number = remembered.awaits().unwrap();
        remembered.profile.record(&"x".into(), exposure(4), 4).unwrap();
        assert_eq!(remembered.take_fresh(), 1);
        assert!(!remembered.is_confirmed(number));
        assert_eq!(remembered.confirm(number, stored(&[1, 9, 2, 3])), (2, 0));
        assert!(remembered.is_confirmed(number));
        assert_eq!(shown(&remembered), [1, 9, 2, 3, 4], "another node's is known, too");
        assert_eq!(untold(&remembered), [4]);
    }

    #[test]
    fn what_the_store_lost_is_told_again_and_what_it_left_out_is_not() {
        let mut left_out = remembered(&[1], &[2, 3]);
        let number = left_out.awaits().unwrap();
        assert_eq!(left_out.confirm(number, stored(&[2])), (2, 1));
        assert_eq!(shown(&left_out), [2, 1], "3 found no room");
        assert_eq!(untold(&left_out), [1]);

        let mut emptied = remembered(&[1], &[2, 3]);
        assert_eq!(emptied.learn(stored(&[])), 1);
        assert_eq!(shown(&emptied), [1, 2, 3]);
        assert_eq!(untold(&emptied), [2, 3, 1], "each once");
        assert_eq!(emptied.learn(stored(&[])), 0);
    }

    fn held(at_us: i64) -> Exposure {
        Exposure { is_held: true, ..exposure(at_us) }
    }

    fn show(remembered: &mut Remembered, exposure: Exposure) -> usize {
        remembered.profile.record(&"x".into(), exposure, exposure.at_us).unwrap();
        remembered.take_fresh()
    }

    #[test]
    fn an_impression_outlives_the_reply_to_its_hold() {
        let mut remembered = Remembered::default();
        assert_eq!(show(&mut remembered, held(2)), 1);
        let number = remembered.awaits().unwrap();
        assert_eq!(show(&mut remembered, exposure(2)), 1);
        let mut said = Stored::default();
        said.profile.record(&"x".into(), held(2), 2).unwrap();
        said.profile.take_fresh();
        assert_eq!(remembered.confirm(number, said), (1, 0));
        assert_eq!(remembered.profile.list(&"x".into()), [exposure(2)]);
        assert_eq!(untold(&remembered), [2], "once");
    }

    #[test]
    fn a_hold_that_the_store_knew_and_has_no_more_was_released() {
        let mut remembered = Remembered::default();
        show(&mut remembered, held(2));
        assert_eq!(remembered.learn(stored(&[])), 0);
        assert_eq!(shown(&remembered), [2], "it was not told yet");
        let number = remembered.awaits().unwrap();
        let mut said = Stored::default();
        said.profile.record(&"x".into(), held(2), 2).unwrap();
        said.profile.take_fresh();
        remembered.confirm(number, said);
        assert_eq!(remembered.learn(stored(&[])), 0);
        assert_eq!((shown(&remembered), untold(&remembered)), (vec![], vec![]));
    }

    #[test]
    fn a_loss_takes_a_hold_that_is_still_to_be_told() {
        let mut remembered = Remembered::default();
        show(&mut remembered, held(2));
        show(&mut remembered, exposure(3));
        assert_eq!(remembered.release(&"x".into(), &held(2)), 1);
        assert_eq!(remembered.release(&"x".into(), &held(3)), 0, "it was seen");
        assert_eq!((shown(&remembered), untold(&remembered)), (vec![3], vec![3]));
    }

    #[test]
    fn what_is_over_is_not_told_again() {
        let mut remembered = remembered(&[1, 50], &[]);
        remembered.meet(1 + LIFE_US);
        assert_eq!(remembered.learn(stored(&[])), 1);
        assert_eq!(shown(&remembered), [50]);
    }

    #[test]
    fn what_was_forgotten_comes_from_neither_side() {
        let mut told = remembered(&[1], &[2, 6]);
        assert_eq!(told.forget(5), 1);
        assert_eq!((shown(&told), untold(&told)), (vec![6], vec![6]));
        // A reply of before, and an admission that is told late.
        assert_eq!(told.learn(stored(&[1, 2, 7])), 0);
        assert_eq!(shown(&told), [7, 6]);
        told.profile.record(&"x".into(), exposure(5), 5).unwrap();
        assert_eq!(told.take_fresh(), 0);
        assert_eq!(shown(&told), [7, 6]);

        let mut by_the_store = remembered(&[1], &[2, 6]);
        let said = Stored { forgotten_until_us: 5, ..stored(&[]) };
        let number = by_the_store.awaits().unwrap();
        assert_eq!(by_the_store.confirm(number, said), (2, 0));
        assert_eq!(shown(&by_the_store), [0; 0]);
    }

    #[test]
    fn all_of_it_goes_or_all_but_what_was_not_told() {
        let mut all = remembered(&[1], &[2, 9]);
        all.profile.set_segments(vec![Segment { name: "a/1".into(), expires_us: 99 }]);
        assert_eq!(all.forget_all(5), 2);
        assert!(all.profile.is_empty() && all.awaits().is_none());
        let mut confirmed = remembered(&[1], &[2, 9]);
        confirmed.forget_confirmed();
        assert_eq!((shown(&confirmed), untold(&confirmed)), (vec![2, 9], vec![2, 9]));
    }
}
