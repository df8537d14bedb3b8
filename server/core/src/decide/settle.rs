//! Filling the places of a page, best first, under caps and the page's rules.

use hashbrown::HashSet;
use smallvec::SmallVec;

use super::page::{Conflict, OnPage};
use super::{Candidate, Decision, STRICT_CANDIDATES_MAX, Strict, admission};
use crate::index::{CampaignRow, Campaigns, Entry, Gate};
use crate::model::{AdSerial, CampaignSerial, CapLevel, Exposure, Profile, Segmented};

/// An ad in a place of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) slot: usize,
    pub(super) candidate: Candidate,
    /// Only the store itself can say that its caps hold.
    pub(super) is_strict: bool,
    /// What is stored of the visitor can decide over it.
    pub(super) asks_profile: bool,
}

pub(super) type Picks = SmallVec<[Pick; 4]>;

/// What holds beside eligibility while places are filled.
#[derive(Clone, Copy)]
pub(super) enum Rules<'s> {
    /// No cap, as no profile was read yet.
    Look,
    /// The profile's caps, and what is known of the strict ones; showings are recorded.
    Admit {
        /// The decision's id.
        decision: u64,
        strict: Strict<'s>,
    },
    /// The profile's caps, as if the store granted everything that it has to be asked.
    Foresee {
        /// The decision's id.
        decision: u64,
    },
    /// No profile is to be had: what it could decide over is passed over.
    Withhold,
}

impl Rules<'_> {
    /// The profile whose segments decide: none while it is not known, or not for sure.
    fn segments<'p>(&self, profile: Option<&'p Profile>) -> Option<&'p Profile> {
        match self {
            Self::Admit { strict: Strict::Withheld, .. } => None,
            _ => profile,
        }
    }
}

/// What became of a would-be winner.
enum Outcome {
    Taken,
    /// Another ad may do.
    Refused,
    /// No ad of this campaign will do.
    Barred,
    /// The store has to say.
    Asks,
}

impl Decision {
    /// Fills the places, as the picks; false where the store has to be asked first.
    pub(super) fn settle(
        &mut self,
        campaigns: &Campaigns,
        mut profile: Option<&mut Profile>,
        rules: Rules<'_>,
    ) -> bool {
        self.picks.clear();
        // What was barred then may do now, and the searches have left it out. And what became of
        // a page before its profile was known must not decide whether equal ads are drawn again.
        if !self.barred.is_empty() || (self.slots.len() > 1 && profile.is_some()) {
            self.barred.clear();
            self.slots.iter_mut().for_each(super::Slot::restart);
        }
        let mut at: SmallVec<[usize; 1]> = SmallVec::from_elem(0, self.slots.len());
        let mut open: SmallVec<[usize; 1]> =
            self.slots.iter().map(|slot| slot.query.count).collect();
        // A single placement has something to remember only where labels are.
        let mut on_page = self.page.rules.map(|_| OnPage::default());
        loop {
            let segments = rules.segments(profile.as_deref());
            let best = self.best(&mut at, &mut open, campaigns, segments, on_page.as_ref());
            let Some((slot, candidate)) = best else { break };
            at[slot] += 1;
            let entry = self.slots[slot].entry(candidate);
            let Some(gate) = campaigns.gate(entry.campaign) else { continue };
            let is_strict = gate.asks & Gate::STRICT != 0;
            let asks_profile = gate.asks & Gate::PROFILE != 0;
            let pick = Pick { slot, candidate, is_strict, asks_profile };
            if matches!(rules, Rules::Look) && on_page.is_none() && gate.asks & Gate::LABELS == 0 {
                // Most decisions: nothing else has to be known of its campaign.
                open[slot] -= 1;
                self.picks.push(pick);
                continue;
            }
            let Some(row) = campaigns.get(entry.campaign) else { continue };
            let place = (slot, entry, row);
            match self.place(place, campaigns, profile.as_deref_mut(), rules, on_page.as_ref()) {
                Outcome::Taken => {
                    if on_page.is_some() || !row.campaign.competitive_labels.is_empty() {
                        on_page.get_or_insert_default().add(entry, &row.campaign);
                    }
                    open[slot] -= 1;
                    self.picks.push(pick);
                }
                Outcome::Refused => {}
                Outcome::Barred => {
                    self.barred.add(entry.campaign);
                }
                Outcome::Asks => return false,
            }
        }
        true
    }

    /// The best candidate over the placements that have room. Equal ones have arrivals that are
    /// alike and independent over all searches, so each comes first with the same chance.
    ///
    /// What no place can take any more is passed over here: with all placements of a page in one
    /// zone, most candidates of each are on the page already.
    fn best(
        &mut self,
        at: &mut [usize],
        open: &mut [usize],
        campaigns: &Campaigns,
        profile: Option<&Profile>,
        on_page: Option<&OnPage>,
    ) -> Option<(usize, Candidate)> {
        let barred = &self.barred;
        let is_out = |entry: &Entry| {
            barred.has(entry.campaign) || on_page.is_some_and(|on_page| on_page.has(entry.serial))
        };
        let mut best: Option<(usize, Candidate)> = None;
        for (number, slot) in self.slots.iter_mut().enumerate() {
            while open[number] > 0 {
                let next = slot.candidate(at[number], &self.page, campaigns, profile, barred);
                let Some(candidate) = next else {
                    // Nothing will fill it.
                    open[number] = 0;
                    break;
                };
                if is_out(slot.entry(candidate)) {
                    at[number] += 1;
                    continue;
                }
                if best.is_none_or(|(_, best)| candidate > best) {
                    best = Some((number, candidate));
                }
                break;
            }
        }
        best
    }

