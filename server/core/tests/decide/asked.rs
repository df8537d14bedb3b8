//! What the store is asked about a single placement, to the letter.

use slotwise_core::decide::{STRICT_CANDIDATES_MAX, Strict};
use slotwise_core::model::{
    AdSerial, AdvertiserId, CampaignSerial, CapLevel, Exposure, Profile, ZoneSerial,
};

use crate::market::{DAY_US, HOUR_US, Market, START_US, ad, campaign, capped, query};

/// An hour ago.
fn seen(profile: &mut Profile, advertiser: &str, campaign: u32, ad: u32) {
    let exposure = Exposure {
        at_us: START_US - HOUR_US,
        life_us: DAY_US,
        is_held: false,
        decision: u64::from(ad),
        zone: ZoneSerial(1),
        campaign: CampaignSerial(campaign),
        ad: AdSerial(ad),
    };
    profile.record(&AdvertiserId::from(advertiser), exposure, START_US).unwrap();
}

/// What is asked for an answer of `count` ads: how many, and each candidate with the places that
/// are taken before it.
fn asked(market: &Market, count: usize, profile: &mut Profile) -> (usize, Vec<(u32, usize)>) {
    let mut decision = market.decision(query(count), 0);
    let campaigns = market.index.campaigns();
    decision.look(&campaigns);
    let ask = decision.admit(&campaigns, profile, 9, Strict::Ask).unwrap_err();
    let one = |one: &slotwise_core::decide::StrictCandidate| {
        assert_eq!(one.exposure.decision, 9);
        (one.exposure.ad.0, one.taken_before)
    };
    (ask.count, ask.candidates.iter().map(one).collect())
}

#[test]
fn the_best_are_asked_for_until_the_answer_is_full_whatever_is_said() {
    let (by_ad, by_campaign) = ([(CapLevel::Ad, 1, DAY_US)], [(CapLevel::Campaign, 1, DAY_US)]);
    let strict = |serial, id, caps: &[(CapLevel, u32, i64)]| {
        let mut made = capped(serial, id, caps);
        made.strict_caps = true;
        made
    };
    let campaigns = vec![
        campaign(1, "free:1"),
        strict(2, "s:1", &by_campaign),
        capped(3, "local:1", &by_ad),
        capped(4, "local:2", &by_campaign),
        strict(5, "t:1", &by_ad),
        strict(6, "u:1", &by_campaign),
    ];
    let ads = [
        (1, "free:1"),  // takes a place
        (2, "s:1"),     // asked: one place is taken
        (3, "local:1"), // seen: its cap is reached here
        (4, "local:1"), // its own cap is not: takes a place
        (5, "local:2"), // the campaign's cap is reached
        (6, "local:2"), // and that is the sibling's, too
        (7, "t:1"),     // seen: not asked for
        (8, "t:1"),     // asked: two places are taken
        (9, "u:1"),     // the campaign's cap is reached, whatever is said
        (10, "u:1"),    // so here
        (11, "free:1"), // takes a place
        (12, "s:1"),    // asked: the store may refuse the one before
        (13, "free:1"), // takes the fourth: the answer is full
        (14, "t:1"),
        (15, "free:1"),
    ];
    let made = |(serial, of): (u32, &str)| {
        ad(serial, of, &serial.to_string(), 100 - i64::from(serial), &[])
    };
    let market = Market::new(campaigns, ads.map(made).into());
    let mut profile = Profile::default();
    seen(&mut profile, "local", 3, 3);
    seen(&mut profile, "local", 4, 99);
    seen(&mut profile, "t", 5, 7);
    seen(&mut profile, "u", 6, 98);
    profile.take_fresh();
    let expected = vec![(2, 1), (8, 2), (12, 3)];
    assert_eq!(asked(&market, 4, &mut profile), (4, expected));
}

#[test]
fn of_more_the_best_are_asked_for() {
    let mut strict = capped(1, "s:1", &[(CapLevel::Ad, 1, DAY_US)]);
    strict.strict_caps = true;
    let ads = (1..=40).map(|at| ad(at, "s:1", &at.to_string(), 100 - i64::from(at), &[]));
    let market = Market::new(vec![strict], ads.collect());
    let best = (1..).take(STRICT_CANDIDATES_MAX).map(|at| (at, 0)).collect();
    assert_eq!(asked(&market, 30, &mut Profile::default()), (30, best));
}

/// What one profile kept out may win under the next, though the search went on without it.
#[test]
fn what_was_barred_under_one_profile_wins_under_another() {
    let caps = [(CapLevel::Ad, 1, DAY_US), (CapLevel::Campaign, 2, DAY_US)];
    let campaigns = vec![capped(1, "x:1", &caps), campaign(2, "y:1")];
    let ads = [(1, "x:1", 300), (2, "x:1", 200), (3, "y:1", 100)];
    let ads = ads.map(|(serial, of, worth)| ad(serial, of, &serial.to_string(), worth, &[]));
    let mut market = Market::new(campaigns, ads.into());
    let mut decision = market.decision(query(1), 0);
    assert!(decision.look(&market.index.campaigns()));
    let mut full = Profile::default();
    seen(&mut full, "x", 1, 97);
    seen(&mut full, "x", 1, 98);
    assert_eq!(market.admit(&mut decision, &mut full)[0].unit, "3");
    let mut half = Profile::default();
    seen(&mut half, "x", 1, 1);
    assert_eq!(market.admit(&mut decision, &mut half)[0].unit, "2");
}
