//! Where a search has come to, so that it can go on from there.

use super::top::Candidate;

/// Where the search has come to: everything better has been found or turned down.
pub(super) struct Last {
    pub(super) tier: i32,
    score: f64,
    arrival: f64,
    /// The positions that were found and are equal to the last one, in order.
    equal: Vec<u32>,
}

impl Last {
    pub(super) fn new(last: &Candidate, found: &[Candidate]) -> Self {
        let Candidate { tier, score, arrival, .. } = *last;
        let is_equal = |one: &&Candidate| (one.tier, one.score) == (tier, score);
        let equal = found.iter().rev().take_while(is_equal).map(|one| one.position);
        let mut equal: Vec<u32> = equal.collect();
        equal.sort_unstable();
        Self { tier, score, arrival, equal }
    }

    /// From when on those with this score arrive; nothing where all of them were found.
    pub(super) fn since(last: Option<&Self>, tier: i32, score: f64) -> Option<f64> {
        match last {
            Some(last) if tier == last.tier && score > last.score => None,
            Some(last) if tier == last.tier && score == last.score => Some(last.arrival),
            _ => Some(0.0),
        }
    }

    /// Whether the ad was found already.
    pub(super) fn has(&self, tier: i32, score: f64, position: u32) -> bool {
        (self.tier, self.score) == (tier, score) && self.equal.binary_search(&position).is_ok()
    }
}