    fn place(
        &self,
        (slot, entry, row): (usize, &Entry, &CampaignRow),
        campaigns: &Campaigns,
        profile: Option<&mut Profile>,
        rules: Rules<'_>,
        on_page: Option<&OnPage>,
    ) -> Outcome {
        let page_rules = self.page.rules.unwrap_or_default();
        if let Some(on_page) = on_page {
            match on_page.conflict(entry, &row.campaign, page_rules) {
                None => {}
                Some(Conflict::Ad) => return Outcome::Refused,
                Some(Conflict::Campaign | Conflict::Competitor(_)) => return Outcome::Barred,
            }
        }
        if matches!(rules, Rules::Look) {
            return Outcome::Taken;
        }
        let segments = rules.segments(profile.as_deref());
        let judge = self.slots[slot].judge(&self.page, campaigns, segments);
        // Looked at again, as time has passed since it was found.
        if !judge.admits(entry) {
            return Outcome::Refused;
        }
        let is_undecided = judge.segmented(&row.campaign) == Segmented::AsksProfile;
        match (rules, profile) {
            _ if is_undecided => Outcome::Barred,
            (Rules::Admit { decision, strict }, Some(profile)) => {
                self.admit_one((slot, entry, row), profile, decision, strict)
            }
            (Rules::Foresee { decision }, Some(profile)) => {
                let asked = || self.picks.iter().filter(|pick| pick.is_strict).count();
                if row.campaign.asks_the_store() && asked() == STRICT_CANDIDATES_MAX {
                    return Outcome::Barred;
                }
                self.admit_one((slot, entry, row), profile, decision, Strict::Local)
            }
            _ if row.exposure_life_us > 0 => Outcome::Barred,
            _ => Outcome::Taken,
        }
    }

    /// Whether the ad was picked.
    fn has(&self, ad: AdSerial) -> bool {
        self.picks.iter().any(|pick| self.slots[pick.slot].entry(pick.candidate).serial == ad)
    }

    /// Holds a would-be winner against the caps, and records it where they hold.
    fn admit_one(
        &self,
        (slot, entry, row): (usize, &Entry, &CampaignRow),
        profile: &mut Profile,
        decision: u64,
        strict: Strict<'_>,
    ) -> Outcome {
        if row.exposure_life_us == 0 {
            return Outcome::Taken;
        }
        let (campaign, now_us) = (&row.campaign, self.page.now_us);
        if campaign.asks_the_store() {
            match strict {
                Strict::Granted(ads) if ads.contains(&entry.serial) => {
                    // The granted ones are in the profile already. But the store knew nothing of
                    // the others that this answer shows before it.
                    let is_seen = |seen: &Exposure| {
                        seen.decision != decision || !ads.contains(&seen.ad) || self.has(seen.ad)
                    };
                    let cap = admission::reached_by(campaign, entry, profile, now_us, is_seen);
                    return if cap.is_none() { Outcome::Taken } else { Outcome::Refused };
                }
                // None of its campaign's ads will do, unless some were granted.
                Strict::Granted([]) | Strict::Withheld => return Outcome::Barred,
                Strict::Granted(ads) if ads.iter().all(|ad| self.has(*ad)) => {
                    return Outcome::Barred;
                }
                Strict::Granted(_) => return Outcome::Refused,
                Strict::Ask if admission::fits(campaign, entry, profile, now_us) => {
                    return Outcome::Asks;
                }
                Strict::Ask | Strict::Local => {}
            }
        }
        match admission::reached(campaign, entry, profile, now_us) {
            Some(cap) if cap.level == CapLevel::Ad => return Outcome::Refused,
            Some(_) => return Outcome::Barred,
            None => {}
        }
        let exposure = self.exposure(slot, entry, row.exposure_life_us, decision);
        match profile.record(&campaign.advertiser, exposure, now_us) {
            Ok(()) => Outcome::Taken,
            // There is no room for any of the advertiser's.
            Err(_) => Outcome::Barred,
        }
    }
}

/// Campaigns of which no further ad can win, so that the searches need not give them.
#[derive(Default)]
pub(super) struct Barred {
    /// The first few, which is all there are in most decisions.
    few: SmallVec<[CampaignSerial; BARRED_FEW]>,
    /// All of them, where there are more.
    many: Option<Box<HashSet<CampaignSerial>>>,
}

/// As many as one cache line holds.
const BARRED_FEW: usize = 16;

impl Barred {
    pub(super) fn add(&mut self, campaign: CampaignSerial) {
        match &mut self.many {
            Some(many) => {
                many.insert(campaign);
            }
            None if self.few.len() < BARRED_FEW => self.few.push(campaign),
            None => {
                let all = self.few.iter().copied().chain([campaign]);
                self.many = Some(Box::new(all.collect()));
            }
        }
    }

    fn clear(&mut self) {
        self.few.clear();
        self.many = None;
    }

    fn is_empty(&self) -> bool {
        self.few.is_empty()
    }

    pub(super) fn has(&self, campaign: CampaignSerial) -> bool {
        match &self.many {
            Some(many) => many.contains(&campaign),
            None => self.few.contains(&campaign),
        }
    }
}
