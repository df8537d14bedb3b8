//! Which ads to show: filter, rank, and admit under the visitor's caps. A pure function of the
//! zones' blocks, the table of campaigns, the visitor's profile, the instant and the seed.
//!
//! A decision goes in one direction. [`Decision::new`] takes the snapshot; [`Decision::look`]
//! finds the would-be winners and says whether the visitor's profile matters to any of them;
//! [`Decision::admit`] takes the profile (read meanwhile, where it matters) and settles the
//! answer, going on with the search wherever a would-be winner no longer fits. Caps that must hold
//! across nodes are asked of the store in between (see [`Strict`]).
//!
//! A decision fills the placements of one page, of which ChooseAds has one: the best (tier, score)
//! over the placements that have room is taken, that place is filled, and so on (`decide/settle`).

mod admission;
mod eligibility;
mod explain;
mod page;
mod query;
mod search;
mod settle;
mod strict;

use std::sync::Arc;

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use smallvec::SmallVec;

pub use eligibility::Verdict;
pub use explain::{Explained, Explainer, Reason};
pub use query::{Page, PageRules, Query};
pub use strict::{STRICT_CANDIDATES_MAX, Strict, StrictAsk, StrictCandidate};

use eligibility::Judge;
use search::{Candidate, Search};
use settle::{Barred, Picks, Rules};

use crate::index::{Campaigns, Entry, SizeCodes, ZoneBlock};
use crate::model::{Exposure, Profile};

/// The generator that every random choice comes from: small, fast, and the same on every
/// machine and in every release (Blackman and Vigna, <https://prng.di.unimi.it>).
pub type Rng = Xoshiro256PlusPlus;

/// One decision on its way.
pub struct Decision {
    page: Page,
    slots: SmallVec<[Slot; 1]>,
    barred: Barred,
    picks: Picks,
}

/// One placement on its way.
struct Slot {
    block: Arc<ZoneBlock>,
    query: Query,
    /// The codes of the sizes that fit.
    sizes: SizeCodes,
    /// Where the search's generator began.
    rng: Rng,
    search: Search,
}

/// An ad that the decision chose.
#[derive(Clone, Copy, Debug)]
pub struct Winner<'d> {
    /// The zone it is for.
    pub block: &'d ZoneBlock,
    /// The ad in its zone.
    pub entry: &'d Entry,
    /// eCPM x ln(1.1 + matched), in the account's currency per 1,000 impressions.
    pub score: f64,
    /// Distinct request keywords that the ad has.
    pub matched: u32,
    /// Which placement it is for, in the order in which they were given.
    pub placement: usize,
}

impl Decision {
    /// A decision over the placements of `page`, each a zone with what is asked of it.
    pub fn new(
        page: Page,
        placements: impl IntoIterator<Item = (Arc<ZoneBlock>, Query)>,
        mut rng: Rng,
    ) -> Self {
        let slot = |(number, (block, query)): (usize, (Arc<ZoneBlock>, Query))| {
            // Each placement has its own generator; the first one has the page's.
            let rng = match number {
                0 => rng.clone(),
                _ => Rng::seed_from_u64(rng.next_u64()),
            };
            let search = Slot::search(&block, &query, &rng);
            let sizes = block.size_codes(query.sizes(&block));
            Slot { block, query, sizes, rng, search }
        };
        let slots = placements.into_iter().enumerate().map(slot).collect();
        Self { page, slots, barred: Barred::default(), picks: Picks::new() }
    }

    /// Finds the would-be winners, and says whether what is stored of the visitor matters to any.
    /// Where it does not, they are the [`Decision::winners`].
    pub fn look(&mut self, campaigns: &Campaigns) -> bool {
        self.settle(campaigns, None, Rules::Look);
        self.picks.iter().any(|pick| pick.asks_profile)
    }

    /// Chooses up to `count` ads for each placement that also hold under the caps, and records in
    /// `profile` what a cap may ask for later, under the id `decision`. They are the
    /// [`Decision::winners`] then.
    ///
    /// `campaigns` is the table as it is now: what was switched off since [`Decision::look`] is
    /// passed over, and the search goes on. May be called again, on the profile as it is then.
    ///
    /// # Errors
    /// Given [`Strict::Ask`], what the store has to admit before an answer can be given; nothing
    /// is recorded then.
    pub fn admit(
        &mut self,
        campaigns: &Campaigns,
        profile: &mut Profile,
        decision: u64,
        strict: Strict<'_>,
    ) -> Result<(), StrictAsk> {
        if self.settle(campaigns, Some(&mut *profile), Rules::Admit { decision, strict }) {
            return Ok(());
        }
        profile.undo_fresh();
        let ask = self.strict_ask(campaigns, profile.clone(), decision);
        self.picks.clear();
        Err(ask)
    }

    /// Chooses as [`Decision::admit`] does where the profile cannot be known: whatever it could
    /// decide over is passed over.
    pub fn admit_unknown(&mut self, campaigns: &Campaigns) {
        self.settle(campaigns, None, Rules::Withhold);
    }

    /// What was chosen, in the order in which the places were filled.
    pub fn winners(&self) -> impl ExactSizeIterator<Item = Winner<'_>> {
        self.picks.iter().map(|pick| {
            let slot = &self.slots[pick.slot];
            Winner {
                block: &slot.block,
                entry: slot.entry(pick.candidate),
                score: pick.candidate.score,
                matched: pick.candidate.matched,
                placement: pick.slot,
            }
        })
    }

    /// Entries of the zones that were touched: steps over keywords' lists, and ads that were
    /// judged.
    pub fn touched(&self) -> usize {
        self.slots.iter().map(|slot| slot.search.touched()).sum()
    }

    fn exposure(&self, slot: usize, entry: &Entry, life_us: i64, decision: u64) -> Exposure {
        Exposure {
            at_us: self.page.now_us,
            life_us: self.page.holds_us.unwrap_or(life_us),
            is_held: self.page.holds_us.is_some(),
            decision,
            zone: self.slots[slot].block.zone.serial,
            campaign: entry.campaign,
            ad: entry.serial,
        }
    }
}

impl Slot {
    fn search(block: &ZoneBlock, query: &Query, rng: &Rng) -> Search {
        Search::new(block, &query.keywords, query.floor(block), query.count, rng.clone())
    }

    /// Begins the search anew.
    fn restart(&mut self) {
        self.search = Self::search(&self.block, &self.query, &self.rng);
    }

    fn entry(&self, candidate: Candidate) -> &Entry {
        &self.block.entries[candidate.position as usize]
    }

    /// The candidate at place `at`, best first, found when it is first asked for.
    fn candidate(
        &mut self,
        at: usize,
        page: &Page,
        campaigns: &Campaigns,
        profile: Option<&Profile>,
        barred: &Barred,
    ) -> Option<Candidate> {
        let found = self.search.found(at);
        if found.is_some() || self.search.is_over() {
            return found;
        }
        let Self { block, query, sizes, search, .. } = self;
        let judge = Judge::new(page, query, block, *sizes, campaigns, profile);
        search.go_on(block, |position| {
            let entry = &block.entries[position as usize];
            !barred.has(entry.campaign) && judge.admits(entry)
        });
        search.found(at)
    }

    fn judge<'a>(
        &'a self,
        page: &'a Page,
        campaigns: &'a Campaigns,
        profile: Option<&'a Profile>,
    ) -> Judge<'a> {
        Judge::new(page, &self.query, &self.block, self.sizes, campaigns, profile)
    }
}
