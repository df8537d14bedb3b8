//! Caps over one visitor's profile.

use slotwise_core::index::Change;
use slotwise_core::model::CapLevel::{Ad as OfAd, Advertiser, Campaign};
use slotwise_core::model::{
    AdSerial, AdvertiserId, CampaignSerial, EXPOSURES_PER_ADVERTISER_MAX, Exposure, Profile,
    ZoneSerial,
};

use crate::market::{
    DAY_US, HOUR_US, MINUTE_US, Market, SECOND_US, START_US, ad, campaign, capped, query, units,
};

/// One ad of a campaign with these caps.
fn one_ad(caps: &[(slotwise_core::model::CapLevel, u32, i64)]) -> Market {
    Market::new(vec![capped(1, "x:1", caps)], vec![ad(1, "x:1", "only", 250, &[])])
}

fn showings(market: &mut Market, profile: &mut Profile, now_us: i64, tries: usize) -> usize {
    (0..tries).filter(|_| !market.show(1, profile, now_us).is_empty()).count()
}

#[test]
fn case_3_each_ad_is_judged_by_its_own_advertisers_history() {
    let per_day = |serial, id| capped(serial, id, &[(OfAd, 1, DAY_US)]);
    let mut market = Market::new(
        vec![per_day(1, "x:1"), per_day(2, "y:1"), per_day(3, "z:1")],
        vec![
            ad(1, "x:1", "x1", 250, &[]),
            ad(2, "y:1", "y1", 240, &[]),
            ad(3, "x:1", "x2", 230, &[]),
            ad(4, "z:1", "z1", 220, &[]),
            ad(5, "y:1", "y2", 210, &[]),
        ],
    );
    let mut profile = Profile::default();
    assert_eq!(market.show(2, &mut profile, START_US), ["x1", "y1"]);
    assert_eq!(market.show(5, &mut profile, START_US), ["x2", "z1", "y2"]);
    assert_eq!(market.show(5, &mut profile, START_US).len(), 0);
    assert_eq!(market.show(5, &mut profile, START_US + DAY_US).len(), 5);
}

#[test]
fn case_4_history_of_one_advertiser_leaves_another_eligible() {
    let mut market = Market::new(
        vec![capped(1, "x:1", &[(Advertiser, 1, DAY_US)]), capped(2, "y:1", &[(OfAd, 1, DAY_US)])],
        vec![ad(1, "x:1", "x", 250, &[]), ad(2, "y:1", "y", 200, &[])],
    );
    let mut profile = Profile::default();
    assert_eq!(market.show(1, &mut profile, START_US), ["x"]);
    assert_eq!(profile.lists().count(), 1, "history of x only");
    assert_eq!(market.show(1, &mut profile, START_US), ["y"]);
}

#[test]
fn case_5_two_advertisers_may_name_a_unit_alike() {
    let mut market = Market::new(
        vec![capped(1, "x:1", &[(OfAd, 1, DAY_US)]), capped(2, "y:1", &[(OfAd, 1, DAY_US)])],
        vec![ad(1, "x:1", "search1", 250, &[]), ad(2, "y:1", "search1", 200, &[])],
    );
    let mut profile = Profile::default();
    let answers: Vec<_> = (0..3)
        .map(|seed| market.choose(query(1), &mut profile, seed))
        .map(|answer| answer.into_iter().map(|chosen| chosen.campaign).collect::<Vec<_>>())
        .collect();
    assert_eq!(answers, [vec!["x:1"], vec!["y:1"], vec![]]);
}

#[test]
fn case_13_the_last_showing_under_a_cap_is_allowed_and_no_more() {
    let mut market = one_ad(&[(Campaign, 20, DAY_US)]);
    assert_eq!(showings(&mut market, &mut Profile::default(), START_US, 20), 20);
    assert_eq!(showings(&mut market, &mut Profile::default(), START_US, 21), 20);
}

