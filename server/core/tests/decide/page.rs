//! A page's places are filled as the rule says: again and again one of the best pairs of place and
//! ad that the page and the visitor's caps still allow.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rand_xoshiro::rand_core::SeedableRng;
use slotwise_core::decide::{Decision, Page, PageRules, Query, Rng, Strict};
use slotwise_core::index::Change;
use slotwise_core::model::{Ad, CapLevel, Names, Placement, Size, Zone, ZoneSerial};

use crate::chance::{assert_follows, assert_uniform};
use crate::filling::{Filling, PlainRules, Seen};
use crate::market::{DAY_US, Market, SITE, START_US, cases, query, zone};
use crate::oracle::{PlainAd, PlainQuery, Rank, ranking};
use crate::world::{Dice, Recipe, World, profile_of, query_of, recipe};

pub(super) const ZONES: [&str; 3] = ["z0", "z1", "z2"];
const LABELS: [&str; 3] = ["cars", "beer", "banks"];

/// Three zones of one world: what each ad is worth in each of them, if it is there.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pub(super) world: World,
    pub(super) prices: Vec<[Option<i64>; 3]>,
    pub(super) rules: PlainRules,
    /// Asked for by themselves, not as a page.
    pub(super) are_single: bool,
}

/// One place of a page.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) zone: usize,
    pub(super) count: usize,
    pub(super) asked: PlainQuery,
}

impl Pages {
    /// Every ad in two zones of three, at several prices.
    pub(super) fn new(recipe: &Recipe, are_distinct: bool) -> Self {
        let (world, mut dice) = (recipe.make(), Dice::new(recipe.seed ^ 4));
        let mut price = |at: usize, zone: usize, micros: i64| {
            let distinct = 1_000_000_000 + i64::try_from(at * 3 + zone).unwrap() * 7_919;
            let there = dice.percent(66);
            let other = dice.one_of(&[micros, micros, 150_000_000]);
            there.then_some(if are_distinct { distinct } else { other })
        };
        let ads = world.ads.iter().map(|ad| ad.ecpm_micros).enumerate();
        let prices =
            ads.map(|(at, micros)| [0, 1, 2].map(|zone| price(at, zone, micros))).collect();
        let label = |_: usize| {
            let count = dice.below(3);
            (0..count).map(|_| dice.one_of(&LABELS)).collect()
        };
        let labels = (0..world.campaigns.len()).map(label).collect();
        let campaign_max = dice.below(4);
        Self { world, prices, rules: PlainRules { campaign_max, labels }, are_single: false }
    }

    /// The same ads at their prices in all three zones, without page rules of their own.
    fn alike(ads: usize) -> Self {
        let world = World::plain(vec![(250_000_000, vec![]); ads]);
        let rules = PlainRules { campaign_max: 0, labels: vec![BTreeSet::new()] };
        Self { world, prices: vec![[Some(250_000_000); 3]; ads], rules, are_single: false }
    }

    pub(super) fn market(&self) -> Market {
        let zone = |(at, id): (u32, &&str)| {
            let serial = ZoneSerial(10 + at);
            Change::Zone(Zone { serial, id: (*id).into(), ..zone() })
        };
        let campaign = |of: usize| {
            let mut made = self.world.campaign(of);
            made.competitive_labels = Names::new(self.rules.labels[of].iter().copied());
            Change::Campaign(made)
        };
        let ad = |at: usize| {
            let place = |(zone, price): (&&str, &Option<i64>)| {
                price.map(|_| Placement {
                    site: SITE.into(),
                    zone: (*zone).into(),
                    ecpm_micros: *price,
                })
            };
            let placements = ZONES.iter().zip(&self.prices[at]).filter_map(place).collect();
            Change::Ad(Ad { placements, ..self.world.ad(at) })
        };
        let mut market = Market::new(Vec::new(), Vec::new());
        let campaigns = (0..self.world.campaigns.len()).map(campaign);
        let ads = (0..self.world.ads.len()).map(ad);
        market.apply((0..).zip(&ZONES).map(zone).chain(campaigns).chain(ads).collect());
        market
    }

