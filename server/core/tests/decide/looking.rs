//! Between the look and the admission: what asks for the profile, and what changes meanwhile.

use slotwise_core::decide::Winner;
use slotwise_core::index::{Change, Key};
use slotwise_core::model::{Campaign, CapLevel, Names, Profile, Status, Targeting};

use crate::market::{DAY_US, Market, START_US, ad, campaign, capped, query, query_for, units};

/// a, b and c, in this order of worth; b has a cap.
fn three() -> Market {
    Market::new(
        vec![
            campaign(1, "a:1"),
            capped(2, "b:1", &[(CapLevel::Campaign, 1, DAY_US)]),
            campaign(3, "c:1"),
        ],
        vec![ad(1, "a:1", "a", 300, &[]), ad(2, "b:1", "b", 200, &[]), ad(3, "c:1", "c", 100, &[])],
    )
}

fn paused(campaign: Campaign) -> Change {
    Change::Campaign(Campaign { status: Status::Paused, ..campaign })
}

#[test]
fn the_profile_is_asked_for_only_if_a_would_be_winner_needs_it() {
    let market = three();
    let asks = |count| market.decision(query(count), 0).look(&market.index.campaigns());
    assert!(!asks(1), "a has no cap");
    assert!(asks(2), "b has");
    assert!(asks(3));
}

#[test]
fn a_capped_winner_makes_the_search_go_on() {
    let mut market = three();
    let mut profile = Profile::default();
    assert_eq!(market.show(2, &mut profile, START_US), ["a", "b"]);
    assert_eq!(market.show(2, &mut profile, START_US), ["a", "c"]);
}

#[test]
fn a_campaign_switched_off_meanwhile_is_passed_over_and_the_search_goes_on() {
    let mut market = three();
    let mut decision = market.decision(query(2), 0);
    decision.look(&market.index.campaigns());
    market.apply(vec![paused(campaign(1, "a:1"))]);
    let mut profile = Profile::default();
    assert_eq!(units(&market.admit(&mut decision, &mut profile)), ["b", "c"]);
}

#[test]
fn one_that_the_search_had_not_reached_is_passed_over_as_well() {
    let mut market = three();
    let mut decision = market.decision(query(1), 0);
    decision.look(&market.index.campaigns());
    let off = capped(2, "b:1", &[(CapLevel::Campaign, 1, DAY_US)]);
    market.apply(vec![paused(campaign(1, "a:1")), paused(off)]);
    assert_eq!(units(&market.admit(&mut decision, &mut Profile::default())), ["c"]);
}

#[test]
fn a_campaign_deleted_meanwhile_is_passed_over_even_when_it_was_made_again() {
    let mut market = three();
    let mut decision = market.decision(query(1), 0);
    decision.look(&market.index.campaigns());
    market.apply(vec![Change::Removed(Key::Campaign("a:1".into()))]);
    // The one of the old block is gone: this is another campaign with another serial.
    market
        .apply(vec![Change::Campaign(campaign(4, "a:1")), Change::Ad(ad(4, "a:1", "a", 300, &[]))]);
    assert_eq!(units(&market.admit(&mut decision, &mut Profile::default())), ["b"]);
    assert_eq!(market.show(1, &mut Profile::default(), START_US), ["a"], "a new decision has it");
}

#[test]
fn a_cap_set_meanwhile_holds() {
    let mut market = three();
    let mut profile = Profile::default();
    market.apply(vec![Change::Campaign(capped(1, "a:1", &[(CapLevel::Ad, 2, DAY_US)]))]);
    market.show(1, &mut profile, START_US);
    let mut decision = market.decision(query(1), 0);
    decision.look(&market.index.campaigns());
    market.apply(vec![Change::Campaign(capped(1, "a:1", &[(CapLevel::Ad, 1, DAY_US)]))]);
    assert_eq!(units(&market.admit(&mut decision, &mut profile)), ["b"]);
}

#[test]
fn nothing_is_recorded_by_looking() {
    let mut market = three();
    for seed in 0..5 {
        market.decision(query(3), seed).look(&market.index.campaigns());
    }
    assert_eq!(market.show(2, &mut Profile::default(), START_US), ["a", "b"]);
}

/// An ad under a cap, and one whose segments the profile alone can tell, might be shown too often,
/// or to the wrong visitor: without a profile, neither is shown.
#[test]
fn where_the_profile_cannot_be_known_what_hangs_on_it_is_passed_over() {
    let mut targeting = Targeting::default();
    targeting.segments_any = Names::new(["sport/fan"]);
    let for_fans = Campaign { targeting: Some(Box::new(targeting)), ..campaign(2, "b:1") };
    let cap = [(CapLevel::Campaign, 9, DAY_US)];
    let campaigns = vec![capped(1, "a:1", &cap), for_fans, campaign(3, "c:1"), campaign(4, "d:1")];
    let ads = [(1, "a", 500), (2, "b", 400), (3, "c", 300), (4, "d", 200)];
    let ads = ads.map(|(serial, unit, worth)| ad(serial, &format!("{unit}:1"), unit, worth, &[]));
    let market = Market::new(campaigns, ads.into());
    let table = market.index.campaigns();
    let unknown = |count, given: &[&'static str]| {
        let mut asked = query(count);
        asked.context.segments = Names::new(given.iter().copied());
        let mut decision = market.decision(asked, 0);
        assert!(decision.look(&table), "the best of them has a cap");
        decision.admit_unknown(&table);
        let unit = |winner: Winner<'_>| winner.entry.ad.unit.to_string();
        decision.winners().map(unit).collect::<Vec<_>>()
    };
    assert_eq!(unknown(1, &[]), ["c"]);
    assert_eq!(unknown(4, &[]), ["c", "d"]);
    assert_eq!(unknown(4, &["sport/fan"]), ["b", "c", "d"], "the caller knows");
}

/// In a small zone and in a large one, which are searched in other ways.
#[test]
fn what_a_look_touches_is_counted() {
    for ads in [10, 3_000] {
        let ad = |at: u32| ad(at, "a:1", &format!("{at}"), i64::from(at), &["car"]);
        let market = Market::new(vec![campaign(1, "a:1")], (0..ads).map(ad).collect());
        let mut decision = market.decision(query_for(3, &["car", "style"]), 0);
        assert_eq!(decision.touched(), 0);
        decision.look(&market.index.campaigns());
        assert_eq!(decision.winners().len(), 3);
        // Each winner was met in the keyword's list or its row of bits, and judged.
        assert!(decision.touched() > 3, "{} of {ads}", decision.touched());
    }
}
