//! What became of each candidate of a zone, as a table.

use slotwise_proto::v1::{CandidateVerdict, Explanation, Verdict, VerdictCount};

use super::Context;
use crate::ctl::error::Error;
use crate::ctl::text;

/// Prints the candidates one by one, the counts over all of them, and what holds for all.
pub(super) fn print(context: &mut Context, explanation: &Explanation) -> Result<(), Error> {
    context.out.line("")?;
    if !explanation.verdicts.is_empty() {
        let rows = explanation.verdicts.iter().map(row).collect();
        context.out.table(&["CAMPAIGN", "AD", "MATCHED", "SCORE", "VERDICT", "WHY"], rows)?;
    }
    let counts: Vec<String> = explanation.counts.iter().map(count).collect();
    let candidates = text::count(explanation.candidates, "candidate");
    context.out.line(&match counts.is_empty() {
        true => candidates,
        false => format!("{candidates}: {}", counts.join(", ")),
    })?;
    for note in &explanation.notes {
        context.out.line(&format!("note: {note}"))?;
    }
    Ok(())
}

fn row(candidate: &CandidateVerdict) -> Vec<String> {
    vec![
        candidate.campaign_id.clone(),
        candidate.ad_unit_id.clone(),
        candidate.matched_keywords.to_string(),
        format!("{:.6}", candidate.score),
        word(candidate.verdict()),
        candidate.detail.clone(),
    ]
}

fn count(count: &VerdictCount) -> String {
    format!("{} {}", count.count, word(count.verdict()))
}

fn word(verdict: Verdict) -> String {
    text::words(verdict.as_str_name(), "VERDICT_")
}
