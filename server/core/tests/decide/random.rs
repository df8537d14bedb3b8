//! Random markets against the naive oracle.

use std::collections::{BTreeSet, HashSet};

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use slotwise_core::index::Change;
use slotwise_core::model::{Ad, CapLevel, Flight, Keywords, Placement, Profile, Status, Zone};

use crate::market::{
    DAY_US, HOUR_US, MINUTE_US, Market, Query, START_US, ad, capped, cases, query, zone,
};
use crate::oracle::{History, PlainAd, PlainCampaign, PlainQuery, ranking};

/// Each word in the ways that a caller may write it; the first is the normal form.
const WORDS: [[&str; 3]; 8] = [
    ["car", "Car", "  CAR"],
    ["straße", "STRASSE", " Straße "],
    ["café", "cafe\u{301}", "CAFÉ"],
    ["a, b", "A, B", "a, B\t"],
    ["luxury", "luxury", "Luxury"],
    ["style", " style", "STYLE"],
    ["σίσυφος", "ΣΊΣΥΦΟΣ", "σίσυφοσ"],
    ["9", "9", " 9 "],
];

fn words(up_to: usize) -> impl Strategy<Value = BTreeSet<&'static str>> {
    btree_set(prop::sample::select(WORDS.map(|forms| forms[0]).to_vec()), 0..=up_to)
}

/// The words as some caller writes them, one of them twice.
fn spelled(words: &BTreeSet<&'static str>, how: usize) -> Keywords {
    let forms = |word: &&'static str| WORDS.iter().find(|forms| forms[0] == *word).unwrap();
    let written = words.iter().enumerate().map(|(at, word)| forms(word)[(at + how) % 3]);
    Keywords::new(written.chain(words.first().copied()).chain(["", "  "]))
}

/// Few values, so that ties and floors are met, and some of any size.
fn ecpm_micros() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => prop::sample::select(vec![0, 1, 100_000_000, 200_000_000, 250_000_000]),
        1 => 0..=1_000_000_000_000_i64,
    ]
}

fn plain_campaign() -> impl Strategy<Value = PlainCampaign> {
    let start_us = prop::sample::select(vec![i64::MIN, START_US - 1, START_US, START_US + 1]);
    let end_us = prop::sample::select(vec![i64::MAX, i64::MAX, START_US + 1, START_US]);
    let paused = prop::bool::weighted(0.2);
    (0..3_usize, paused, start_us, end_us, -1..=1_i32).prop_map(
        |(advertiser, paused, start_us, end_us, tier)| PlainCampaign {
            advertiser,
            status: if paused { Status::Paused } else { Status::Active },
            start_us,
            end_us,
            tier,
            caps: Vec::new(),
        },
    )
}

fn plain_ad() -> impl Strategy<Value = PlainAd> {
    (0..8_usize, ecpm_micros(), words(6), prop_oneof![4 => words(0), 1 => words(2)]).prop_map(
        |(campaign, ecpm_micros, keywords, excluded)| PlainAd {
            campaign,
            ecpm_micros,
            keywords,
            excluded,
        },
    )
}

fn plain_query() -> impl Strategy<Value = PlainQuery> {
    (words(8), prop_oneof![Just(0), ecpm_micros()], prop_oneof![Just(0), ecpm_micros()]).prop_map(
        |(keywords, floor_ecpm_micros, zone_floor_ecpm_micros)| PlainQuery {
            now_us: START_US,
            keywords,
            floor_ecpm_micros,
            zone_floor_ecpm_micros,
        },
    )
}

