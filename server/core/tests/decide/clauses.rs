//! Whom a campaign is for, where the decision takes a short way to the answer.

use rand_xoshiro::rand_core::SeedableRng;
use slotwise_core::decide::{Decision, Page, PageRules, Rng, Strict};
use slotwise_core::model::{Campaign, Context, Country, Names, Profile, Segment, Targeting};

use crate::market::{DAY_US, Market, Query, START_US, ad, campaign, query, units};

fn country(code: &str) -> Country {
    Country::new(code).unwrap()
}

fn targeted(serial: u32, id: &str, change: impl FnOnce(&mut Targeting)) -> Campaign {
    let mut targeting = Targeting::default();
    change(&mut targeting);
    Campaign { targeting: Some(Box::new(targeting)), ..campaign(serial, id) }
}

/// Countries are told apart by a bit of 64 first: of DE, AS, FQ and IC it is the same one.
#[test]
fn countries_with_the_same_bit_are_different() {
    let codes = ["DE", "AS", "FQ", "IC", "FR", "US"];
    let clauses: [&[&str]; 4] = [&["DE"], &["AS", "FR"], &["IC", "FQ"], &[]];
    for clause in clauses {
        let of = targeted(1, "x:1", |targeting| {
            let mut countries: Vec<_> = clause.iter().map(|code| country(code)).collect();
            countries.sort_unstable();
            targeting.countries = countries.into();
        });
        let mut market = Market::new(vec![of], vec![ad(1, "x:1", "a", 1, &[])]);
        for code in codes {
            let context = Context { country: Some(country(code)), ..Context::default() };
            let query = Query { context, ..query(1) };
            let is_for = clause.is_empty() || clause.contains(&code);
            let expected: &[&str] = if is_for { &["a"] } else { &[] };
            let answer = market.choose(query, &mut Profile::default(), 1);
            assert_eq!(units(&answer), expected, "{clause:?} seen from {code}");
        }
        // From who knows where: in no country.
        let answer = market.choose(query(1), &mut Profile::default(), 1);
        assert_eq!(answer.len(), usize::from(clause.is_empty()), "{clause:?}");
    }
}

#[test]
fn what_the_store_knows_of_the_visitor_decides_unless_nobody_is_sure() {
    let fans = targeted(1, "x:1", |targeting| targeting.segments_any = Names::new(["sport/fan"]));
    let market = Market::new(vec![fans], vec![ad(1, "x:1", "a", 1, &[])]);
    let campaigns = market.index.campaigns();
    let wins = |segment: &str, strict: Strict<'_>| {
        let mut profile = Profile::default();
        let segment = Segment { name: segment.into(), expires_us: START_US + DAY_US };
        profile.update_segments(&[segment], &[], START_US).unwrap();
        let mut decision = market.decision(query(1), 0);
        assert!(decision.look(&campaigns), "the profile decides");
        decision.admit(&campaigns, &mut profile, 1, strict).unwrap();
        decision.winners().len() == 1
    };
    assert!(wins("sport/fan", Strict::Local));
    assert!(wins("sport/fan", Strict::Ask));
    assert!(!wins("sport/other", Strict::Local));
    assert!(!wins("sport/fan", Strict::Withheld));
}

/// Whether a page was looked at before the profile came must not change who of equals is drawn.
#[test]
fn a_page_looked_at_before_the_profile_came_is_the_page_it_would_have_been() {
    let fans = targeted(1, "x:1", |targeting| targeting.segments_any = Names::new(["sport/fan"]));
    let ads = (0..12).map(|at| {
        let of = if at % 2 == 0 { "x:1" } else { "y:1" };
        ad(at, of, &at.to_string(), 1, &[])
    });
    let market = Market::new(vec![fans, campaign(2, "y:1")], ads.collect());
    let campaigns = market.index.campaigns();
    let page_of = |seed: u64, looks: bool| {
        let (page, asked) = query(2).split();
        let page = Page { rules: Some(PageRules::default()), ..page };
        let places = [(market.block(), asked.clone()), (market.block(), asked)];
        let mut decision = Decision::new(page, places, Rng::seed_from_u64(seed));
        if looks {
            assert!(
                decision.look(&campaigns) || !decision.winners().any(|w| w.entry.campaign.0 == 1)
            );
        }
        decision.admit(&campaigns, &mut Profile::default(), 1, Strict::Local).unwrap();
        decision
            .winners()
            .map(|winner| (winner.placement, winner.entry.ad.serial))
            .collect::<Vec<_>>()
    };
    for seed in 0..64 {
        let page = page_of(seed, false);
        assert_eq!(page.len(), 4);
        assert_eq!(page_of(seed, true), page, "seed {seed}");
    }
}