    /// What is eligible for a place, best first.
    pub(super) fn ranks(&self, place: &Place) -> Vec<Rank> {
        let priced = self.prices.iter().map(|prices| prices[place.zone]).zip(&self.world.ads);
        let there = priced.enumerate().filter_map(|(at, (price, ad))| Some((at, price?, ad)));
        let (numbers, ads): (Vec<usize>, Vec<PlainAd>) =
            there.map(|(at, ecpm_micros, ad)| (at, PlainAd { ecpm_micros, ..ad.clone() })).unzip();
        let ranks = ranking(&self.world.campaigns, &ads, &place.asked);
        ranks.into_iter().map(|rank| Rank { ad: numbers[rank.ad], ..rank }).collect()
    }

    pub(super) fn filling(&self, places: &[Place], past: &[Seen]) -> Filling<'_> {
        let of = self.world.ads.iter().map(|ad| ad.campaign).collect();
        let places = places.iter().map(|place| (self.ranks(place), place.count)).collect();
        let filling = Filling::new(&self.world.campaigns, of, START_US, past, places);
        // Labels hold in every answer, the number of a campaign's ads on pages only.
        let campaign_max = if self.are_single { 0 } else { self.rules.campaign_max };
        filling.on_page(PlainRules { campaign_max, ..self.rules.clone() })
    }

    /// A decision over these places, only in these sizes.
    pub(super) fn decision(
        &self,
        market: &Market,
        page: Page,
        places: &[Place],
        seed: u64,
        sizes: &[Size],
    ) -> Decision {
        let campaign_max = u32::try_from(self.rules.campaign_max).unwrap();
        let rules = (!self.are_single).then_some(PageRules { campaign_max });
        let page = Page { rules, ..page };
        let place = |place: &Place| {
            let block = market.index.zone(SITE, ZONES[place.zone]).unwrap();
            let query = query_of(&place.asked, place.count).split().1;
            (block, Query { sizes: sizes.to_vec(), ..query })
        };
        Decision::new(page, places.iter().map(place), Rng::seed_from_u64(seed))
    }

    /// What is chosen, in the order of choosing, as (place, ad, score, matched).
    fn choose(
        &self,
        market: &Market,
        places: &[Place],
        past: &[Seen],
        seed: u64,
    ) -> Vec<(usize, usize, f64, u32)> {
        let mut decision = self.decision(market, query(1).split().0, places, seed, &[]);
        let campaigns = market.index.campaigns();
        decision.look(&campaigns);
        decision.admit(&campaigns, &mut profile_of(past), 1, Strict::Local).unwrap();
        let winners = decision.winners().map(|winner| {
            let ad = winner.entry.ad.unit.as_str().parse().unwrap();
            (winner.placement, ad, winner.score, winner.matched)
        });
        winners.collect()
    }
}

pub(super) fn place(zone: usize, count: usize) -> Place {
    let asked = PlainQuery {
        now_us: START_US,
        keywords: BTreeSet::new(),
        floor_ecpm_micros: 0,
        zone_floor_ecpm_micros: 0,
    };
    Place { zone, count, asked }
}

/// One to six places, some in the same zone.
pub(super) fn places(world: &World, dice: &mut Dice) -> Vec<Place> {
    let mut one = || {
        let up_to = dice.one_of(&[0, 1, 3, 8]);
        let asked = world.ask(dice, up_to);
        let asked = PlainQuery { zone_floor_ecpm_micros: 0, ..asked };
        Place { zone: dice.below(3), count: dice.one_of(&[1, 1, 2, 5, 12]), asked }
    };
    let mut places: Vec<_> = (0..5).map(|_| one()).collect();
    places.truncate(1 + dice.below(5));
    places
}