/// Every ad's unit is its place in `ads`.
fn market(campaigns: &[PlainCampaign], ads: &[PlainAd], zone_floor_ecpm_micros: i64) -> Market {
    let id = |of: usize| format!("adv{}:{of}", campaigns[of].advertiser);
    let campaign_of = |(serial, plain): (u32, &PlainCampaign)| {
        let mut made = capped(serial, &id(serial as usize), &plain.caps);
        made.status = plain.status;
        made.flight = Flight { start_us: plain.start_us, end_us: plain.end_us };
        made.tier = plain.tier;
        made
    };
    let ad_of = |(serial, plain): (u32, &PlainAd)| {
        let made = ad(serial, &id(plain.campaign), &serial.to_string(), 0, &[]);
        let place =
            Placement { ecpm_micros: Some(plain.ecpm_micros), ..made.placements[0].clone() };
        let keywords = spelled(&plain.keywords, serial as usize);
        let excluded_keywords = spelled(&plain.excluded, serial as usize + 1);
        Ad { placements: [place].into(), keywords, excluded_keywords, ..made }
    };
    let campaigns = (0..).zip(campaigns).map(campaign_of).collect();
    let mut market = Market::new(campaigns, (0..).zip(ads).map(ad_of).collect());
    market.apply(vec![Change::Zone(Zone { floor_ecpm_micros: zone_floor_ecpm_micros, ..zone() })]);
    market
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn the_answer_is_the_oracles_up_to_the_order_inside_ties(
        campaigns in vec(plain_campaign(), 8),
        ads in vec(plain_ad(), 0..=300),
        plain in plain_query(),
        count in 1..=100_usize,
        seed: u64,
    ) {
        let mut market = market(&campaigns, &ads, plain.zone_floor_ecpm_micros);
        let query = Query {
            keywords: spelled(&plain.keywords, 2),
            floor_ecpm_micros: plain.floor_ecpm_micros,
            ..query(count)
        };
        let answer = market.choose(query, &mut Profile::default(), seed);
        let expected = ranking(&campaigns, &ads, &plain);

        prop_assert_eq!(answer.len(), count.min(expected.len()));
        let mut seen = HashSet::new();
        for (chosen, expected_here) in answer.iter().zip(&expected) {
            let at: usize = chosen.unit.parse().unwrap();
            prop_assert!(seen.insert(at), "ad {} twice", at);
            let its_own = expected.iter().find(|rank| rank.ad == at);
            prop_assert!(its_own.is_some(), "ad {} is not eligible", at);
            let its_own = its_own.unwrap();
            prop_assert_eq!(its_own.tier, expected_here.tier);
            prop_assert_eq!(its_own.score.to_bits(), expected_here.score.to_bits());
            prop_assert_eq!(chosen.score.to_bits(), its_own.score.to_bits());
            prop_assert_eq!(chosen.matched as usize, its_own.matched);
        }
    }
}

fn caps() -> impl Strategy<Value = Vec<(CapLevel, u32, i64)>> {
    let level = prop::sample::select(vec![CapLevel::Ad, CapLevel::Campaign, CapLevel::Advertiser]);
    let window_us = prop::sample::select(vec![MINUTE_US, HOUR_US, DAY_US]);
    prop_oneof![1 => Just(Vec::new()), 2 => vec((level, 1..=4_u32, window_us), 1..=3)]
}

proptest! {
    #![proptest_config(cases(64))]

    /// With all prices different the order is fixed, and so is who is shown under the caps.
    #[test]
    fn caps_hold_as_the_oracle_holds_them(
        campaigns in vec((0..3_usize, caps()), 6),
        of in vec(0..6_usize, 1..=20),
        visits in vec((1..=6_usize, 0..=HOUR_US), 1..=30),
    ) {
        let campaigns: Vec<_> = campaigns
            .into_iter()
            .map(|(advertiser, caps)| PlainCampaign {
                advertiser,
                status: Status::Active,
                start_us: i64::MIN,
                end_us: i64::MAX,
                tier: 0,
                caps,
            })
            .collect();
        let ads: Vec<_> = of
            .into_iter()
            .zip(1..)
            .map(|(campaign, worth)| PlainAd {
                campaign,
                ecpm_micros: worth * 1_000_000,
                keywords: BTreeSet::new(),
                excluded: BTreeSet::new(),
            })
            .collect();
        let mut market = market(&campaigns, &ads, 0);
        let (mut profile, mut history, mut now_us) = (Profile::default(), History::default(), START_US);
        for (count, pause_us) in visits {
            now_us += pause_us;
            let plain = PlainQuery {
                now_us,
                keywords: BTreeSet::new(),
                floor_ecpm_micros: 0,
                zone_floor_ecpm_micros: 0,
            };
            let ranks = ranking(&campaigns, &ads, &plain);
            let expected = history.show(&campaigns, &ads, &ranks, count, now_us);
            let expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
            prop_assert_eq!(market.show(count, &mut profile, now_us), expected);
        }
    }
}
