//! What is known of one visitor of one account: a short list of showings for each advertiser,
//! and segments.

mod lists;
mod segments;

pub use segments::{Segment, SegmentsFull};

use lists::Lists;
use segments::Segments;

use super::{AdSerial, AdvertiserId, CampaignSerial, ZoneSerial};

/// Exposures kept for each advertiser. No cap may be larger, so a full list of exposures that
/// still count has reached every cap that could be asked of it.
pub const EXPOSURES_PER_ADVERTISER_MAX: usize = 200;

/// Advertisers with a list in one profile: with the bound above, 51,200 exposures of 40 bytes,
/// 2 MiB for the busiest visitor there can be.
pub const ADVERTISERS_IN_PROFILE_MAX: usize = 256;

/// Segments in one profile: what a visitor is said to be, e.g. "auto/in-market".
pub const SEGMENTS_IN_PROFILE_MAX: usize = 256;

/// One showing that a cap may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// When, in microseconds of Unix time.
    pub at_us: i64,
    /// For how long some cap counts it. Until then it is never evicted. Of one that is held: for
    /// how long it is.
    pub life_us: i64,
    /// Whether it is only a place that is held until the impression comes: it counts like any
    /// other until its life is over, and not a moment longer, whatever the cap's window.
    pub is_held: bool,
    /// The decision that showed it. With the ad it names one showing, so that the same one
    /// recorded twice is recognised.
    pub decision: u64,
    /// Where it was shown.
    pub zone: ZoneSerial,
    /// The ad's campaign.
    pub campaign: CampaignSerial,
    /// The ad.
    pub ad: AdSerial,
}

impl Exposure {
    /// How old it is at `now_us`. A clock that stepped back makes no exposure disappear.
    fn age_us(&self, now_us: i64) -> i64 {
        now_us.saturating_sub(self.at_us)
    }

    fn is_live(&self, now_us: i64) -> bool {
        self.age_us(now_us) < self.life_us
    }

    /// For how long a cap of this window counts it.
    pub(crate) fn counts_us(&self, window_us: i64) -> i64 {
        if self.is_held { window_us.min(self.life_us) } else { window_us }
    }

    /// Whether a cap of this window counts it.
    pub(crate) fn is_within(&self, window_us: i64, now_us: i64) -> bool {
        self.age_us(now_us) < self.counts_us(window_us)
    }

    /// Whether both are of the same showing.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.decision, self.ad) == (other.decision, other.ad)
    }

    /// Whether this says all that `other` does of the same showing: what is for good is more than
    /// what is held.
    pub fn covers(&self, other: &Self) -> bool {
        self.is_same(other) && (!self.is_held || other.is_held)
    }
}

/// The advertiser's list (or the profile) is full of exposures that still count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListFull;

/// One visitor's segments and capped lists, newest exposure last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    lists: Lists,
    /// Recorded since [`Profile::take_fresh`]: what the store has still to be told.
    fresh: Vec<(AdvertiserId, Exposure)>,
    segments: Segments,
}

impl Profile {
    /// What the visitor is said to be, in order of the names. One whose time is over may still be
    /// among them: see [`Segment::is_live`].
    pub fn segments(&self) -> &[Segment] {
        self.segments.as_slice()
    }

    /// Takes away `remove`, then adds `add`: a name that is there already gets the new end. What
    /// has lapsed goes first.
    ///
    /// # Errors
    /// [`SegmentsFull`] when more than [`SEGMENTS_IN_PROFILE_MAX`] would live; nothing has changed
    /// then.
    pub fn update_segments(
        &mut self,
        add: &[Segment],
        remove: &[String],
        now_us: i64,
    ) -> Result<(), SegmentsFull> {
        self.segments = self.segments.changed(add, remove, now_us)?;
        Ok(())
    }

    /// Puts `segments` in the place of those that are there: what a store has read back.
    pub fn set_segments(&mut self, segments: Vec<Segment>) {
        self.segments = Segments::new(segments);
    }

    /// Drops the segments whose time is over.
    pub fn lapse_segments(&mut self, now_us: i64) {
        self.segments.lapse(now_us);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty() && self.segments().is_empty()
    }

    /// What the visitor was shown of `advertiser`, oldest first.
    pub fn list(&self, advertiser: &AdvertiserId) -> &[Exposure] {
        self.lists.of(advertiser)
    }

    /// Every list with its advertiser, in no order that means anything.
    pub fn lists(&self) -> impl Iterator<Item = (&AdvertiserId, &[Exposure])> {
        self.lists.iter()
    }

    /// Exposures of `advertiser` younger than `window_us` that `counts` names.
    pub fn count(
        &self,
        advertiser: &AdvertiserId,
        window_us: i64,
        now_us: i64,
        counts: impl Fn(&Exposure) -> bool,
    ) -> usize {
        let within = |seen: &&Exposure| seen.is_within(window_us, now_us) && counts(seen);
        self.list(advertiser).iter().filter(within).count()
    }

