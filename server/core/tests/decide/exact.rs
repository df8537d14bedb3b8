//! The answer is that of scoring and sorting everything, whatever the zone: random ones up to
//! 5,000 ads, and those that make a search look at much.

use proptest::prelude::*;
use slotwise_core::model::{CapLevel, Status};

use crate::filling::{Filling, Seen};
use crate::market::{DAY_US, Market, START_US, cases};
use crate::oracle::{PlainQuery, ranking};
use crate::world::{Dice, Prices, Recipe, World, profile_of, query_of, recipe};

const COUNT_MAX: usize = 100;

/// Decides, and goes through the answer: each ad must be one of the best that the rule still
/// allows, and its score and matches those of the rule.
fn check(
    world: &World,
    market: &mut Market,
    asked: &PlainQuery,
    past: &[Seen],
    count: usize,
    seed: u64,
) {
    let answer = market.choose(query_of(asked, count), &mut profile_of(past), seed);
    let ranks = ranking(&world.campaigns, &world.ads, asked);
    let of = world.ads.iter().map(|ad| ad.campaign).collect();
    let mut filling = Filling::new(&world.campaigns, of, asked.now_us, past, vec![(ranks, count)]);
    for chosen in &answer {
        let rank = filling.take(0, chosen.unit.parse().unwrap());
        assert_eq!(chosen.score.to_bits(), rank.score.to_bits(), "{chosen:?}");
        assert_eq!(chosen.matched as usize, rank.matched, "{chosen:?}");
    }
    assert!(answer.len() <= count);
    assert!(answer.len() == count || filling.best().is_none(), "{} of {count}", answer.len());
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn every_zone_is_answered_as_by_scoring_and_sorting_it(recipe in recipe(5_000)) {
        let world = Recipe { capped_percent: 0, ..recipe }.make();
        let (mut market, mut dice) = (world.market(), Dice::new(recipe.seed ^ 1));
        for (seed, up_to) in (0..).zip([0, 1, 2, 3, 6, 7, 12, 30, 64]) {
            let asked = world.ask(&mut dice, up_to);
            for count in [1, 1 + dice.below(9), 1 + dice.below(COUNT_MAX)] {
                check(&world, &mut market, &asked, &[], count, seed);
            }
        }
    }

    /// Caps turn winners down after they were found, so that the search goes on.
    #[test]
    fn what_caps_turn_down_makes_room_for_the_next(
        recipe in recipe(4_000),
        showings in prop::sample::select(vec![0_usize, 10, 100]),
    ) {
        let world = recipe.make();
        let (mut market, mut dice) = (world.market(), Dice::new(recipe.seed ^ 2));
        for (seed, up_to) in (0..).zip([0, 2, 6, 7, 40]) {
            let asked = world.ask(&mut dice, up_to);
            let past = world.past(&mut dice, showings);
            for count in [1, 1 + dice.below(9), 1 + dice.below(COUNT_MAX)] {
                check(&world, &mut market, &asked, &past, count, seed);
            }
        }
    }
}

#[test]
fn every_count_is_kept() {
    let recipe = Recipe {
        ads: 400,
        prices: Prices::Few,
        words: 64,
        words_per_ad: 4,
        campaigns: 40,
        tiers: 2,
        refused_percent: 20,
        capped_percent: 30,
        zone_floor_ecpm_micros: 0,
        seed: 1,
    };
    let equal = Recipe { prices: Prices::Equal, tiers: 1, capped_percent: 0, ..recipe.clone() };
    for recipe in [recipe, equal] {
        let world = recipe.make();
        let (mut market, mut dice) = (world.market(), Dice::new(3));
        let asked = [0, 4, 12].map(|up_to| world.ask(&mut dice, up_to));
        for (seed, count) in (0..).zip(1..=COUNT_MAX) {
            check(&world, &mut market, &asked[count % 3], &[], count, seed);
        }
    }
}

/// Zones of this many ads make every trick of a search useless.
const LARGE: usize = 5_000;
const ALL: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

