//! Why each ad of a zone is in the answer, or is not, as the contract tells it. Nothing of it is
//! paid for where it is not asked for.

mod words;

use std::sync::Arc;
use std::time::Instant;

use slotwise_core::decide::{Decision, Explainer, Query, Verdict};
use slotwise_core::index::ZoneBlock;
use slotwise_core::model::Size;
use slotwise_proto::v1;
use slotwise_proto::v1::{CandidateVerdict, Explanation, VerdictCount};

use super::answer::Fillings;
use super::ask::Visit;
use super::choose::Settled;
use crate::limits::{EXPLAIN_STEP, EXPLAIN_TURN};

use words::About;

/// A placement, as its details need it.
struct Placed {
    block: Arc<ZoneBlock>,
    /// What the request asks for; empty: what the zone takes.
    sizes: Vec<Size>,
    count: usize,
}

/// What is kept of a decision's placements, to tell about them afterwards.
pub(super) struct Aside {
    placed: Vec<Placed>,
    /// Candidates of each that are told one by one.
    max: usize,
}

impl Aside {
    pub(super) fn new(open: &[(Arc<ZoneBlock>, Query)], max: usize) -> Self {
        let placed = |(block, query): &(Arc<ZoneBlock>, Query)| Placed {
            block: Arc::clone(block),
            sizes: query.sizes.clone(),
            count: query.count,
        };
        Self { placed: open.iter().map(placed).collect(), max }
    }

    /// Explains each placement of `decision`: `numbers` says which of `filled` is whose answer.
    pub(super) async fn explain(
        self,
        decision: &Decision,
        grounds: Grounds<'_>,
        filled: &mut Fillings,
        numbers: &[usize],
    ) {
        for (placement, placed) in self.placed.iter().enumerate() {
            let explanation = explanation(decision, placement, placed, grounds, self.max).await;
            filled[numbers[placement]].explanation = Some(explanation);
        }
    }
}

/// What a decision came from.
#[derive(Clone, Copy)]
pub(super) struct Grounds<'a> {
    pub(super) settled: &'a Settled,
    pub(super) visit: &'a Visit<'a>,
}

/// Explains one placement of `decision`, the first `max` candidates one by one. Other calls of the
/// same core get a turn in between: there may be a million ads to look at.
async fn explanation(
    decision: &Decision,
    placement: usize,
    placed: &Placed,
    grounds: Grounds<'_>,
    max: usize,
) -> Explanation {
    let Settled { campaigns, profile, strict_withheld } = grounds.settled;
    let mut explainer =
        Explainer::new(decision, placement, campaigns, profile.as_ref(), *strict_withheld);
    let mut turn = Instant::now();
    while explainer.count(EXPLAIN_STEP) {
        if turn.elapsed() >= EXPLAIN_TURN {
            tokio::task::yield_now().await;
            turn = Instant::now();
        }
    }
    tokio::task::yield_now().await;
    let count = |(verdict, count)| VerdictCount { verdict: to_wire(verdict).into(), count };
    let about = About::new(decision, placement, placed, grounds);
    let verdict = |one: slotwise_core::decide::Explained<'_>| CandidateVerdict {
        campaign_id: one.entry.ad.campaign.as_str().to_owned(),
        ad_unit_id: one.entry.ad.unit.as_str().to_owned(),
        score: one.score,
        matched_keywords: one.matched,
        verdict: to_wire(one.reason.verdict()).into(),
        detail: about.detail(&one),
    };
    Explanation {
        counts: explainer.counts().map(count).collect(),
        // A zone's ads are numbered by a u32.
        candidates: u32::try_from(explainer.candidates()).unwrap_or(u32::MAX),
        verdicts: explainer.first(max).into_iter().map(verdict).collect(),
        notes: words::notes(grounds),
    }
}

fn to_wire(verdict: Verdict) -> v1::Verdict {
    match verdict {
        Verdict::Chosen => v1::Verdict::Chosen,
        Verdict::CampaignPaused => v1::Verdict::CampaignPaused,
        Verdict::FlightNotStarted => v1::Verdict::FlightNotStarted,
        Verdict::FlightEnded => v1::Verdict::FlightEnded,
        Verdict::Size => v1::Verdict::Size,
        Verdict::BelowFloor => v1::Verdict::BelowFloor,
        Verdict::BlockedAdvertiser => v1::Verdict::BlockedAdvertiser,
        Verdict::BlockedCategory => v1::Verdict::BlockedCategory,
        Verdict::BlockedDomain => v1::Verdict::BlockedDomain,
        Verdict::ExcludedKeyword => v1::Verdict::ExcludedKeyword,
        Verdict::Targeting => v1::Verdict::Targeting,
        Verdict::UserRequired => v1::Verdict::UserRequired,
        Verdict::FrequencyCapped => v1::Verdict::FrequencyCapped,
        Verdict::ProfileUnavailable => v1::Verdict::ProfileUnavailable,
        Verdict::BudgetSpent => v1::Verdict::BudgetSpent,
        Verdict::BudgetUnavailable => v1::Verdict::BudgetUnavailable,
        Verdict::Paced => v1::Verdict::Paced,
        Verdict::CampaignOnPage => v1::Verdict::CampaignOnPage,
        Verdict::CompetitorOnPage => v1::Verdict::CompetitorOnPage,
        Verdict::Outranked => v1::Verdict::Outranked,
    }
}
