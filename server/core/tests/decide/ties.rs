//! Equal ads come in uniformly random order, whichever way the search came upon them: which come,
//! and in which order.

use slotwise_core::model::{CapLevel, Status};

use crate::chance::{assert_follows, assert_uniform};
use crate::filling::Seen;
use crate::market::{DAY_US, START_US, cases};
use crate::oracle::{PlainCampaign, PlainQuery};
use crate::world::{World, profile_of, query_of};

/// Decisions of one law: 3,000, and more where PROPTEST_CASES asks for more than 100 cases.
fn calls() -> u64 {
    30 * u64::from(cases(100).cases).max(100)
}

/// A zone with what is asked of it.
struct Scene {
    world: World,
    keywords: Vec<&'static str>,
    past: Vec<Seen>,
}

impl Scene {
    /// Ads of one price, of which every `each`-th has the keyword that is asked for.
    fn equal(ads: usize, ecpm_micros: i64, each: Option<usize>) -> Self {
        let has = |at: usize| each.is_some_and(|each| at.is_multiple_of(each));
        let ad = |at| (ecpm_micros, if has(at) { vec!["a"] } else { vec![] });
        Self { world: World::plain((0..ads).map(ad).collect()), keywords: vec!["a"], past: vec![] }
    }

    /// Ads that are given in groups of (how many, eCPM micros, keywords out of a, b).
    fn groups(groups: &[(usize, i64, &[&'static str])]) -> Self {
        let each = |(many, micros, words): &(usize, i64, &[&'static str])| {
            vec![(*micros, words.to_vec()); *many]
        };
        let ads = groups.iter().flat_map(each).collect();
        Self { world: World::plain(ads), keywords: vec!["a", "b"], past: vec![] }
    }

    /// Those that `is` names belong to a campaign that is switched off.
    fn paused(mut self, is: impl Fn(usize) -> bool) -> Self {
        let paused = PlainCampaign { status: Status::Paused, ..self.world.campaigns[0].clone() };
        self.world.campaigns.push(paused);
        let ads = self.world.ads.iter_mut().enumerate();
        ads.filter(|(at, _)| is(*at)).for_each(|(_, ad)| ad.campaign = 1);
        self
    }

    /// Those that `is` names have been seen as often as may be.
    fn seen(mut self, is: impl Fn(usize) -> bool) -> Self {
        self.world.campaigns[0].caps = vec![(CapLevel::Ad, 1, DAY_US)];
        let seen = (0..self.world.ads.len()).filter(|at| is(*at));
        self.past = seen.map(|at| self.world.seen(at, START_US - 1)).collect();
        self
    }

    /// The answers to many seeds.
    fn answers(&self, count: usize, calls: u64) -> Vec<Vec<usize>> {
        let mut market = self.world.market();
        let asked = PlainQuery {
            now_us: START_US,
            keywords: self.keywords.iter().copied().collect(),
            floor_ecpm_micros: 0,
            zone_floor_ecpm_micros: 0,
        };
        let (query, profile) = (query_of(&asked, count), profile_of(&self.past));
        let mut one = |seed| {
            let answer = market.choose(query.clone(), &mut profile.clone(), seed);
            answer.iter().map(|chosen| chosen.unit.parse().unwrap()).collect()
        };
        (0..calls).map(&mut one).collect()
    }

    /// The places from `from` on of every answer are a random draw from `equal`: the first and the
    /// last of them, their pairs, and who is among them at all.
    fn check(&self, what: &str, count: usize, from: usize, equal: &[usize], calls: u64) {
        let answers = self.answers(count, calls);
        let place = |ad: usize| {
            equal.iter().position(|equal| *equal == ad).unwrap_or_else(|| panic!("{what}: {ad}"))
        };
        let drawn: Vec<Vec<usize>> = answers
            .iter()
            .map(|answer| {
                assert_eq!(answer.len(), count, "{what}");
                answer[from..].iter().map(|ad| place(*ad)).collect()
            })
            .collect();
        let first = || drawn.iter().map(|drawn| drawn[0]);
        let last = || drawn.iter().map(|drawn| drawn[drawn.len() - 1]);
        let all = equal.len();
        // At least ten calls for each kind.
        let kinds = all.min(usize::try_from(calls).unwrap() / 10).min(500);
        assert_buckets(&format!("{what}: first"), first(), all, kinds, |at| at % kinds);
        assert_buckets(&format!("{what}: last"), last(), all, kinds, |at| at % kinds);
        assert_buckets(&format!("{what}: where"), last(), all, 10, |at| at * 10 / all);
        if count - from > 1 {
            assert_pairs(what, first().zip(last()), all);
            assert_shares(what, &drawn, all);
        }
    }
}

/// Draws of one in `all`, put into buckets.
fn assert_buckets(
    what: &str,
    drawn: impl Iterator<Item = usize>,
    all: usize,
    buckets: usize,
    of: impl Fn(usize) -> usize,
) {
    let mut sizes = vec![0_u32; buckets];
    (0..all).for_each(|at| sizes[of(at)] += 1);
    let law = sizes.iter().map(|size| f64::from(*size) / all as f64).enumerate();
    assert_follows(what, drawn.map(&of), law);
}

/// Two different ones of `all`, in either order: where there are few, every pair.
fn assert_pairs(what: &str, drawn: impl Iterator<Item = (usize, usize)>, all: usize) {
    let buckets = if all <= 10 { all } else { 7 };
    let size = |bucket: usize| (0..all).filter(|at| at % buckets == bucket).count();
    let law = (0..buckets * buckets).map(|pair| {
        let (left, right) = (pair / buckets, pair % buckets);
        let others = size(right) - usize::from(left == right);
        ((left, right), (size(left) * others) as f64 / (all * (all - 1)) as f64)
    });
    let drawn = drawn.map(|(left, right)| (left % buckets, right % buckets));
    assert_follows(&format!("{what}: pairs"), drawn, law);
}

/// How often each was among those that were drawn without repeats, several at a time: as for
/// single draws, but the variance is smaller by (all - drawn) / (all - 1).
fn assert_shares(what: &str, drawn: &[Vec<usize>], all: usize) {
    let each = drawn[0].len();
    if each == all {
        return;
    }
    let buckets = all.min(50);
    let (mut counts, mut sizes) = (vec![0_u32; buckets], vec![0_u32; buckets]);
    (0..all).for_each(|at| sizes[at % buckets] += 1);
    drawn.iter().flatten().for_each(|at| counts[at % buckets] += 1);
    let calls = (drawn.len() * each) as f64;
    let off = |(count, size): (&u32, &u32)| {
        let expected = calls * f64::from(*size) / all as f64;
        (f64::from(*count) - expected).powi(2) / expected
    };
    let smaller = (all - each) as f64 / (all - 1) as f64;
    let statistic = counts.iter().zip(&sizes).map(off).sum::<f64>() / smaller;
    let max = crate::chance::chi_square_max(buckets - 1);
    assert!(statistic < max, "{what}: shares: {statistic} with {buckets} buckets: {counts:?}");
}

fn all(ads: usize) -> Vec<usize> {
    (0..ads).collect()
}

fn others(ads: usize, is: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..ads).filter(|at| !is(*at)).collect()
}

/// One, some and all of zones whose ads are alike: 16 and 17 are where the way of drawing changes.
#[test]
fn alike_without_a_match() {
    for ads in [2, 3, 5, 16, 17, 40, 240] {
        let scene = Scene::equal(ads, 250_000_000, None);
        for count in [1, 2, ads / 2 + 1, ads].into_iter().filter(|count| *count <= 60.min(ads)) {
            let calls = if count > 10 { calls() / 4 } else { calls() };
            scene.check(&format!("{count} of {ads}"), count, 0, &all(ads), calls);
        }
    }
}

/// The same where each of them has a match, and the count goes over one or many windows.
#[test]
fn alike_with_a_match() {
    for ads in [2, 3, 5, 17, 240, 5_000] {
        let scene = Scene::equal(ads, 250_000_000, Some(1));
        for count in [1, 2, ads / 2 + 1].into_iter().filter(|count| *count <= 60.min(ads)) {
            let calls = if count > 10 || ads > 1_000 { calls() / 4 } else { calls() };
            scene.check(&format!("{count} of {ads}"), count, 0, &all(ads), calls);
        }
    }
}

/// In a small zone and in a large one, each with the matched as a row of bits and as a short list.
#[test]
fn the_matched_among_many() {
    for (ads, each) in [(400, 5), (2_000, 40), (3_000, 25), (4_000, 40)] {
        let scene = Scene::equal(ads, 250_000_000, Some(each));
        let matched = others(ads, |at| !at.is_multiple_of(each));
        for count in [1, 2, 30] {
            let what = format!("{count} of every {each}th of {ads}");
            scene.check(&what, count, 0, &matched, calls() / 4);
        }
    }
}

/// Every order of three, by each way.
#[test]
fn all_orders_are_equally_likely() {
    let scenes = [
        ("few", Scene::equal(3, 1, None), vec![0, 1, 2]),
        ("of a large level", Scene::equal(30, 1, None).paused(|at| at % 10 > 0), vec![0, 10, 20]),
        ("matched", Scene::equal(3, 1, Some(1)), vec![0, 1, 2]),
        ("some matched at no price", Scene::equal(3, 0, Some(2)), vec![0, 1, 2]),
        ("of many matched", Scene::equal(90, 1, Some(30)), vec![0, 30, 60]),
        ("what was not seen", Scene::equal(12, 1, None).seen(|at| at % 4 > 0), vec![0, 4, 8]),
    ];
    for (what, scene, equal) in scenes {
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let orders = orders.map(|order| order.map(|at| equal[at]).to_vec());
        assert_uniform(what, scene.answers(3, calls()), orders);
    }
}

/// Better ones first, then some of many equal ones.
#[test]
fn a_tie_at_the_cut() {
    let scenes = [
        ("unmatched", Scene::groups(&[(2, 9, &[]), (7, 5, &[]), (40, 1, &[])]), 2..9),
        ("many unmatched", Scene::groups(&[(2, 9, &[]), (50, 5, &[]), (9, 1, &[])]), 2..52),
        ("matched", Scene::groups(&[(2, 5, &["a", "b"]), (7, 5, &["b"]), (40, 5, &[])]), 2..9),
        ("many", Scene::groups(&[(2, 5, &["a", "b"]), (300, 5, &["b"]), (9, 5, &[])]), 2..302),
        ("below the rest", Scene::groups(&[(300, 5, &["a"]), (2, 5, &["a", "b"])]), 0..300),
    ];
    for (what, scene, equal) in scenes {
        let equal: Vec<_> = equal.collect();
        for count in [3, 4, 7] {
            let what = format!("{what}, {count}");
            scene.check(&what, count, 2, &equal, calls() / 2);
        }
    }
}

/// At no price every score is 0, with or without a match.
#[test]
fn at_no_price_matches_do_not_matter() {
    for (ads, each) in [(6, 2), (6, 5), (40, 3), (400, 2), (1_500, 50)] {
        let scene = Scene::equal(ads, 0, Some(each));
        for count in [1, 2, 6, 19.min(ads)] {
            let what = format!("{count} of {ads}, every {each}th matched");
            scene.check(&what, count, 0, &all(ads), calls() / 2);
        }
    }
    let below = Scene::groups(&[(1, 7, &[]), (20, 0, &["a"]), (20, 0, &[]), (9, 0, &["a", "b"])]);
    below.check("below one with a price", 3, 1, &(1..50).collect::<Vec<_>>(), calls());
}

fn score(ecpm_micros: i64, matched: usize) -> f64 {
    (ecpm_micros as f64 / 1e6) * (1.1 + matched as f64).ln()
}

/// The eCPM that scores with `matched` what another scores.
fn equal_to(score_wanted: f64, matched: usize) -> Option<i64> {
    // Far inside an i64.
    #[allow(clippy::cast_possible_truncation)]
    let near = (score_wanted / (1.1 + matched as f64).ln() * 1e6) as i64;
    (near - 2..=near + 2).find(|micros| score(*micros, matched).to_bits() == score_wanted.to_bits())
}

/// Different prices with 0, 1 and 2 matches whose scores are the same to the last bit.
fn equal_scores() -> [i64; 3] {
    let found = (4_000_000_000_000_000..).take(1_000_000).find_map(|micros| {
        let one = equal_to(score(micros, 0), 1)?;
        Some([micros, one, equal_to(score(micros, 0), 2)?])
    });
    found.expect("some scores are equal")
}

#[test]
fn different_prices_with_the_same_score() {
    let [none, one, two] = equal_scores();
    assert!(none > one && one > two);
    for many in [1, 3, 20, 100] {
        let scene =
            Scene::groups(&[(many, none, &[]), (many, one, &["b"]), (many, two, &["a", "b"])]);
        for count in [1, 2, 3] {
            let what = format!("{count} of {many} of each price");
            scene.check(&what, count, 0, &all(3 * many), calls());
        }
        let better = [(2, 2 * one, &["a"][..]), (many, none, &[]), (many, two, &["a", "b"])];
        let scene = Scene::groups(&better);
        let equal: Vec<_> = (2..2 + 2 * many).collect();
        let what = format!("{many} of each price at the cut");
        scene.check(&what, 3, 2, &equal, calls());
    }
}

/// Few, half, and nearly all of the ads are turned down while they are drawn.
#[test]
fn what_is_turned_down_leaves_the_others_alike() {
    let every = |n: usize| move |at: usize| at.is_multiple_of(n);
    for each in [None, Some(1)] {
        let few = Scene::equal(240, 1, each).paused(every(24));
        few.check(&format!("few, {each:?}"), 2, 0, &others(240, every(24)), calls());
        let half = Scene::equal(100, 1, each).paused(every(2));
        half.check(&format!("half, {each:?}"), 3, 0, &others(100, every(2)), calls());
        let most = |at: usize| !at.is_multiple_of(20);
        let scene = Scene::equal(600, 1, each).paused(most);
        for count in [1, 2, 29] {
            let what = format!("most, {count}, {each:?}");
            scene.check(&what, count, 0, &others(600, most), calls() / 2);
        }
    }
}

/// Found, then turned down by a cap: the search goes on with those that are equal to the last.
#[test]
fn what_a_cap_turns_down_leaves_the_others_alike() {
    for each in [None, Some(1)] {
        let first = |at: usize| at < 4;
        let scene = Scene::equal(12, 1, each).seen(first);
        for count in [1, 2, 8] {
            let what = format!("{count} of 8, {each:?}");
            scene.check(&what, count, 0, &others(12, first), calls());
        }
        let most = |at: usize| !at.is_multiple_of(5);
        let scene = Scene::equal(150, 1, each).seen(most);
        for count in [1, 2] {
            let what = format!("{count} of 30, {each:?}");
            scene.check(&what, count, 0, &others(150, most), calls() / 4);
        }
        let some = |at: usize| at.is_multiple_of(9);
        let what = format!("100 of 800, {each:?}");
        Scene::equal(900, 1, each).seen(some).check(
            &what,
            100,
            0,
            &others(900, some),
            calls() / 15,
        );
    }
    let mixed = |at: usize| at.is_multiple_of(3);
    let scene = Scene::equal(60, 0, Some(2)).seen(mixed);
    scene.check("at no price", 2, 0, &others(60, mixed), calls());
    // The best was seen, so that what was found at the cut is used up and more is looked for.
    for (what, top, rest) in [
        ("prices", (1, 9, &[][..]), (6, 5, &[][..])),
        ("matches", (1, 5, &["a", "b"][..]), (6, 5, &["a"][..])),
    ] {
        let scene = Scene::groups(&[top, rest]).seen(|at| at == 0);
        for count in [1, 2, 6] {
            let what = format!("{count} below one that was seen, by {what}");
            scene.check(&what, count, 0, &[1, 2, 3, 4, 5, 6], calls());
        }
    }
}

/// One ad of each campaign only: of those left, each is next with the same chance, so campaigns
/// come by the number of their ads.
#[test]
fn campaigns_that_are_used_up_leave_the_others_alike() {
    const SIZES: [usize; 5] = [1, 2, 3, 4, 30];
    let sum: usize = SIZES.iter().sum();
    for each in [None, Some(1)] {
        let mut scene = Scene::equal(sum, 1, each);
        let caps = vec![(CapLevel::Campaign, 1, DAY_US)];
        let campaign = PlainCampaign { caps, ..scene.world.campaigns[0].clone() };
        let campaign = |advertiser| PlainCampaign { advertiser, ..campaign.clone() };
        scene.world.campaigns = (0..SIZES.len()).map(campaign).collect();
        let of: Vec<_> = SIZES.iter().enumerate().flat_map(|(of, size)| vec![of; *size]).collect();
        for (ad, of) in scene.world.ads.iter_mut().zip(&of) {
            ad.campaign = *of;
        }
        let law = (0..25).filter(|pair| pair / 5 != pair % 5).map(|pair| {
            let (first, second) = (pair / 5, pair % 5);
            let chance = SIZES[first] as f64 / sum as f64 * SIZES[second] as f64
                / (sum - SIZES[first]) as f64;
            ((first, second), chance)
        });
        let answers = scene.answers(2, calls());
        let drawn = answers.iter().map(|answer| (of[answer[0]], of[answer[1]]));
        assert_follows(&format!("campaigns, {each:?}"), drawn, law);
        let of_last = answers.iter().flatten().filter(|ad| of[**ad] == 4);
        assert_uniform("inside a campaign", of_last.copied(), 10..sum);
    }
}
