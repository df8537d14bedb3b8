//! Answers as the rules want them, and with one thing wrong each.

use prost::Message as _;
use slotwise_proto::v1::{
    ChooseAdsBatchResponse, ChooseAdsResponse, ChosenAd, EventResult, Explanation,
    RecordEventsResponse, RequestError,
};

use super::*;
use crate::workload::catalogue::score;
use crate::workload::tests::shape;
use crate::workload::{Catalogue, ad_unit, campaign};

const ZONE: u32 = 2;
const WORDS: [u16; 2] = [0, 1];

/// Every ad of the zone with what it is worth to a request for [`WORDS`], best first.
fn ranked(catalogue: &Catalogue) -> Vec<ChosenAd> {
    let mut all: Vec<_> = (0..catalogue.shape.ads)
        .map(|number| {
            let ad = catalogue.ad(ZONE, number).unwrap();
            let matched_keywords = catalogue.matches(ZONE, number, &WORDS);
            ChosenAd {
                campaign_id: campaign(ad.campaign),
                ad_unit_id: ad_unit(ZONE, number),
                ecpm_micros: ad.ecpm_micros,
                score: score(ad.ecpm_micros, matched_keywords),
                matched_keywords,
                token: format!("{number:A>96}"),
                creative: None,
            }
        })
        .collect();
    all.sort_by(|one, two| two.score.total_cmp(&one.score));
    all
}

fn right() -> ChooseAdsResponse {
    let mut ads = ranked(&Catalogue::new(&shape()).unwrap());
    ads.truncate(3);
    ChooseAdsResponse { ads, catalog_version: 7, ..ChooseAdsResponse::default() }
}

const WANT: Want = Want { zone: ZONE, count: 3, is_full: true, is_explained: false };

fn walked(answer: &ChooseAdsResponse) -> Result<(), Wrong> {
    super::answer(&answer.encode_to_vec(), &WANT)
}

fn deep(answer: &ChooseAdsResponse) -> Result<(), Wrong> {
    let mut deep = Deep::new(Catalogue::new(&shape()).unwrap(), 1);
    deep.check(&answer.encode_to_vec(), ZONE, &WORDS, 3)
}

#[test]
fn a_right_answer_is_found_right() {
    assert_eq!(walked(&right()), Ok(()));
    assert_eq!(deep(&right()), Ok(()));
}

/// How an answer is spoilt, and how it is found.
type Spoilt = (fn(&mut ChooseAdsResponse), Wrong);

#[test]
fn an_answer_with_one_thing_wrong_is_found() {
    let spoilt: [Spoilt; 14] = [
        (|answer| answer.ads.clear(), "no ad at all"),
        (
            |answer| {
                answer.ads.clear();
                answer.no_ad_reason = 1;
            },
            "no such zone: was the catalogue prepared with the same numbers?",
        ),
        (|answer| drop(answer.ads.pop()), "fewer ads than were asked for"),
        (|answer| answer.ads.push(answer.ads[2].clone()), "more ads than were asked for"),
        (|answer| answer.ads[1].campaign_id.clear(), "an ad without a name"),
        (|answer| answer.ads[1].score = 0.0, "an ad without a score"),
        (|answer| answer.ads[1].token.clear(), "a token that can be none"),
        (|answer| answer.ads[1].token.replace_range(..1, "/"), "a token that can be none"),
        (|answer| answer.ads[1].token = answer.ads[0].token.clone(), "a token twice"),
        (|answer| answer.ads[1].ad_unit_id = ad_unit(3, 9), "an ad of another zone"),
        (|answer| answer.ads.swap(0, 2), "a better ad behind a worse one"),
        (
            |answer| answer.explanation = Some(Explanation::default()),
            "an explanation that was not asked for, or none that was",
        ),
        (|answer| answer.catalog_version = 0, "no version of the catalogue"),
        (
            |answer| answer.error = Some(RequestError::default()),
            "one of a batch or stream was refused",
        ),
    ];
    for (spoil, wrong) in spoilt {
        let mut answer = right();
        spoil(&mut answer);
        assert_eq!(walked(&answer), Err(wrong));
    }
    let mut twice = right();
    twice.ads[1] = ChosenAd { token: twice.ads[1].token.clone(), ..twice.ads[0].clone() };
    assert_eq!(walked(&twice), Err("an ad twice"));
}