proptest! {
    #![proptest_config(cases(96))]

    /// With ties, too: every ad that is taken is one of the best then.
    #[test]
    fn every_step_takes_one_of_the_best_that_are_allowed(
        recipe in recipe(300),
        showings in prop::sample::select(vec![0_usize, 10, 60]),
    ) {
        let pages = Pages::new(&recipe, false);
        let (market, mut dice) = (pages.market(), Dice::new(recipe.seed ^ 5));
        for seed in 0..6 {
            let places = places(&pages.world, &mut dice);
            let past = pages.world.past(&mut dice, showings);
            let mut filling = pages.filling(&places, &past);
            for (place, ad, score, matched) in pages.choose(&market, &places, &past, seed) {
                let rank = filling.take(place, ad);
                prop_assert_eq!(score.to_bits(), rank.score.to_bits());
                prop_assert_eq!(matched as usize, rank.matched);
            }
            prop_assert_eq!(filling.choices(), []);
        }
    }

    /// With all prices different, the page is what the rule makes of it and nothing else. Two
    /// places of one zone would be equal, so each zone has one.
    #[test]
    fn without_ties_the_page_is_the_rules(
        recipe in recipe(120),
        showings in prop::sample::select(vec![0_usize, 10, 60]),
        seed: u64,
    ) {
        let pages = Pages::new(&recipe, true);
        let (market, mut dice) = (pages.market(), Dice::new(recipe.seed ^ 6));
        let past = pages.world.past(&mut dice, showings);
        let counts = [0, 1, 2].map(|_| dice.one_of(&[1, 2, 9]));
        let places = [2, 0, 1].map(|zone| place(zone, counts[zone]));
        let mut filling = pages.filling(&places, &past);
        let mut expected = Vec::new();
        while let [(place, ad)] = filling.choices()[..] {
            filling.take(place, ad);
            expected.push((place, ad));
        }
        prop_assert_eq!(filling.choices(), [], "no ties");
        let page = pages.choose(&market, &places, &past, seed);
        let page: Vec<_> = page.iter().map(|(place, ad, _, _)| (*place, *ad)).collect();
        prop_assert_eq!(page, expected);
    }
}

/// Decisions of one law: 3,000, and more where PROPTEST_CASES asks for more than 100 cases.
fn calls() -> u64 {
    30 * u64::from(cases(100).cases).max(100)
}

fn pages_drawn(pages: &Pages, places: &[Place], past: &[Seen]) -> Vec<Vec<(usize, usize)>> {
    let market = pages.market();
    let page = |seed| pages.choose(&market, places, past, seed);
    let bare = |page: Vec<(usize, usize, f64, u32)>| {
        page.iter().map(|(place, ad, _, _)| (*place, *ad)).collect()
    };
    (0..calls()).map(page).map(bare).collect()
}

/// The chance of every page, by going through all that the rule may do, each choice with the same
/// chance.
fn law(pages: &Pages, places: &[Place], past: &[Seen]) -> Vec<(Vec<(usize, usize)>, f64)> {
    let (mut open, mut law) = (vec![(Vec::new(), 1.0)], Vec::new());
    while let Some((taken, chance)) = open.pop() {
        let mut filling = pages.filling(places, past);
        for (place, ad) in &taken {
            filling.take_any(*place, *ad);
        }
        let choices = filling.choices();
        if choices.is_empty() {
            law.push((taken, chance));
            continue;
        }
        let each = chance / choices.len() as f64;
        let next = |choice| taken.iter().copied().chain([choice]).collect();
        open.extend(choices.into_iter().map(|choice| (next(choice), each)));
    }
    law
}

#[test]
fn of_equal_pairs_of_place_and_ad_each_is_next_with_the_same_chance() {
    let pages = Pages::alike(4);
    for places in [
        vec![place(0, 1), place(1, 1)],
        vec![place(0, 1), place(0, 1), place(1, 1)],
        vec![place(0, 2), place(1, 1)],
        vec![place(0, 3), place(2, 3)],
    ] {
        assert_follows(
            &format!("{places:?}"),
            pages_drawn(&pages, &places, &[]),
            law(&pages, &places, &[]),
        );
    }
}

