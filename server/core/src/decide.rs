//! Which ads to show: filter, rank, and admit under the visitor's caps. A pure function of the
//! zone's block, the table of campaigns, the visitor's profile, the instant and the seed.
//!
//! A decision goes in one direction. [`Decision::new`] takes the snapshot; [`Decision::look`]
//! finds the would-be winners and says whether the visitor's profile matters to any of them;
//! [`Decision::admit`] takes the profile (read meanwhile, where it matters) and settles the
//! answer, going on with the search wherever a would-be winner no longer fits.

mod admission;
mod eligibility;
mod search;

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;

pub use eligibility::{Query, Verdict};
pub use search::{Candidate, Search, score};

use crate::index::{Campaigns, Entry, ZoneBlock};
use crate::model::{Exposure, Profile};

/// The generator that every random choice comes from: small, fast, and the same on every
/// machine and in every release (Blackman and Vigna, <https://prng.di.unimi.it>).
pub type Rng = Xoshiro256PlusPlus;

/// One decision on its way.
pub struct Decision {
    block: Arc<ZoneBlock>,
    query: Query,
    search: Search,
    /// Found by [`Decision::look`], not yet admitted.
    ahead: Vec<Candidate>,
}

/// An ad that the decision chose.
#[derive(Clone, Copy, Debug)]
pub struct Winner<'d> {
    /// The ad in its zone.
    pub entry: &'d Entry,
    /// eCPM x ln(1.1 + matched), in the account's currency per 1,000 impressions.
    pub score: f64,
    /// Distinct request keywords that the ad has.
    pub matched: u32,
}

impl Decision {
    /// Ranks the ads of `block` for `query`.
    pub fn new(block: Arc<ZoneBlock>, query: Query, rng: &mut Rng) -> Self {
        let search = Search::new(&block, &query, rng);
        Self { block, query, search, ahead: Vec::new() }
    }

    /// Finds the would-be winners, and says whether the visitor's profile matters to any.
    pub fn look(&mut self, campaigns: &Campaigns) -> bool {
        let mut asks_profile = false;
        while self.ahead.len() < self.query.count {
            let Some(candidate) = self.next(campaigns) else { break };
            let entry = &self.block.entries[candidate.position];
            let row = campaigns.get(entry.campaign);
            asks_profile |= row.is_some_and(|row| row.exposure_life_us > 0);
            self.ahead.push(candidate);
        }
        asks_profile
    }

    /// Chooses up to `count` ads that also hold under the caps, best first, and records in
    /// `profile` what a cap may ask for later, under the id `decision`.
    ///
    /// `campaigns` is the table as it is now: what was switched off since [`Decision::look`] is
    /// passed over, and the search goes on.
    pub fn admit(
        &mut self,
        campaigns: &Campaigns,
        profile: &mut Profile,
        decision: u64,
    ) -> Vec<Winner<'_>> {
        self.settle(campaigns, Some(profile), decision)
    }

    /// Chooses as [`Decision::admit`] does where the profile cannot be known: whatever some cap
    /// may ask for is passed over.
    pub fn admit_uncapped(&mut self, campaigns: &Campaigns) -> Vec<Winner<'_>> {
        self.settle(campaigns, None, 0)
    }

    fn settle(
        &mut self,
        campaigns: &Campaigns,
        mut profile: Option<&mut Profile>,
        decision: u64,
    ) -> Vec<Winner<'_>> {
        let mut winners = Vec::with_capacity(self.ahead.len());
        let mut ahead = std::mem::take(&mut self.ahead).into_iter();
        while winners.len() < self.query.count {
            let Some(candidate) = ahead.next().or_else(|| self.next(campaigns)) else { break };
            let entry = &self.block.entries[candidate.position];
            let Some(row) = campaigns.get(entry.campaign) else { continue };
            if self.query.turns_down(&self.block, entry, &row.campaign).is_some() {
                continue;
            }
            if row.exposure_life_us > 0 {
                let Some(profile) = profile.as_deref_mut() else { continue };
                let exposure = Exposure {
                    at_us: self.query.now_us,
                    life_us: row.exposure_life_us,
                    decision,
                    zone: self.block.zone.serial,
                    campaign: entry.campaign,
                    ad: entry.ad.serial,
                };
                let (advertiser, now_us) = (&row.campaign.advertiser, self.query.now_us);
                if !admission::fits(&row.campaign, entry, profile, now_us)
                    || profile.record(advertiser, exposure, now_us).is_err()
                {
                    continue;
                }
            }
            winners.push(candidate);
        }
        winners.into_iter().map(|winner| self.winner(winner)).collect()
    }

    /// The best candidate that is left and eligible, whatever the caps say.
    fn next(&mut self, campaigns: &Campaigns) -> Option<Candidate> {
        loop {
            let candidate = self.search.next()?;
            let entry = &self.block.entries[candidate.position];
            // A campaign that is gone from the table is gone, whatever the block still holds.
            let Some(row) = campaigns.get(entry.campaign) else { continue };
            if self.query.turns_down(&self.block, entry, &row.campaign).is_none() {
                return Some(candidate);
            }
        }
    }

    fn winner(&self, candidate: Candidate) -> Winner<'_> {
        Winner {
            entry: &self.block.entries[candidate.position],
            score: candidate.score,
            matched: candidate.matched,
        }
    }
}