/// The profile has no place for a click: only what `admit` shows is in it.
#[test]
fn case_14_a_click_fills_no_cap() {
    let mut market = one_ad(&[(Campaign, 2, DAY_US)]);
    let mut profile = Profile::default();
    assert_eq!(showings(&mut market, &mut profile, START_US, 1), 1);
    assert_eq!(profile.list(&"x".into()).len(), 1, "one view, whatever was clicked");
    assert_eq!(showings(&mut market, &mut profile, START_US + MINUTE_US, 5), 1);
}

#[test]
fn case_15_two_caps_keep_their_own_windows() {
    let mut market = one_ad(&[(Campaign, 2, HOUR_US), (Campaign, 20, DAY_US)]);
    let mut profile = Profile::default();
    for hour in 0..10 {
        let shown = showings(&mut market, &mut profile, START_US + hour * HOUR_US, 3);
        assert_eq!(shown, 2, "hour {hour}");
    }
    for hour in 10..24 {
        let shown = showings(&mut market, &mut profile, START_US + hour * HOUR_US, 3);
        assert_eq!(shown, 0, "hour {hour}: twenty in a day");
    }
    assert_eq!(showings(&mut market, &mut profile, START_US + DAY_US, 3), 2);
}

#[test]
fn case_16_an_exposure_counts_while_it_is_younger_than_the_window() {
    for level in [OfAd, Campaign, Advertiser] {
        let mut market = one_ad(&[(level, 1, DAY_US)]);
        let mut profile = Profile::default();
        assert_eq!(showings(&mut market, &mut profile, START_US, 2), 1);
        let at = |age_s: i64| START_US + age_s * SECOND_US;
        assert_eq!(showings(&mut market, &mut profile, at(86_399), 1), 0, "{level:?}");
        assert_eq!(showings(&mut market, &mut profile, at(86_400), 2), 1, "{level:?}");
    }
}

#[test]
fn case_17_the_window_rolls() {
    let mut market = one_ad(&[(Campaign, 10, HOUR_US)]);
    let mut profile = Profile::default();
    assert_eq!(showings(&mut market, &mut profile, START_US, 1), 1);
    assert_eq!(showings(&mut market, &mut profile, START_US + 59 * MINUTE_US, 8), 8);
    assert_eq!(showings(&mut market, &mut profile, START_US + 61 * MINUTE_US, 10), 2);
}

#[test]
fn case_19_a_million_showings_leave_the_state_as_small_as_it_was() {
    let (mut profile, x) = (Profile::default(), AdvertiserId::from("x"));
    let life_us = 100;
    for showing in 0..1_000_000_u32 {
        let exposure = Exposure {
            at_us: i64::from(showing),
            life_us,
            is_held: false,
            decision: showing.into(),
            zone: ZoneSerial(1),
            campaign: CampaignSerial(1),
            ad: AdSerial(1),
        };
        profile.record(&x, exposure, exposure.at_us).unwrap();
        profile.take_fresh();
        assert!(profile.list(&x).len() <= EXPOSURES_PER_ADVERTISER_MAX);
    }
    let live = profile.count(&x, life_us, 999_999, |_| true);
    assert_eq!(live, 100, "and nothing was evicted inside its window");
}

#[test]
fn case_20_the_tighter_of_two_caps_blocks() {
    let two_ads = |caps: &[_]| {
        let ads = vec![ad(1, "x:1", "1", 250, &[]), ad(2, "x:1", "2", 200, &[])];
        Market::new(vec![capped(1, "x:1", caps)], ads)
    };
    let mut by_ad = two_ads(&[(OfAd, 1, DAY_US), (Campaign, 3, DAY_US)]);
    let mut profile = Profile::default();
    let answers: Vec<_> = (0..3).map(|_| by_ad.show(1, &mut profile, START_US)).collect();
    assert_eq!(answers, [vec!["1"], vec!["2"], vec![]], "the ad's own cap");
    let mut by_campaign = two_ads(&[(OfAd, 2, DAY_US), (Campaign, 3, DAY_US)]);
    let mut profile = Profile::default();
    let answers: Vec<_> = (0..4).map(|_| by_campaign.show(1, &mut profile, START_US)).collect();
    assert_eq!(answers, [vec!["1"], vec!["1"], vec!["2"], vec![]], "the campaign's");
}

