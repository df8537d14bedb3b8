//! The segments of one visitor: a short list in order of their names, each with its end.

use std::collections::BTreeMap;

use super::SEGMENTS_IN_PROFILE_MAX;

/// Something that the visitor is said to be, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `<family>/<name>`.
    pub name: String,
    /// When it lapses, in microseconds of Unix time.
    pub expires_us: i64,
}

impl Segment {
    /// Whether its time is not over yet.
    pub fn is_live(&self, now_us: i64) -> bool {
        now_us < self.expires_us
    }
}

/// There would be more than [`SEGMENTS_IN_PROFILE_MAX`] segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentsFull;

/// Segments in order of their names; no name twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Segments(Vec<Segment>);

impl Segments {
    /// The segments of `all`; of two with one name the later.
    pub(super) fn new(all: Vec<Segment>) -> Self {
        let by_name: BTreeMap<_, _> = all.into_iter().map(|s| (s.name, s.expires_us)).collect();
        let segment = |(name, expires_us)| Segment { name, expires_us };
        Self(by_name.into_iter().map(segment).collect())
    }

    pub(super) fn as_slice(&self) -> &[Segment] {
        &self.0
    }

    /// What is there after `remove` and then `add`, without what has lapsed.
    pub(super) fn changed(
        &self,
        add: &[Segment],
        remove: &[String],
        now_us: i64,
    ) -> Result<Self, SegmentsFull> {
        let stays = self.0.iter().filter(|segment| !remove.contains(&segment.name));
        let mut next = Self::new(stays.chain(add).cloned().collect());
        next.lapse(now_us);
        if next.0.len() > SEGMENTS_IN_PROFILE_MAX { Err(SegmentsFull) } else { Ok(next) }
    }

    /// Drops those whose time is over.
    pub(super) fn lapse(&mut self, now_us: i64) {
        self.0.retain(|segment| segment.is_live(now_us));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::*;

    fn segment(name: &str, expires_us: i64) -> Segment {
        Segment { name: name.to_owned(), expires_us }
    }

    fn names(profile: &Profile) -> Vec<&str> {
        profile.segments().iter().map(|segment| segment.name.as_str()).collect()
    }

    #[test]
    fn segments_are_added_renewed_and_removed_in_order_of_their_names() {
        let mut profile = Profile::default();
        let add = [segment("b/2", 10), segment("a/1", 10), segment("c/3", 10)];
        profile.update_segments(&add, &[], 0).unwrap();
        assert_eq!(names(&profile), ["a/1", "b/2", "c/3"]);
        profile.update_segments(&[segment("a/1", 99)], &["c/3".into(), "d/4".into()], 1).unwrap();
        assert_eq!(profile.segments(), [segment("a/1", 99), segment("b/2", 10)]);
        profile.update_segments(&[segment("b/2", 5)], &[], 1).unwrap();
        assert_eq!(profile.segments(), [segment("a/1", 99), segment("b/2", 5)], "a shorter life");
    }

    #[test]
    fn a_segment_lapses_at_its_time_and_not_before() {
        let mut profile = Profile::default();
        profile.update_segments(&[segment("a/1", 10), segment("b/2", 11)], &[], 0).unwrap();
        profile.lapse_segments(9);
        assert_eq!(names(&profile), ["a/1", "b/2"]);
        profile.lapse_segments(10);
        assert_eq!(names(&profile), ["b/2"]);
        profile.update_segments(&[segment("c/3", 11)], &[], 11).unwrap();
        assert!(profile.is_empty(), "neither what lapsed nor what never lived is there");
    }

    #[test]
    fn a_full_list_refuses_one_more_and_stays_as_it_was() {
        let mut profile = Profile::default();
        let all: Vec<_> = (0..256).map(|n| segment(&format!("f/{n:03}"), 10 + n)).collect();
        profile.update_segments(&all, &[], 0).unwrap();
        let before = profile.clone();
        let late = [segment("late/1", 900)];
        assert_eq!(profile.update_segments(&late, &["none/0".into()], 9), Err(SegmentsFull));
        assert_eq!(profile, before, "also what would have been removed is there");
        profile.update_segments(&[segment("f/007", 900)], &[], 9).unwrap();
        assert_eq!(profile.segments().len(), 256, "one that is there takes no room");
        profile.update_segments(&late, &["f/255".into()], 9).unwrap();
        assert_eq!(profile.segments().len(), 256, "removed first, then added");
        profile.update_segments(&[segment("late/2", 900)], &[], 10).unwrap();
        assert_eq!(profile.segments().len(), 256, "the first has lapsed and made room");
        let too_many: Vec<_> = (0..257).map(|n| segment(&format!("g/{n}"), 10)).collect();
        assert_eq!(Profile::default().update_segments(&too_many, &[], 0), Err(SegmentsFull));
    }

    #[test]
    fn what_a_store_reads_back_is_sorted_and_named_once() {
        let mut profile = Profile::default();
        profile.set_segments(vec![segment("b/2", 1), segment("a/1", 2), segment("b/2", 3)]);
        assert_eq!(profile.segments(), [segment("a/1", 2), segment("b/2", 3)]);
        profile.set_segments(Vec::new());
        assert_eq!(profile, Profile::default());
    }

    #[test]
    fn a_profile_with_a_live_segment_is_kept() {
        let mut profile = Profile::default();
        profile.update_segments(&[segment("a/1", 10)], &[], 0).unwrap();
        assert!(profile.expire(1, 9));
        assert_eq!(names(&profile), ["a/1"]);
        assert!(!profile.expire(1, 10));
        assert_eq!(profile, Profile::default());
    }
}
