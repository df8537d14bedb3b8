//! Caps that hold across all nodes: what has to be asked of the store, and what it said.

use crate::model::{AdSerial, AdvertiserId, Cap, Exposure};

/// Candidates that the store is asked about for one answer: the best of them; the others of
/// campaigns with strict caps are not shown this time. Some kilobytes and one short script.
pub const STRICT_CANDIDATES_MAX: usize = 16;

/// What is known of campaigns with strict caps.
#[derive(Clone, Copy, Debug)]
pub enum Strict<'a> {
    /// The profile is all there is: one node keeps it, and its caps are strict anyway.
    Local,
    /// Nothing yet: say what is to be asked, should any of their ads win.
    Ask,
    /// Just these ads may win: the store has admitted them, and recorded them in the profile.
    Granted(&'a [AdSerial]),
    /// None may win: nobody can say that their caps hold.
    Withheld,
}

/// What the store is asked to admit, under its own view of the visitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrictAsk {
    /// How many ads the answer holds at most.
    pub count: usize,
    /// At most [`STRICT_CANDIDATES_MAX`], best first.
    pub candidates: Vec<StrictCandidate>,
}

/// One ad that wins if its caps hold everywhere and the answer is not full before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrictCandidate {
    /// Whose list counts it.
    pub advertiser: AdvertiserId,
    /// What is recorded if it is admitted.
    pub exposure: Exposure,
    /// All must hold.
    pub caps: Box<[Cap]>,
    /// Places of the answer that better ads of other campaigns take: it is in only if these and
    /// the admitted ones before it are fewer than [`StrictAsk::count`].
    pub taken_before: usize,
}