#[test]
fn an_answer_that_is_not_the_best_is_found_by_the_whole_check() {
    let all = ranked(&Catalogue::new(&shape()).unwrap());
    let uncapped = |ad: &ChosenAd| {
        let number: u32 = ad.campaign_id.rsplit('c').next().unwrap().parse().unwrap();
        !number.is_multiple_of(2)
    };
    // The best that has no cap is left out.
    let best = all.iter().position(uncapped).unwrap();
    let mut answer = right();
    answer.ads = all.iter().filter(|ad| **ad != all[best]).take(3).cloned().collect();
    assert_eq!(walked(&answer), Ok(()));
    assert_eq!(deep(&answer), Err("a better ad that no cap withholds was left out"));
    // One with a cap may be.
    let capped = all.iter().position(|ad| !uncapped(ad)).unwrap();
    answer.ads = all.iter().filter(|ad| **ad != all[capped]).take(3).cloned().collect();
    assert_eq!(deep(&answer), Ok(()));
}

#[test]
fn an_ad_that_is_not_as_in_the_catalogue_is_found_by_the_whole_check() {
    let spoilt: [Spoilt; 4] = [
        (|answer| answer.ads[0].ecpm_micros += 1, "an ad that is not as in the catalogue"),
        (
            |answer| answer.ads[0].matched_keywords += 1,
            "keywords matched that did not, or the other way round",
        ),
        (|answer| answer.ads[0].score *= 1.001, "a score that is not eCPM x ln(1.1 + matched)"),
        (
            |answer| answer.ads[0].ad_unit_id = ad_unit(ZONE, 200),
            "an ad that is not in the catalogue",
        ),
    ];
    for (spoil, wrong) in spoilt {
        let mut answer = right();
        spoil(&mut answer);
        assert_eq!(deep(&answer), Err(wrong));
    }
}

#[test]
fn a_token_is_of_url_safe_base64_and_nothing_else() {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for byte in 0..=u8::MAX {
        let mut token = [b'A'; TOKEN_CHARS];
        token[17] = byte;
        assert_eq!(is_token(&token), alphabet.as_bytes().contains(&byte), "{byte}");
    }
    assert!(!is_token(&[b'A'; TOKEN_CHARS + 1]) && !is_token(&[b'A'; TOKEN_CHARS - 1]));
}

#[test]
fn what_is_no_message_is_wrong() {
    let whole = right().encode_to_vec();
    assert_eq!(super::answer(&whole[..whole.len() - 3], &WANT), Err("a message that is cut off"));
    assert_eq!(super::answer(&[0x0f], &WANT), Err("a kind of field that there is not"));
}

#[test]
fn the_answers_of_a_batch_come_in_order() {
    let responses = vec![right(), ChooseAdsResponse::default(), right()];
    let message = ChooseAdsBatchResponse { responses: responses.clone() }.encode_to_vec();
    let parts: Vec<_> = batch(&message).map(|part| part.unwrap().to_vec()).collect();
    let expected: Vec<_> = responses.iter().map(prost::Message::encode_to_vec).collect();
    assert_eq!(parts, expected);
}

#[test]
fn the_results_of_events_are_read() {
    let results = [EventResult::Accepted, EventResult::BadToken].map(i32::from).to_vec();
    let message = RecordEventsResponse { results }.encode_to_vec();
    assert_eq!(event_results(&message), Ok(vec![1, 2]));
}

#[test]
fn the_first_ad_of_an_answer_is_found() {
    let answer = right();
    let message = answer.encode_to_vec();
    let first = ads(&message).next().unwrap();
    assert_eq!(first.campaign, answer.ads[0].campaign_id.as_bytes());
    assert_eq!(first.token, answer.ads[0].token.as_bytes());
    assert_eq!(ads(&message).count(), 3);
}