    /// Whether one more exposure of `advertiser` can be recorded.
    pub fn has_room(&self, advertiser: &AdvertiserId, now_us: i64) -> bool {
        self.lists.has_room(advertiser, now_us)
    }

    /// Adds `exposure`; one that is there already is not added again, but one that is held becomes
    /// one for good where this is. Where room is needed, what no cap counts any more goes first.
    ///
    /// # Errors
    /// [`ListFull`] when all that is there still counts: nothing is evicted inside its window.
    pub fn record(
        &mut self,
        advertiser: &AdvertiserId,
        exposure: Exposure,
        now_us: i64,
    ) -> Result<(), ListFull> {
        if self.lists.add(advertiser, exposure, now_us)? {
            self.fresh.push((advertiser.clone(), exposure));
        }
        Ok(())
    }

    /// Frees the place that `showing` holds; what became an exposure for good stays. Returns
    /// whether there was one.
    pub fn release(&mut self, advertiser: &AdvertiserId, showing: &Exposure) -> bool {
        self.lists.remove(advertiser, |seen| seen.is_held && seen.is_same(showing))
    }

    /// Takes back what was recorded since the last [`Profile::take_fresh`].
    pub fn undo_fresh(&mut self) {
        for (advertiser, undone) in std::mem::take(&mut self.fresh) {
            self.lists.remove(&advertiser, |seen| seen.is_same(&undone));
        }
    }

    /// What was recorded since the last call.
    pub fn take_fresh(&mut self) -> Vec<(AdvertiserId, Exposure)> {
        std::mem::take(&mut self.fresh)
    }

    /// Has what is recorded from here on kept in `room`, which is emptied: the next
    /// [`Profile::take_fresh`] gives it back, and nothing has to be allocated in between.
    pub fn keep_fresh_in(&mut self, mut room: Vec<(AdvertiserId, Exposure)>) {
        room.clear();
        room.append(&mut self.fresh);
        self.fresh = room;
    }

    /// Drops segments whose time is over, what no cap asks for any more, and what is older than
    /// `history_us` anyway; returns whether anything is left.
    pub fn expire(&mut self, history_us: i64, now_us: i64) -> bool {
        self.lists.retain(|seen| seen.is_live(now_us) && seen.age_us(now_us) < history_us);
        self.lapse_segments(now_us);
        !self.is_empty()
    }

    /// Forgets what was shown until `floor_us`, that instant included, as if it had never been
    /// recorded. Segments stay: nothing says when they were given.
    pub fn forget_until(&mut self, floor_us: i64) {
        self.lists.retain(|seen| seen.at_us > floor_us);
        self.fresh.retain(|(_, seen)| seen.at_us > floor_us);
    }