#[test]
fn case_21_the_same_showing_fills_a_cap_once() {
    let mut market = one_ad(&[(Campaign, 2, DAY_US)]);
    let mut profile = Profile::default();
    market.show(1, &mut profile, START_US);
    let (x, again) = (AdvertiserId::from("x"), profile.list(&"x".into())[0]);
    profile.record(&x, again, START_US + SECOND_US).unwrap();
    assert_eq!(showings(&mut market, &mut profile, START_US + SECOND_US, 5), 1);
}

#[test]
fn a_cap_holds_inside_one_answer_of_an_unknown_visitor() {
    let mut ads: Vec<_> =
        (1..=5).map(|serial| ad(serial, "x:1", &serial.to_string(), 250, &[])).collect();
    ads.push(ad(6, "y:1", "y", 1, &[]));
    for level in [Campaign, Advertiser] {
        let campaigns = vec![capped(1, "x:1", &[(level, 2, DAY_US)]), campaign(2, "y:1")];
        let mut market = Market::new(campaigns, ads.clone());
        let mut query = query(6);
        query.visitor_known = false;
        let answer = units(&market.choose(query, &mut Profile::default(), 7));
        assert_eq!(answer.len(), 3, "{level:?}: {answer:?}");
        assert_eq!(answer[2], "y", "the search went on");
    }
}

#[test]
fn an_advertisers_cap_counts_siblings_that_have_none() {
    let mut market = Market::new(
        vec![capped(1, "x:1", &[(Advertiser, 2, DAY_US)]), campaign(2, "x:2"), campaign(3, "y:1")],
        vec![
            ad(1, "x:2", "free", 250, &[]),
            ad(2, "x:1", "capped", 200, &[]),
            ad(3, "y:1", "other", 100, &[]),
        ],
    );
    let mut profile = Profile::default();
    assert_eq!(market.show(1, &mut profile, START_US), ["free"]);
    assert_eq!(market.show(3, &mut profile, START_US), ["free", "other"], "two of x are shown");
    let later = START_US + DAY_US;
    assert_eq!(market.show(3, &mut profile, later), ["free", "capped", "other"]);
}

#[test]
fn showings_that_no_cap_can_ask_for_are_not_recorded() {
    let mut market = Market::new(vec![campaign(1, "x:1")], vec![ad(1, "x:1", "1", 250, &[])]);
    let mut profile = Profile::default();
    assert_eq!(market.show(1, &mut profile, START_US), ["1"]);
    assert_eq!(profile, Profile::default());
    // From the day that a sibling has an advertiser-wide cap, they are.
    market.apply(vec![Change::Campaign(capped(2, "x:2", &[(Advertiser, 5, DAY_US)]))]);
    market.show(1, &mut profile, START_US);
    assert_eq!(profile.list(&"x".into()).len(), 1);
}

#[test]
fn a_list_full_of_live_showings_counts_as_capped() {
    let max = u32::try_from(EXPOSURES_PER_ADVERTISER_MAX).unwrap();
    let mut market = Market::new(
        vec![capped(1, "x:1", &[(OfAd, max, DAY_US)]), campaign(2, "y:1")],
        vec![ad(1, "x:1", "1", 250, &[]), ad(2, "x:1", "2", 200, &[]), ad(3, "y:1", "y", 1, &[])],
    );
    let mut profile = Profile::default();
    for showing in 0..max {
        assert_eq!(market.show(1, &mut profile, START_US), ["1"], "showing {showing}");
    }
    assert_eq!(market.show(3, &mut profile, START_US), ["y"], "no room to count 2");
    assert_eq!(profile.list(&"x".into()).len(), EXPOSURES_PER_ADVERTISER_MAX);
    assert_eq!(market.show(3, &mut profile, START_US + DAY_US), ["1", "2", "y"]);
}