/// Pairs that are equal, but for ads that are in one place only, and some at no price.
#[test]
fn pages_of_unlike_places_follow_the_rule_as_well() {
    let mut pages = Pages::alike(5);
    pages.prices[0][1] = None;
    pages.prices[1][0] = None;
    pages.prices[2] = [Some(250_000_000), Some(0), Some(0)];
    pages.prices[3] = [Some(0), Some(250_000_000), Some(0)];
    let places = [place(0, 2), place(1, 2)];
    assert_follows("unlike", pages_drawn(&pages, &places, &[]), law(&pages, &places, &[]));
}

/// Campaigns, labels and caps that are used up on the page, and one that was before.
#[test]
fn under_the_rules_of_a_page_equal_pairs_stay_equally_likely() {
    let mut pages = Pages::alike(7);
    let campaign = |advertiser| crate::oracle::PlainCampaign {
        advertiser,
        ..pages.world.campaigns[0].clone()
    };
    pages.world.campaigns = [0, 0, 1, 2].map(campaign).to_vec();
    for (ad, of) in pages.world.ads.iter_mut().zip([0, 0, 1, 1, 2, 3, 3]) {
        ad.campaign = of;
    }
    let places = [place(0, 1), place(1, 2)];
    let none = BTreeSet::new();
    let with = |label| BTreeSet::from([label]);
    let max = PlainRules { campaign_max: 1, labels: vec![none.clone(); 4] };
    let labels = PlainRules {
        campaign_max: 2,
        labels: vec![with("beer"), none.clone(), with("beer"), with("cars")],
    };
    for (what, rules) in [("one of a campaign", max), ("competitors", labels.clone())] {
        pages.rules = rules;
        assert_follows(what, pages_drawn(&pages, &places, &[]), law(&pages, &places, &[]));
    }
    pages.world.campaigns[0].caps = vec![(CapLevel::Advertiser, 2, DAY_US)];
    pages.world.campaigns[3].caps = vec![(CapLevel::Ad, 1, DAY_US)];
    let past = [pages.world.seen(2, START_US - 1), pages.world.seen(6, START_US - 1)];
    assert_follows("caps", pages_drawn(&pages, &places, &past), law(&pages, &places, &past));
}

/// Most of what one place finds was seen, so that its search goes on; the other's does not.
#[test]
fn a_place_whose_search_goes_on_is_filled_no_sooner() {
    let mut pages = Pages::alike(12);
    pages.world.campaigns[0].caps = vec![(CapLevel::Ad, 1, DAY_US)];
    pages.prices[3..].iter_mut().for_each(|prices| prices[1] = None);
    let past: Vec<_> = (3..12).map(|ad| pages.world.seen(ad, START_US - 1)).collect();
    let places = [place(0, 1), place(1, 1)];
    assert_follows("goes on", pages_drawn(&pages, &places, &past), law(&pages, &places, &past));
}

/// Many equal ads in two places: every pair of ads, and each place first as often as the other.
#[test]
fn large_zones_give_every_pair() {
    const ADS: usize = 20;
    let pages = Pages::alike(ADS);
    let drawn = pages_drawn(&pages, &[place(0, 1), place(1, 1)], &[]);
    let first = drawn.iter().map(|page| page[0]);
    assert_uniform("first", first, (0..2 * ADS).map(|kind| (kind % 2, kind / 2)));
    let shift = drawn.iter().map(|page| (page[0].1 + ADS - page[1].1) % ADS);
    assert_uniform("how far the second is from the first", shift, 1..ADS);
}

#[test]
fn keywords_of_a_place_count_there_only() {
    let mut pages = Pages::alike(2);
    pages.world.ads[0].keywords = BTreeSet::from(["w1"]);
    let mut places = [place(0, 1), place(0, 1)];
    places[1].asked.keywords = BTreeSet::from(["w1"]);
    let market = pages.market();
    for seed in 0..20 {
        let page = pages.choose(&market, &places, &[], seed);
        let page = page.iter().map(|(place, ad, _, matched)| (*place, *ad, *matched));
        assert_eq!(page.collect::<Vec<_>>(), [(1, 0, 1), (0, 1, 0)]);
    }
}