    /// Forgets what happened after `now_us`: the profile as it stood then.
    pub fn rewind(&mut self, now_us: i64) {
        self.lists.retain(|seen| seen.at_us <= now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: i64 = 3_600_000_000;

    fn exposure(at_us: i64, decision: u64) -> Exposure {
        Exposure {
            at_us,
            life_us: HOUR_US,
            is_held: false,
            decision,
            zone: ZoneSerial(1),
            campaign: CampaignSerial(1),
            ad: AdSerial(1),
        }
    }

    #[test]
    fn nothing_is_evicted_inside_its_window() {
        let (mut profile, x) = (Profile::default(), AdvertiserId::from("x"));
        for showing in 0..200_u64 {
            profile.record(&x, exposure(i64::try_from(showing).unwrap(), showing), 200).unwrap();
        }
        assert_eq!(profile.record(&x, exposure(200, 200), 200), Err(ListFull));
        // The first has just ended its hour: it makes room for one, and for one only.
        assert_eq!(profile.record(&x, exposure(HOUR_US, 201), HOUR_US), Ok(()));
        assert_eq!(profile.record(&x, exposure(HOUR_US, 202), HOUR_US), Err(ListFull));
        assert_eq!(profile.list(&x).len(), 200);
    }

    #[test]
    fn one_advertisers_flood_leaves_the_others_alone() {
        let (mut profile, x, y) = (Profile::default(), "x".into(), "y".into());
        profile.record(&y, exposure(0, 1), 0).unwrap();
        for showing in 0..1_000 {
            let _ = profile.record(&x, exposure(1, showing), 1);
        }
        assert_eq!(profile.list(&y).len(), 1);
    }

    #[test]
    fn the_same_showing_is_recorded_once() {
        let (mut profile, x) = (Profile::default(), "x".into());
        profile.record(&x, exposure(0, 1), 0).unwrap();
        profile.record(&x, exposure(0, 1), 0).unwrap();
        assert_eq!(profile.list(&x).len(), 1);
    }

    #[test]
    fn a_full_profile_takes_a_new_advertiser_once_another_is_over() {
        let mut profile = Profile::default();
        for n in 0..ADVERTISERS_IN_PROFILE_MAX {
            let name = AdvertiserId::from(n.to_string().as_str());
            profile.record(&name, exposure(0, n as u64), 0).unwrap();
        }
        let late = AdvertiserId::from("late");
        assert_eq!(profile.record(&late, exposure(1, 999), 1), Err(ListFull));
        assert_eq!(profile.record(&late, exposure(HOUR_US, 999), HOUR_US), Ok(()));
        assert_eq!(profile.lists().count(), 1, "what was over has gone");
    }

    #[test]
    fn a_clock_that_steps_back_loses_no_exposure() {
        let (mut profile, x) = (Profile::default(), "x".into());
        profile.record(&x, exposure(1_000, 1), 1_000).unwrap();
        assert_eq!(profile.count(&x, HOUR_US, 0, |_| true), 1);
        profile.rewind(0);
        assert_eq!(profile.count(&x, HOUR_US, 0, |_| true), 0, "but a replay of the past does");
    }

    fn held(at_us: i64, decision: u64) -> Exposure {
        Exposure { life_us: 60, is_held: true, ..exposure(at_us, decision) }
    }

    #[test]
    fn a_hold_counts_until_its_time_is_over_and_an_impression_makes_it_permanent() {
        let (mut profile, x) = (Profile::default(), AdvertiserId::from("x"));
        let seen = |profile: &Profile, now_us| profile.count(&x, HOUR_US, now_us, |_| true);
        profile.record(&x, held(0, 1), 0).unwrap();
        assert_eq!([59, 60].map(|now_us| seen(&profile, now_us)), [1, 0]);
        assert_eq!(profile.count(&x, 10, 10, |_| true), 0, "a shorter window ends it before");
        profile.record(&x, exposure(0, 1), 30).unwrap();
        profile.record(&x, held(0, 1), 31).unwrap();
        profile.record(&x, exposure(0, 1), 32).unwrap();
        assert_eq!(profile.list(&x), [exposure(0, 1)]);
        assert_eq!([60, HOUR_US - 1, HOUR_US].map(|now_us| seen(&profile, now_us)), [1, 1, 0]);
        let fresh: Vec<_> = profile.take_fresh().into_iter().map(|(_, shown)| shown).collect();
        assert_eq!(fresh, [held(0, 1), exposure(0, 1)], "each is told once");
        assert!(!profile.release(&x, &held(0, 1)), "what was seen is not lost");
        assert_eq!(seen(&profile, 60), 1);
    }

    #[test]
    fn a_loss_frees_just_the_place_that_its_showing_holds() {
        let (mut profile, x, y) = (Profile::default(), "x".into(), "y".into());
        for decision in [1, 2] {
            profile.record(&x, held(0, decision), 0).unwrap();
        }
        assert!(!profile.release(&y, &held(0, 1)));
        assert!(profile.release(&x, &held(0, 1)));
        assert!(!profile.release(&x, &held(0, 1)));
        assert_eq!(profile.list(&x), [held(0, 2)]);
        // What is seen all the same counts.
        profile.record(&x, exposure(0, 1), 5).unwrap();
        assert_eq!(profile.list(&x), [held(0, 2), exposure(0, 1)]);
    }

    #[test]
    fn a_full_list_still_takes_the_impression_of_what_it_holds_and_drops_holds_that_are_over() {
        let (mut profile, x) = (Profile::default(), AdvertiserId::from("x"));
        for decision in 0..200 {
            profile.record(&x, held(0, decision), 0).unwrap();
        }
        assert_eq!(profile.record(&x, held(59, 200), 59), Err(ListFull));
        assert_eq!(profile.record(&x, exposure(0, 7), 59), Ok(()));
        assert_eq!(profile.record(&x, held(60, 200), 60), Ok(()));
        assert_eq!(profile.list(&x), [exposure(0, 7), held(60, 200)]);
    }

    #[test]
    fn what_was_shown_until_a_forget_is_gone_and_the_store_is_not_told() {
        let (mut profile, x, y) = (Profile::default(), "x".into(), "y".into());
        profile.record(&x, exposure(4, 1), 6).unwrap();
        profile.record(&y, exposure(5, 2), 6).unwrap();
        profile.record(&y, exposure(6, 3), 6).unwrap();
        profile.forget_until(5);
        assert_eq!(profile.lists().collect::<Vec<_>>(), [(&y, &[exposure(6, 3)][..])]);
        assert_eq!(profile.take_fresh(), [(y, exposure(6, 3))]);
        profile.forget_until(6);
        assert!(profile.is_empty());
        assert_eq!(profile, Profile::default());
    }
}
