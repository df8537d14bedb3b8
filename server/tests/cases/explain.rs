//! What an explanation says, and what holds for every one.

use serde_json::Value;
use slotwise_proto::v1::{ChooseAdsResponse, Explanation, Verdict};

use super::list;

/// Holds the answer's explanation against what the step expects of it.
pub fn check(answer: &ChooseAdsResponse, step: &Value, place: &str) {
    let Some(explanation) = &answer.explanation else {
        for expects in ["explained", "verdicts", "notes"] {
            assert!(step[expects].is_null(), "{place}: nothing is explained");
        }
        return;
    };
    let Explanation { counts, candidates, verdicts, notes } = explanation;
    let sum: u32 = counts.iter().map(|count| count.count).sum();
    assert_eq!(sum, *candidates, "{place}: each candidate has one verdict");
    assert!(counts.iter().all(|count| count.count > 0), "{place}: {counts:?}");
    let chosen = counts.iter().filter(|count| count.verdict() == Verdict::Chosen);
    let chosen: usize = chosen.map(|count| count.count as usize).sum();
    assert_eq!(chosen, answer.ads.len(), "{place}: {counts:?}");
    if let Some(expected) = step["explained"].as_array() {
        let told: Vec<Value> = verdicts
            .iter()
            .zip(expected)
            .map(|(one, expected)| {
                let ad = format!("{}/{}", one.campaign_id, one.ad_unit_id);
                match expected[2].as_str() {
                    Some(part) if one.detail.contains(part) => {
                        serde_json::json!([ad, short(one.verdict()), part])
                    }
                    Some(_) => serde_json::json!([ad, short(one.verdict()), one.detail]),
                    None => serde_json::json!([ad, short(one.verdict())]),
                }
            })
            .collect();
        assert_eq!(Value::from(told), step["explained"], "{place}");
        assert_eq!(verdicts.len(), expected.len(), "{place}: {verdicts:#?}");
    }
    if let Some(expected) = step["verdicts"].as_object() {
        let told = counts.iter().map(|one| (short(one.verdict()).to_owned(), one.count.into()));
        assert_eq!(told.collect::<serde_json::Map<_, _>>(), *expected, "{place}");
    }
    if !step["notes"].is_null() {
        let parts = list(&step["notes"]);
        let holds = notes.len() == parts.len()
            && notes.iter().zip(parts).all(|(note, part)| note.contains(part.as_str().unwrap()));
        assert!(holds, "{place}: {notes:?}");
    }
}

fn short(verdict: Verdict) -> &'static str {
    verdict.as_str_name().strip_prefix("VERDICT_").unwrap()
}
