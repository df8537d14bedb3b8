//! Order, ties and scores.

use std::collections::{HashMap, HashSet};

use slotwise_core::model::{Blocks, Names, Profile};

use crate::market::{Chosen, Market, Query, ad, campaign, query, query_for, units};
use crate::oracle::chi_square;

/// Upper 0.1 % point of the chi-square distribution with 4 degrees of freedom.
const CHI_SQUARE_4_MAX: f64 = 18.47;
const CALLS: u64 = 10_000;

fn choose(market: &mut Market, query: Query, seed: u64) -> Vec<Chosen> {
    market.choose(query, &mut Profile::default(), seed)
}

fn assert_score(chosen: &Chosen, expected: f64) {
    assert!((chosen.score - expected).abs() < 5e-7, "{chosen:?} instead of {expected}");
}

/// A1 and A2 of one advertiser, B of another.
fn cars() -> Market {
    Market::new(
        vec![campaign(1, "a:1"), campaign(2, "b:1")],
        vec![
            ad(1, "a:1", "A1", 250, &["car", "luxury", "style"]),
            ad(2, "a:1", "A2", 250, &["car", "luxury", "style"]),
            ad(3, "b:1", "B", 200, &["car", "performance"]),
        ],
    )
}

fn five_equal() -> Market {
    let units = ["1", "2", "3", "4", "5"];
    let ads = (1..).zip(units).map(|(serial, unit)| ad(serial, "a:1", unit, 250, &[])).collect();
    Market::new(vec![campaign(1, "a:1")], ads)
}

#[test]
fn case_1_the_best_comes_first_however_the_ads_were_stored() {
    let ads = [("low", 200), ("high", 250), ("other", 250)];
    let ads = (1..).zip(ads).map(|(serial, (unit, ecpm))| ad(serial, "a:1", unit, ecpm, &[]));
    let mut market = Market::new(vec![campaign(1, "a:1")], ads.collect());
    for seed in 0..1_000 {
        let answer = choose(&mut market, query(1), seed);
        assert_eq!(answer.len(), 1);
        assert_ne!(answer[0].unit, "low");
    }
}

#[test]
fn case_2_keywords_decide_the_order() {
    let mut market = cars();
    for seed in 0..100 {
        let answer = choose(&mut market, query_for(3, &["car"]), seed);
        assert_eq!(answer[2].unit, "B");
        assert_score(&answer[0], 185.484_336);
        assert_score(&answer[1], 185.484_336);
        assert_score(&answer[2], 148.387_469);

        let answer = choose(&mut market, query_for(3, &["car", "performance"]), seed);
        assert_eq!(answer[0].unit, "B");
        assert_score(&answer[0], 226.280_422);
        assert_eq!(answer[0].matched, 2);

        let answer = choose(&mut market, query(3), seed);
        assert_eq!(answer[2].unit, "B");
        assert_score(&answer[0], 23.827_545);

        let answer = choose(&mut market, query_for(3, &["luxury", "style"]), seed);
        assert_eq!(answer[2].unit, "B");
        assert_score(&answer[0], 282.850_528);
        assert_score(&answer[1], 282.850_528);
    }
}

#[test]
fn case_6_an_ad_without_keywords_still_competes() {
    let mut market = Market::new(vec![campaign(1, "a:1")], vec![ad(1, "a:1", "bare", 200, &[])]);
    let answer = choose(&mut market, query_for(1, &["car"]), 0);
    assert_eq!((answer[0].unit.as_str(), answer[0].matched), ("bare", 0));
    assert_score(&answer[0], 19.062_036);
}

#[test]
fn case_7_equal_ads_are_chosen_equally_often() {
    let mut market = five_equal();
    let mut counts: HashMap<String, u32> = HashMap::new();
    for seed in 0..CALLS {
        for unit in units(&choose(&mut market, query(1), seed)) {
            *counts.entry(unit).or_default() += 1;
        }
    }
    assert_eq!(counts.values().sum::<u32>(), 10_000);
    let statistic = chi_square(&counts, 5);
    assert!(statistic < CHI_SQUARE_4_MAX, "{statistic}: {counts:?}");
}

