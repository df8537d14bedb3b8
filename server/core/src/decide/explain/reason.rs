//! A verdict with what a person has to know to do something about it.

use super::super::page::Conflict;
use super::super::{Judge, Verdict, admission};
use super::Explainer;
use crate::index::Entry;
use crate::model::{Blocks, Cap, Clause, Size};

/// A verdict with its details.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason<'d> {
    /// It is in the answer.
    Chosen,
    /// Its campaign is switched off.
    Paused,
    /// Its campaign is not there any more, or was stopped on this node.
    Gone,
    /// Its flight has not begun.
    FlightNotStarted {
        /// When it begins, in microseconds of Unix time.
        start_us: i64,
    },
    /// Its flight is over.
    FlightEnded {
        /// When it ended, in microseconds of Unix time.
        end_us: i64,
    },
    /// It has none of the sizes that fit.
    Size {
        /// Its own size.
        own: Option<Size>,
    },
    /// It is worth less than the floor.
    BelowFloor {
        /// What it is worth here, in micros per 1,000 impressions.
        ecpm_micros: i64,
        /// The floor.
        floor_ecpm_micros: i64,
    },
    /// Something of it is blocked.
    Blocked {
        /// What is: its advertiser, a category or a domain.
        verdict: Verdict,
        /// The entry of the list that blocks it.
        entry: &'d str,
        /// The list is the site's, not the request's.
        by_site: bool,
    },
    /// The request has this keyword, which it must not stand beside.
    ExcludedKeyword(&'d str),
    /// This clause does not hold.
    Targeting(Clause),
    /// Its campaign wants a known visitor.
    UserRequired,
    /// A cap is reached.
    Capped {
        /// Which.
        cap: Cap,
        /// What it counts now.
        seen: usize,
        /// When there is room again, in microseconds of Unix time.
        free_at_us: i64,
    },
    /// As many showings of its advertiser are remembered as can be, and all still count.
    ListFull,
    /// What is stored of the visitor decides, and cannot be had.
    ProfileUnavailable,
    /// Its campaign has a budget, and these are not kept by this version.
    BudgetUnavailable,
    /// This very ad is on the page, in another place.
    AdOnPage,
    /// The page has as many ads of its campaign as it may have.
    CampaignOnPage,
    /// Another advertiser with this competitive label is on the page.
    CompetitorOnPage(&'d str),
    /// Others are worth more.
    Outranked,
}

impl Reason<'_> {
    /// The verdict that it details.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Chosen => Verdict::Chosen,
            Self::Paused | Self::Gone => Verdict::CampaignPaused,
            Self::FlightNotStarted { .. } => Verdict::FlightNotStarted,
            Self::FlightEnded { .. } => Verdict::FlightEnded,
            Self::Size { .. } => Verdict::Size,
            Self::BelowFloor { .. } => Verdict::BelowFloor,
            Self::Blocked { verdict, .. } => *verdict,
            Self::ExcludedKeyword(_) => Verdict::ExcludedKeyword,
            Self::Targeting(_) => Verdict::Targeting,
            Self::UserRequired => Verdict::UserRequired,
            Self::Capped { .. } | Self::ListFull => Verdict::FrequencyCapped,
            Self::ProfileUnavailable => Verdict::ProfileUnavailable,
            Self::BudgetUnavailable => Verdict::BudgetUnavailable,
            Self::AdOnPage | Self::CampaignOnPage => Verdict::CampaignOnPage,
            Self::CompetitorOnPage(_) => Verdict::CompetitorOnPage,
            Self::Outranked => Verdict::Outranked,
        }
    }
}

impl Conflict<'_> {
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::Ad | Self::Campaign => Verdict::CampaignOnPage,
            Self::Competitor(_) => Verdict::CompetitorOnPage,
        }
    }
}

impl<'d> Explainer<'d> {
    /// The details of `verdict`, which the ad ended with.
    pub(super) fn reason(
        &self,
        judge: &Judge<'d>,
        verdict: Verdict,
        entry: &'d Entry,
    ) -> Reason<'d> {
        let Some(row) = self.campaigns.get(entry.campaign) else { return Reason::Gone };
        let campaign = &row.campaign;
        let block = judge.block;
        let blocked = |find: &dyn Fn(&'d Blocks) -> Option<&'d str>| {
            let by_request = find(&judge.page.blocks);
            let by_site = by_request.is_none();
            let entry = by_request.or_else(|| find(&block.site.blocks)).unwrap_or_default();
            Reason::Blocked { verdict, entry, by_site }
        };
        match verdict {
            Verdict::Chosen => Reason::Chosen,
            Verdict::CampaignPaused => Reason::Paused,
            Verdict::FlightNotStarted => {
                Reason::FlightNotStarted { start_us: campaign.flight.start_us }
            }
            Verdict::FlightEnded => Reason::FlightEnded { end_us: campaign.flight.end_us },
            Verdict::Size => Reason::Size { own: entry.ad.size },
            Verdict::BelowFloor => Reason::BelowFloor {
                ecpm_micros: block.ecpm_micros(entry),
                floor_ecpm_micros: judge.query.floor(block),
            },
            Verdict::BlockedAdvertiser => {
                let own = campaign.advertiser.as_str();
                blocked(&|blocks| blocks.advertiser(&campaign.advertiser).then_some(own))
            }
            Verdict::BlockedCategory => blocked(&|blocks| blocks.category(&campaign.categories)),
            Verdict::BlockedDomain => {
                blocked(&|blocks| blocks.domain(&campaign.advertiser_domains))
            }
            Verdict::ExcludedKeyword => {
                Reason::ExcludedKeyword(judge.excluded(entry).unwrap_or_default())
            }
            Verdict::Targeting => {
                // Where only the gate was asked, it was for the country.
                Reason::Targeting(judge.off_target(campaign).unwrap_or(Clause::Countries))
            }
            Verdict::UserRequired => Reason::UserRequired,
            Verdict::FrequencyCapped => self.capped(entry),
            Verdict::ProfileUnavailable => Reason::ProfileUnavailable,
            Verdict::BudgetSpent | Verdict::BudgetUnavailable | Verdict::Paced => {
                Reason::BudgetUnavailable
            }
            Verdict::CampaignOnPage | Verdict::CompetitorOnPage => {
                let rules = judge.page.rules.unwrap_or_default();
                match self.on_page.conflict(entry, campaign, rules) {
                    Some(Conflict::Ad) => Reason::AdOnPage,
                    Some(Conflict::Competitor(label)) => Reason::CompetitorOnPage(label),
                    Some(Conflict::Campaign) | None => Reason::CampaignOnPage,
                }
            }
            Verdict::Outranked => Reason::Outranked,
        }
    }

    fn capped(&self, entry: &Entry) -> Reason<'d> {
        let now_us = self.decision.page.now_us;
        let (Some(profile), Some(row)) = (self.profile, self.campaigns.get(entry.campaign)) else {
            return Reason::ProfileUnavailable;
        };
        match admission::reached(&row.campaign, entry, profile, now_us) {
            Some(cap) => {
                let (seen, free_at_us) =
                    admission::told(cap, &row.campaign, entry, profile, now_us);
                Reason::Capped { cap, seen, free_at_us }
            }
            None => Reason::ListFull,
        }
    }
}
