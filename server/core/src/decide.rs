//! Which ads to show: filter, rank, and admit under the visitor's caps. A pure function of the
//! zone's block, the table of campaigns, the visitor's profile, the instant and the seed.
//!
//! A decision goes in one direction. [`Decision::new`] takes the snapshot; [`Decision::look`]
//! finds the would-be winners and says whether the visitor's profile matters to any of them;
//! [`Decision::admit`] takes the profile (read meanwhile, where it matters) and settles the
//! answer, going on with the search wherever a would-be winner no longer fits. Caps that must hold
//! across nodes are asked of the store in between (see [`Strict`]).

mod admission;
mod eligibility;
mod search;
mod strict;

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;

pub use eligibility::{Query, Verdict};
pub use search::{Candidate, Search, score};
pub use strict::{STRICT_CANDIDATES_MAX, Strict, StrictAsk, StrictCandidate};

use crate::index::{CampaignRow, Campaigns, Entry, ZoneBlock};
use crate::model::{Exposure, Profile};

/// The generator that every random choice comes from: small, fast, and the same on every
/// machine and in every release (Blackman and Vigna, <https://prng.di.unimi.it>).
pub type Rng = Xoshiro256PlusPlus;

/// One decision on its way.
pub struct Decision {
    block: Arc<ZoneBlock>,
    query: Query,
    search: Search,
    /// What the search has given so far and was eligible then, best first.
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
    ) -> Result<Vec<Winner<'_>>, StrictAsk> {
        let Some(winners) = self.settle(campaigns, Some(&mut *profile), decision, strict) else {
            profile.undo_fresh();
            return Err(self.strict_ask(campaigns, profile.clone(), decision));
        };
        Ok(winners.into_iter().map(|winner| self.winner(winner)).collect())
    }

    /// Chooses as [`Decision::admit`] does where the profile cannot be known: whatever some cap
    /// may ask for is passed over.
    pub fn admit_uncapped(&mut self, campaigns: &Campaigns) -> Vec<Winner<'_>> {
        let winners = self.settle(campaigns, None, 0, Strict::Withheld).unwrap_or_default();
        winners.into_iter().map(|winner| self.winner(winner)).collect()
    }

    /// The winners; nothing where a campaign with strict caps would be among them and has to be
    /// asked for.
    fn settle(
        &mut self,
        campaigns: &Campaigns,
        mut profile: Option<&mut Profile>,
        decision: u64,
        strict: Strict<'_>,
    ) -> Option<Vec<Candidate>> {
        let mut winners = Vec::with_capacity(self.query.count.min(self.ahead.len()));
        let mut at = 0;
        while winners.len() < self.query.count {
            let Some(candidate) = self.candidate(at, campaigns) else { break };
            at += 1;
            let Some((entry, row)) = self.eligible(candidate, campaigns) else { continue };
            if row.exposure_life_us > 0 {
                let Some(profile) = profile.as_deref_mut() else { continue };
                let asks_the_store = row.campaign.asks_the_store();
                let is_granted = match strict {
                    Strict::Granted(ads) if asks_the_store => ads.contains(&entry.ad.serial),
                    _ => false,
                };
                if asks_the_store && !is_granted && !matches!(strict, Strict::Local | Strict::Ask) {
                    continue;
                }
                // A granted one is in the profile already.
                if !is_granted && !admission::fits(&row.campaign, entry, profile, self.query.now_us)
                {
                    continue;
                }
                if asks_the_store && matches!(strict, Strict::Ask) {
                    return None;
                }
                if !is_granted && !self.record(profile, entry, row, decision) {
                    continue;
                }
            }
            winners.push(candidate);
        }
        Some(winners)
    }

    /// What the store has to be asked, as far as `profile` can foresee: the ads that may be in
    /// the answer, whatever the store says of the ones before.
    fn strict_ask(
        &mut self,
        campaigns: &Campaigns,
        mut profile: Profile,
        decision: u64,
    ) -> StrictAsk {
        let count = self.query.count;
        let (mut candidates, mut taken, mut at) = (Vec::new(), 0, 0);
        while taken < count && candidates.len() < STRICT_CANDIDATES_MAX {
            let Some(candidate) = self.candidate(at, campaigns) else { break };
            at += 1;
            let Some((entry, row)) = self.eligible(candidate, campaigns) else { continue };
            if row.campaign.asks_the_store() {
                if admission::fits(&row.campaign, entry, &profile, self.query.now_us) {
                    candidates.push(StrictCandidate {
                        advertiser: row.campaign.advertiser.clone(),
                        exposure: self.exposure(entry, row, decision),
                        caps: row.campaign.caps.clone(),
                        taken_before: taken,
                    });
                }
            } else if row.exposure_life_us == 0
                || admission::fits(&row.campaign, entry, &profile, self.query.now_us)
                    && self.record(&mut profile, entry, row, decision)
            {
                taken += 1;
            }
        }
        StrictAsk { count, candidates }
    }

    /// The candidate at place `at`, found when it is first asked for.
    fn candidate(&mut self, at: usize, campaigns: &Campaigns) -> Option<Candidate> {
        if at == self.ahead.len() {
            let next = self.next(campaigns)?;
            self.ahead.push(next);
        }
        self.ahead.get(at).copied()
    }

    /// The candidate's entry and its campaign, where it is still eligible.
    fn eligible<'c>(
        &self,
        candidate: Candidate,
        campaigns: &'c Campaigns,
    ) -> Option<(&Entry, &'c CampaignRow)> {
        let entry = &self.block.entries[candidate.position];
        let row = campaigns.get(entry.campaign)?;
        let is_eligible = self.query.turns_down(&self.block, entry, &row.campaign).is_none();
        is_eligible.then_some((entry, row))
    }

    fn exposure(&self, entry: &Entry, row: &CampaignRow, decision: u64) -> Exposure {
        Exposure {
            at_us: self.query.now_us,
            life_us: row.exposure_life_us,
            decision,
            zone: self.block.zone.serial,
            campaign: entry.campaign,
            ad: entry.ad.serial,
        }
    }

    /// Records a showing; false where there is no room for it.
    fn record(
        &self,
        profile: &mut Profile,
        entry: &Entry,
        row: &CampaignRow,
        decision: u64,
    ) -> bool {
        let exposure = self.exposure(entry, row, decision);
        profile.record(&row.campaign.advertiser, exposure, self.query.now_us).is_ok()
    }

    /// The best candidate that is left and eligible, whatever the caps say.
    fn next(&mut self, campaigns: &Campaigns) -> Option<Candidate> {
        loop {
            let candidate = self.search.next()?;
            // A campaign that is gone from the table is gone, whatever the block still holds.
            if self.eligible(candidate, campaigns).is_some() {
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
