//! What the writer takes in one large zone: building it, changing an ad, pausing a campaign.

use slotwise_core::model::Status;

use crate::data::{Ask, Request, WORDS_OF_AD, ZoneFacts};
use crate::measure::Sample;
use crate::ours::{Market, decide, memory_bytes};
use crate::report::{grouped, time};

const BUILDS: usize = 5;
const CHANGES: usize = 20;
const PAUSES: usize = 200;
/// Above whatever the zone's ads are worth.
const BEST_MICROS: i64 = 1_000_000_000_000;
/// One ad, whatever it matches.
const ONE: Ask = Ask { count: 1, words: 0, foreign: false };

/// Prints the writer's table for the zone that is in `market`, which took `built_us` to build.
/// The market is as it was afterwards.
pub(crate) fn report(market: &mut Market, facts: &ZoneFacts, built_us: f64) {
    println!("| a zone of {} ads | measured | bar |", grouped(facts.ads.len()));
    println!("|---|---|---|");
    println!(
        "| built from nothing: its changes applied, until published | {} | 2 s |",
        time(built_us)
    );
    let mut block_us = Sample::default();
    for _ in 0..BUILDS {
        block_us.push(market.apply(vec![facts.zone()]));
    }
    println!(
        "| the block alone, made anew from the one before, {BUILDS} times | {} | – |",
        spans(&block_us)
    );
    let each = memory_bytes(&market.block()) as f64 / facts.ads.len() as f64;
    println!("| hot index for an ad with {WORDS_OF_AD} keywords | {each:.0} bytes | 128 bytes |");
    let changed_us = change_ads(market, facts);
    println!("| a changed ad, {CHANGES} times, until published | {} | 1 s |", spans(&changed_us));
    let paused_us = pause_campaigns(market, facts);
    println!(
        "| a pause of a campaign, {PAUSES} times, until published | {} | – |",
        spans(&paused_us)
    );
}

fn spans(sample: &Sample) -> String {
    let [median, p99, most] = [50, 99, 100].map(|hundredths| time(sample.percentile(hundredths)));
    format!("p50 {median}, p99 {p99}, largest {most}")
}

/// Makes one ad after another the best of all, and sees that it is shown.
fn change_ads(market: &mut Market, facts: &ZoneFacts) -> Sample {
    let mut took_us = Sample::default();
    for at in spread(facts.ads.len(), CHANGES) {
        took_us.push(market.apply(vec![facts.ad(at, BEST_MICROS)]));
        assert_eq!(best_micros(market, facts), BEST_MICROS, "ad {at} is not shown");
        market.apply(vec![facts.ad(at, facts.ads[at].ecpm_micros)]);
    }
    took_us
}

/// Pauses one campaign after another, and sees at the end that the best ad is not shown while its campaign is paused.
fn pause_campaigns(market: &mut Market, facts: &ZoneFacts) -> Sample {
    let mut took_us = Sample::default();
    for at in spread(facts.countries.len(), PAUSES) {
        took_us.push(market.apply(vec![facts.campaign(at, Status::Paused)]));
        market.apply(vec![facts.campaign(at, Status::Active)]);
    }
    let best = facts.ads.iter().max_by_key(|ad| ad.ecpm_micros).unwrap();
    let next = facts.ads.iter().filter(|ad| ad.campaign != best.campaign);
    let next_micros = next.map(|ad| ad.ecpm_micros).max().unwrap();
    market.apply(vec![facts.campaign(best.campaign, Status::Paused)]);
    assert_eq!(best_micros(market, facts), next_micros, "a paused campaign is shown");
    market.apply(vec![facts.campaign(best.campaign, Status::Active)]);
    assert_eq!(best_micros(market, facts), best.ecpm_micros, "a campaign stays paused");
    took_us
}

/// What the best ad is worth to a request without keywords.
fn best_micros(market: &Market, facts: &ZoneFacts) -> i64 {
    let request = Request::new(facts.kind, ONE, 0);
    let mut scores = Vec::new();
    decide(market.ready(&request), &market.index.campaigns(), &mut scores);
    (scores[0] / 1.1_f64.ln() * 1e6).round() as i64
}

/// At most `len` places below `end`, evenly spread.
fn spread(end: usize, len: usize) -> impl Iterator<Item = usize> {
    (0..end).step_by(end.div_ceil(len))
}
