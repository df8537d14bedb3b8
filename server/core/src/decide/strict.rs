//! Caps that hold across all nodes: what has to be asked of the store, and what it said.

use super::settle::Rules;
use super::{Decision, admission};
use crate::index::Campaigns;
use crate::model::{AdSerial, AdvertiserId, Cap, CapLevel, Exposure, Profile};

/// Candidates that the store is asked about for one answer: the best of them; the others of
/// campaigns with strict caps are not shown this time. Some kilobytes and one short script.
pub const STRICT_CANDIDATES_MAX: usize = 16;

/// How sure the profile is, and what is known of campaigns with strict caps.
#[derive(Clone, Copy, Debug)]
pub enum Strict<'a> {
    /// The profile is all there is: one node keeps it, and its caps are strict anyway.
    Local,
    /// Nothing yet: say what is to be asked, should any of their ads win.
    Ask,
    /// Just these ads may win: the store has admitted them, and recorded them in the profile.
    Granted(&'a [AdSerial]),
    /// None may win: nobody can say that their caps hold. Nor may what the visitor's segments
    /// decide over: the profile is what one node remembers.
    Withheld,
}

/// What the store is asked to admit, under its own view of the visitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrictAsk {
    /// How many of them, with those in [`StrictCandidate::taken_before`], are admitted at most.
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

impl Decision {
    /// What the store has to be asked, as far as `profile` can foresee.
    pub(super) fn strict_ask(
        &mut self,
        campaigns: &Campaigns,
        mut profile: Profile,
        decision: u64,
    ) -> StrictAsk {
        let by_rank = match self.page.rules {
            None => self.strict_ranking(campaigns, &mut profile.clone(), decision),
            Some(_) => None,
        };
        by_rank.unwrap_or_else(|| self.strict_on_page(campaigns, &mut profile, decision))
    }

    /// The ads that may be in the answer, whatever the store says of the ones before; nothing
    /// where competitors may keep each other out.
    fn strict_ranking(
        &mut self,
        campaigns: &Campaigns,
        profile: &mut Profile,
        decision: u64,
    ) -> Option<StrictAsk> {
        let mut ask = StrictAsk { count: self.slots[0].query.count, candidates: Vec::new() };
        // With everything granted that is asked for: what fits here, too, takes its place for sure.
        let mut all_granted = profile.clone();
        let (mut taken, mut at, now_us) = (0, 0, self.page.now_us);
        while taken < ask.count && ask.candidates.len() < STRICT_CANDIDATES_MAX {
            let slot = &mut self.slots[0];
            let next = slot.candidate(at, &self.page, campaigns, Some(profile), &self.barred);
            let Some(candidate) = next else { break };
            at += 1;
            let entry = self.slots[0].entry(candidate);
            let Some(row) = campaigns.get(entry.campaign) else { continue };
            // It may have been found before the profile was read.
            let judge = self.slots[0].judge(&self.page, campaigns, Some(profile));
            if self.barred.has(entry.campaign) || !judge.admits(entry) {
                continue;
            }
            let (campaign, life_us) = (&row.campaign, row.exposure_life_us);
            if !campaign.competitive_labels.is_empty() {
                return None;
            }
            match admission::reached(campaign, entry, profile, now_us) {
                Some(cap) if cap.level == CapLevel::Ad => continue,
                Some(_) => {
                    self.barred.add(entry.campaign);
                    continue;
                }
                None => {}
            }
            let exposure = self.exposure(0, entry, life_us, decision);
            let advertiser = campaign.advertiser.clone();
            if campaign.asks_the_store() {
                // Where there is no room for one more, the store will say so.
                let _ = all_granted.record(&advertiser, exposure, now_us);
                let caps = campaign.caps.clone();
                let asked = StrictCandidate { advertiser, exposure, caps, taken_before: taken };
                ask.candidates.push(asked);
            } else if life_us == 0 {
                taken += 1;
            } else if profile.record(&advertiser, exposure, now_us).is_ok() {
                let is_sure = admission::fits(campaign, entry, &all_granted, now_us);
                taken += usize::from(
                    is_sure && all_granted.record(&advertiser, exposure, now_us).is_ok(),
                );
            }
        }
        Some(ask)
    }

    /// The ads that are on the page if the store grants them all: what is refused leaves its
    /// place to ads that need not be asked for.
    fn strict_on_page(
        &mut self,
        campaigns: &Campaigns,
        profile: &mut Profile,
        decision: u64,
    ) -> StrictAsk {
        self.settle(campaigns, Some(profile), Rules::Foresee { decision });
        let asked = self.picks.iter().filter(|pick| pick.is_strict);
        let candidate = |pick: &super::settle::Pick| {
            let entry = self.slots[pick.slot].entry(pick.candidate);
            let row = campaigns.get(entry.campaign)?;
            Some(StrictCandidate {
                advertiser: row.campaign.advertiser.clone(),
                exposure: self.exposure(pick.slot, entry, row.exposure_life_us, decision),
                caps: row.campaign.caps.clone(),
                taken_before: 0,
            })
        };
        let candidates: Vec<_> = asked.filter_map(candidate).collect();
        StrictAsk { count: candidates.len(), candidates }
    }
}