fn asking(keywords: &[&'static str]) -> PlainQuery {
    PlainQuery {
        now_us: START_US,
        keywords: keywords.iter().copied().collect(),
        floor_ecpm_micros: 0,
        zone_floor_ecpm_micros: 0,
    }
}

fn check_some(world: &World, keywords: &[&'static str]) {
    let mut market = world.market();
    for (seed, count) in (0..).zip([1, 2, 7, 63, 64, 65, COUNT_MAX]) {
        check(world, &mut market, &asking(keywords), &[], count, seed);
    }
}

#[test]
fn all_prices_equal_and_nothing_matches() {
    let world = World::plain((0..LARGE).map(|_| (250_000_000, vec!["a"])).collect());
    check_some(&world, &["x", "y"]);
}

#[test]
fn every_ad_has_every_keyword() {
    for words in [1, 3, 6, 7, 9] {
        // Each size is one that is searched in another way.
        for ads in [500, 2_500] {
            let equal = World::plain((0..ads).map(|_| (1, ALL[..words].to_vec())).collect());
            check_some(&equal, &ALL[..words]);
            let falling = World::plain((0..ads).map(|ad| (ad, ALL[..words].to_vec())).collect());
            check_some(&falling, &ALL[..words]);
        }
    }
}

/// The worst of the prices has all the matches, and so beats the best of them.
#[test]
fn matches_at_the_end_of_the_zone_are_found() {
    for words in [1, 2, 6, 7, 9] {
        let ad = |at: i64| {
            let keywords = if at % 97 == 5 { ALL[..words].to_vec() } else { vec![ALL[0]] };
            (1_000_000 - at, keywords)
        };
        for ads in [1_000, 3_000] {
            check_some(&World::plain((0..ads).map(ad).collect()), &ALL[..words]);
            let only_the_last =
                |at: i64| (1_000_000, if at == ads - 1 { ALL.to_vec() } else { vec![] });
            check_some(&World::plain((0..ads).map(only_the_last).collect()), &ALL[..words]);
        }
    }
}

#[test]
fn all_but_the_last_are_paused() {
    for keywords in [vec![], vec!["a"]] {
        let mut world = World::plain((0..LARGE).map(|_| (250_000_000, keywords.clone())).collect());
        world.campaigns.push(world.campaigns[0].clone());
        world.campaigns[0].status = Status::Paused;
        world.ads[LARGE - 1].campaign = 1;
        world.ads[LARGE - 1].ecpm_micros = 1;
        check_some(&world, &["a"]);
    }
}

/// As many ads of an advertiser as a visitor's list of it can hold showings.
const OF_ADVERTISER: usize = 200;

#[test]
fn all_but_the_last_have_been_seen() {
    for (level, keywords) in
        [(CapLevel::Ad, vec![]), (CapLevel::Ad, vec!["a"]), (CapLevel::Campaign, vec!["a"])]
    {
        let ads = 15 * OF_ADVERTISER;
        let mut world = World::plain((0..ads).map(|_| (250_000_000, keywords.clone())).collect());
        let campaign = |advertiser| {
            let caps = vec![(level, 1, DAY_US)];
            crate::oracle::PlainCampaign { advertiser, caps, ..world.campaigns[0].clone() }
        };
        world.campaigns = (0..=15).map(campaign).collect();
        for (at, ad) in world.ads.iter_mut().enumerate() {
            ad.campaign = at / OF_ADVERTISER;
        }
        world.ads[ads - 1].campaign = 15;
        world.ads[ads - 1].ecpm_micros = 1;
        let seen_once = match level {
            CapLevel::Ad => 1,
            CapLevel::Campaign | CapLevel::Advertiser => OF_ADVERTISER,
        };
        let past: Vec<_> =
            (0..ads - 1).step_by(seen_once).map(|ad| world.seen(ad, START_US - 1)).collect();
        let mut market = world.market();
        for (seed, count) in (0..).zip([1, 2, COUNT_MAX]) {
            check(&world, &mut market, &asking(&["a"]), &past, count, seed);
        }
    }
}

/// Ads are counted 64 at a time, and a tier begins anywhere among them: its neighbours of the tier
/// above are not its own, nor do those of its best that match nothing come twice.
#[test]
fn a_tier_has_just_its_own_ads_wherever_it_begins() {
    for above in [1, 63, 65, 70, 90] {
        for dense in [1, 2, 50] {
            let ad = |at: i64| {
                let is_matched = at < above || (at >= above + 10 && at % dense == 0);
                let price = if at < above { 1 } else { 1_000 };
                ((4_000 - at) * price, if is_matched { vec!["a"] } else { vec![] })
            };
            let mut world = World::plain((0..3_000).map(ad).collect());
            world
                .campaigns
                .push(crate::oracle::PlainCampaign { tier: 1, ..world.campaigns[0].clone() });
            for ad in &mut world.ads[..usize::try_from(above).unwrap()] {
                ad.campaign = 1;
            }
            check_some(&world, &["a"]);
        }
    }
}

/// A bar that was set by what came before is met or beaten by those of one price: by few matches, or
/// by more of them among many that only equal it.
#[test]
fn more_matches_are_found_among_many_of_one_price() {
    for (dearer, price) in [(0, 10), (100, 10), (100, 9), (100, 6)] {
        for first in [0, 700, 2_500] {
            let ad = |at: i64| {
                let is_more = at >= first && at % 64 == 11;
                let price = if at < dearer { 10 } else { price };
                (price, if is_more { vec!["a", "b"] } else { vec!["a"] })
            };
            check_some(&World::plain((0..3_000).map(ad).collect()), &["a", "b", "x"]);
        }
    }
}