#[test]
fn case_7_a_tie_at_the_cut_gives_each_its_share() {
    let mut market = five_equal();
    let (mut chosen, mut first) = (HashMap::<String, u32>::new(), HashMap::<String, u32>::new());
    for seed in 0..CALLS {
        let answer = units(&choose(&mut market, query(3), seed));
        assert_eq!(answer.iter().collect::<HashSet<_>>().len(), 3, "three different ones");
        *first.entry(answer[0].clone()).or_default() += 1;
        for unit in answer {
            *chosen.entry(unit).or_default() += 1;
        }
    }
    // 3 of 5 without repeats: each is chosen in 60 % of the calls, with variance n x 0.6 x 0.4,
    // and the counts sum to 3 n. Their squared deviations over that variance, times 4/5, follow
    // the chi-square distribution with 4 degrees of freedom.
    let (calls, share) = (CALLS as f64, 0.6);
    let off = |&count: &u32| (f64::from(count) - calls * share).powi(2);
    let statistic = chosen.values().map(off).sum::<f64>() / (calls * share * (1.0 - share)) * 0.8;
    assert_eq!(chosen.len(), 5);
    assert!(statistic < CHI_SQUARE_4_MAX, "{statistic}: {chosen:?}");
    let statistic = chi_square(&first, 5);
    assert!(statistic < CHI_SQUARE_4_MAX, "who comes first: {statistic}: {first:?}");
}

#[test]
fn case_9_repeats_case_and_spaces_of_a_keyword_do_not_matter() {
    let mut market = Market::new(
        vec![campaign(1, "a:1")],
        vec![ad(1, "a:1", "car", 200, &[" CAR "]), ad(2, "a:1", "list", 200, &["a, b"])],
    );
    let answer = choose(&mut market, query_for(1, &["car", "Car", "  car"]), 0);
    assert_eq!((answer[0].unit.as_str(), answer[0].matched), ("car", 1));
    assert_score(&answer[0], 148.387_469);
    let answer = choose(&mut market, query_for(1, &["A, B"]), 0);
    assert_eq!((answer[0].unit.as_str(), answer[0].matched), ("list", 1));
    for answer in choose(&mut market, query_for(2, &["a", "b"]), 0) {
        assert_eq!(answer.matched, 0);
    }
}

#[test]
fn case_11_excluding_an_advertiser_removes_its_campaigns_only() {
    let mut market = Market::new(
        vec![campaign(1, "7:3"), campaign(2, "3:7")],
        vec![ad(1, "7:3", "seven", 200, &[]), ad(2, "3:7", "three", 200, &[])],
    );
    let mut without = |advertiser: &str| {
        let mut query = query(2);
        query.blocks = Blocks::new([advertiser], [], []);
        units(&choose(&mut market, query, 0))
    };
    assert_eq!(without("3"), ["seven"]);
    assert_eq!(without("7"), ["three"]);
    assert_eq!(without("7:3").len(), 2, "a campaign is not an advertiser");
}

#[test]
fn case_12_the_answer_is_as_long_as_it_can_be() {
    let ads = (1..=4).map(|serial| ad(serial, "a:1", &serial.to_string(), 200, &[])).collect();
    let mut market = Market::new(vec![campaign(1, "a:1")], ads);
    let answer: HashSet<_> = units(&choose(&mut market, query(6), 0)).into_iter().collect();
    assert_eq!(answer.len(), 4);
}

#[test]
fn a_zone_without_ads_gives_an_empty_answer() {
    let mut market = Market::new(Vec::new(), Vec::new());
    assert_eq!(choose(&mut market, query(100), 0), []);
}

#[test]
fn a_lower_tier_never_passes_a_higher_one() {
    let mut first = campaign(1, "a:1");
    first.tier = 1;
    let mut below = campaign(3, "c:1");
    below.tier = -1;
    let mut market = Market::new(
        vec![first, campaign(2, "b:1"), below],
        vec![
            ad(1, "a:1", "house", 0, &[]),
            ad(2, "b:1", "paid", 1_000, &["car"]),
            ad(3, "c:1", "rest", 900_000, &["car"]),
        ],
    );
    let answer = choose(&mut market, query_for(3, &["car"]), 0);
    assert_eq!(units(&answer), ["house", "paid", "rest"]);
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let mut market = five_equal();
    let mut answers = HashSet::new();
    for seed in 0..50 {
        let answer = choose(&mut market, query(3), seed);
        assert_eq!(choose(&mut market, query(3), seed), answer);
        answers.insert(units(&answer));
    }
    assert!(answers.len() > 1, "another seed may give another one");
}

/// One answer is on one page.
#[test]
fn two_advertisers_with_one_label_are_not_in_one_answer() {
    let mut campaigns = vec![campaign(1, "a:1"), campaign(2, "b:1"), campaign(3, "a:2")];
    for labelled in &mut campaigns {
        labelled.competitive_labels = Names::new(["beer"]);
    }
    let ads = [(1, "a:1", 300), (2, "b:1", 200), (3, "a:2", 100)];
    let ads = ads.map(|(serial, of, worth)| ad(serial, of, &serial.to_string(), worth, &[]));
    let mut market = Market::new(campaigns, ads.into());
    assert_eq!(units(&choose(&mut market, query(3), 0)), ["1", "3"], "both of a, none of b");
}
