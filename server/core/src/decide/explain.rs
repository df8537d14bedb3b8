//! Why each ad of a zone is in the answer, or is not.
//!
//! Meant for production, so in two parts: the counts over all candidates, which are made in steps
//! of as many as the caller likes, so that a zone of a million ads holds nobody up; and the
//! reasons of the first candidates, which a search finds without looking at the others.

mod reason;

pub use reason::Reason;

use super::page::OnPage;
use super::{Candidate, Decision, Judge, Search, Slot, Verdict, admission};
use crate::index::{Campaigns, Entry, Gate};
use crate::model::{Profile, Segmented};

/// Explains what one placement of a settled decision was filled with.
pub struct Explainer<'d> {
    decision: &'d Decision,
    placement: usize,
    campaigns: &'d Campaigns,
    profile: Option<&'d Profile>,
    /// Whether nobody can say that strict caps hold, or which segments the visitor has.
    strict_withheld: bool,
    chosen: Vec<u32>,
    on_page: OnPage,
    counts: [u32; Verdict::COUNT],
    next: usize,
}

/// One candidate with what became of it.
#[derive(Clone, Debug)]
pub struct Explained<'d> {
    /// The ad in its zone.
    pub entry: &'d Entry,
    /// Its score.
    pub score: f64,
    /// Distinct request keywords that it has.
    pub matched: u32,
    /// What became of it.
    pub reason: Reason<'d>,
}

impl<'d> Explainer<'d> {
    /// Explains the placement of this number. `campaigns` is the table that the decision was
    /// settled on, `profile` the profile after it; nothing: it could not be had. With
    /// `strict_withheld` it was settled with [`super::Strict::Withheld`].
    pub fn new(
        decision: &'d Decision,
        placement: usize,
        campaigns: &'d Campaigns,
        profile: Option<&'d Profile>,
        strict_withheld: bool,
    ) -> Self {
        let picks = decision.picks.iter();
        let mut on_page = OnPage::default();
        for winner in decision.winners() {
            if let Some(row) = campaigns.get(winner.entry.campaign) {
                on_page.add(winner.entry, &row.campaign);
            }
        }
        let mut chosen: Vec<u32> = picks
            .filter(|pick| pick.slot == placement)
            .map(|pick| pick.candidate.position)
            .collect();
        chosen.sort_unstable();
        let counts = [0; Verdict::COUNT];
        Self {
            decision,
            placement,
            campaigns,
            profile,
            strict_withheld,
            chosen,
            on_page,
            counts,
            next: 0,
        }
    }

    /// How many candidates there are.
    pub fn candidates(&self) -> usize {
        self.slot().block.entries.len()
    }

    /// Counts the verdicts of the next candidates, `ads` at most; false when that was the last.
    pub fn count(&mut self, ads: usize) -> bool {
        let judge = self.judge();
        let entries = &self.slot().block.entries;
        let until = entries.len().min(self.next + ads);
        let mut counts = self.counts;
        for (position, entry) in (self.next..).zip(&entries[self.next..until]) {
            // Positions fit a u32.
            #[allow(clippy::cast_possible_truncation)]
            let verdict = self.verdict(&judge, position as u32, entry);
            counts[verdict as usize] += 1;
        }
        (self.counts, self.next) = (counts, until);
        until < entries.len()
    }

    /// How many of those that were counted ended with each verdict that occurs.
    pub fn counts(&self) -> impl Iterator<Item = (Verdict, u32)> {
        Verdict::ALL.into_iter().zip(self.counts).filter(|(_, count)| *count > 0)
    }

    /// The first `max` candidates in order of tier and score, among equals the chosen ones first.
    pub fn first(&self, max: usize) -> Vec<Explained<'d>> {
        let slot = self.slot();
        let mut search = Search::new(&slot.block, &slot.query.keywords, 0, max, slot.rng.clone());
        search.go_on(&slot.block, |position| self.chosen.binary_search(&position).is_err());
        let others = (0..max).map_while(|at| search.found(at));
        let mut first: Vec<(Candidate, bool)> = others.map(|other| (other, false)).collect();
        let picks = self.decision.picks.iter().filter(|pick| pick.slot == self.placement);
        first.extend(picks.map(|pick| (pick.candidate, true)));
        first.sort_by(|(left, left_chosen), (right, right_chosen)| {
            (right.tier.cmp(&left.tier))
                .then_with(|| right.score.total_cmp(&left.score))
                .then_with(|| right_chosen.cmp(left_chosen))
                .then_with(|| right.cmp(left))
        });
        first.truncate(max);
        let judge = self.judge();
        let explained = |(candidate, _): (Candidate, bool)| {
            let entry = slot.entry(candidate);
            let verdict = self.verdict(&judge, candidate.position, entry);
            let reason = self.reason(&judge, verdict, entry);
            Explained { entry, score: candidate.score, matched: candidate.matched, reason }
        };
        first.into_iter().map(explained).collect()
    }

    fn slot(&self) -> &'d Slot {
        &self.decision.slots[self.placement]
    }

    fn judge(&self) -> Judge<'d> {
        let slot = self.slot();
        let segments = self.profile.filter(|_| !self.strict_withheld);
        slot.judge(&self.decision.page, self.campaigns, segments)
    }

    /// Of all that speaks against the ad, the first in the order of the verdicts.
    fn verdict(&self, judge: &Judge<'d>, position: u32, entry: &Entry) -> Verdict {
        if self.chosen.binary_search(&position).is_ok() {
            return Verdict::Chosen;
        }
        let turned_down = judge.turns_down(entry);
        if let Some(verdict) = turned_down.filter(|verdict| *verdict < Verdict::FrequencyCapped) {
            return verdict;
        }
        let Some(gate) = self.campaigns.gate(entry.campaign) else {
            return Verdict::CampaignPaused;
        };
        let rules = self.decision.page.rules;
        if gate.asks & (Gate::PROFILE | Gate::LABELS) == 0 && rules.is_none() {
            // Most candidates: the rest of the row says nothing more.
            return turned_down.unwrap_or(Verdict::Outranked);
        }
        let Some(row) = self.campaigns.get(entry.campaign) else { return Verdict::CampaignPaused };
        let campaign = &row.campaign;
        let has_caps = row.exposure_life_us > 0;
        if let Some(profile) = self.profile {
            let now_us = self.decision.page.now_us;
            let is_full = || !profile.has_room(&campaign.advertiser, now_us);
            if has_caps && (!admission::fits(campaign, entry, profile, now_us) || is_full()) {
                return Verdict::FrequencyCapped;
            }
        }
        let is_open = || judge.segmented(campaign) == Segmented::AsksProfile;
        let is_unknown = match self.profile {
            Some(_) => self.strict_withheld && (campaign.asks_the_store() || is_open()),
            None => has_caps || is_open(),
        };
        if is_unknown {
            return Verdict::ProfileUnavailable;
        }
        if let Some(verdict) = turned_down {
            return verdict;
        }
        match self.on_page.conflict(entry, campaign, rules.unwrap_or_default()) {
            Some(conflict) => conflict.verdict(),
            None => Verdict::Outranked,
        }
    }
}
