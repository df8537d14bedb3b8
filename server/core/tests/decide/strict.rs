//! Caps that the store has to admit: nothing wins that it did not grant, and what it granted is
//! shown once, or not at all.

use std::collections::BTreeSet;

use proptest::prelude::*;
use slotwise_core::decide::{Decision, STRICT_CANDIDATES_MAX, Strict, StrictAsk};
use slotwise_core::index::{Campaigns, Change};
use slotwise_core::model::{AdSerial, CampaignSerial, CapLevel, Names, Profile, Targeting};

use super::page::{Pages, Place, places};
use crate::filling::{Filling, Seen};
use crate::market::{DAY_US, Market, START_US, ad, campaign, capped, cases, query};
use crate::world::{Dice, profile_of, recipe};

struct Scene {
    pages: Pages,
    /// Which campaigns have strict caps.
    strict: Vec<bool>,
    past: Vec<Seen>,
}

impl Scene {
    fn market(&self) -> Market {
        let mut market = self.pages.market();
        let campaigns = market.index.campaigns();
        let campaign = |(of, strict): (u32, &bool)| {
            let mut made = campaigns.get(CampaignSerial(of)).unwrap().campaign.clone();
            made.strict_caps = *strict;
            Change::Campaign(made)
        };
        market.apply((0..).zip(&self.strict).map(campaign).collect());
        market
    }

    fn asks(&self, ad: usize) -> bool {
        let of = self.pages.world.ads[ad].campaign;
        self.strict[of] && !self.pages.world.campaigns[of].caps.is_empty()
    }

    /// What the store, which has seen `past` alone, grants of what it is asked: each by `says`,
    /// if its caps hold after those before it. The granted are in `profile` then.
    fn grant(
        &self,
        ask: &StrictAsk,
        profile: &mut Profile,
        says: &mut impl FnMut() -> bool,
    ) -> Vec<AdSerial> {
        let of = self.pages.world.ads.iter().map(|ad| ad.campaign).collect();
        let campaigns = &self.pages.world.campaigns;
        let mut store = Filling::new(campaigns, of, START_US, &self.past, vec![]);
        let mut granted = Vec::new();
        for candidate in &ask.candidates {
            let ad = candidate.exposure.ad.0 as usize;
            let is_full = candidate.taken_before + granted.len() >= ask.count;
            if !is_full && says() && store.cap_reached(ad, START_US).is_none() {
                store.seen.push(self.pages.world.seen(ad, START_US));
                profile.record(&candidate.advertiser, candidate.exposure, START_US).unwrap();
                granted.push(candidate.exposure.ad);
            }
        }
        profile.take_fresh();
        granted
    }

    /// The store is asked for nothing that could not be in the answer.
    fn check_ask(&self, ask: &StrictAsk, places: &[Place]) {
        assert!((1..=STRICT_CANDIDATES_MAX).contains(&ask.candidates.len()), "{ask:?}");
        let of = self.pages.world.ads.iter().map(|ad| ad.campaign).collect();
        let known = Filling::new(&self.pages.world.campaigns, of, START_US, &self.past, vec![]);
        let mut asked = BTreeSet::new();
        for candidate in &ask.candidates {
            let ad = candidate.exposure.ad.0 as usize;
            assert!(asked.insert(ad), "{ad} twice");
            assert!(self.asks(ad), "{ad} need not be asked for");
            assert!(known.cap_reached(ad, START_US).is_none(), "{ad} is capped, whatever is said");
            assert!(candidate.taken_before < ask.count, "no place is left for {ad}");
            let is_there = |place: &Place| self.pages.prices[ad][place.zone].is_some();
            assert!(places.iter().any(is_there), "{ad} is on no place");
            let caps = &self.pages.world.campaigns[self.pages.world.ads[ad].campaign].caps;
            let asked_caps = candidate.caps.iter();
            let asked_caps = asked_caps.map(|cap| (cap.level, cap.impressions_max, cap.window_us));
            assert_eq!(asked_caps.collect::<Vec<_>>(), *caps);
            assert_eq!(candidate.exposure.campaign.0 as usize, self.pages.world.ads[ad].campaign);
        }
    }

    /// The answer holds nothing that is not allowed.
    fn check_answer(&self, decision: &Decision, places: &[Place], granted: &[AdSerial]) {
        let mut filling = self.pages.filling(places, &self.past);
        let mut shown = BTreeSet::new();
        for winner in decision.winners() {
            let ad: usize = winner.entry.ad.unit.as_str().parse().unwrap();
            assert!(shown.insert(ad), "{ad} twice");
            let serial = AdSerial(u32::try_from(ad).unwrap());
            assert!(!self.asks(ad) || granted.contains(&serial), "{ad} was not granted");
            assert!(filling.cap_reached(ad, START_US).is_none(), "{ad} is capped");
            assert!(!filling.is_competitor_on_page(ad) && !filling.is_campaign_on_page(ad), "{ad}");
            filling.take_any(winner.placement, ad);
        }
    }
}

fn admit(
    decision: &mut Decision,
    campaigns: &Campaigns,
    profile: &mut Profile,
    strict: Strict<'_>,
) -> Option<StrictAsk> {
    decision.admit(campaigns, profile, 1, strict).err()
}

fn winners(decision: &Decision) -> Vec<(usize, String)> {
    decision.winners().map(|winner| (winner.placement, winner.entry.ad.unit.to_string())).collect()
}

/// What is in a profile, as words.
fn recorded(profile: &Profile) -> Vec<String> {
    let lists = profile.lists().filter(|(_, list)| !list.is_empty());
    lists.map(|(advertiser, list)| format!("{advertiser:?} {list:?}")).collect()
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn nothing_strict_is_shown_that_the_store_did_not_grant(
        recipe in recipe(200),
        showings in prop::sample::select(vec![0_usize, 10, 60]),
        strict_percent in prop::sample::select(vec![20_usize, 60, 100]),
        grants_percent in prop::sample::select(vec![0_usize, 50, 100]),
        are_single: bool,
        are_distinct: bool,
    ) {
        let mut dice = Dice::new(recipe.seed ^ 8);
        let pages = Pages { are_single, ..Pages::new(&recipe, are_distinct) };
        let past = pages.world.past(&mut dice, showings);
        let strict = pages.world.campaigns.iter().map(|_| dice.percent(strict_percent)).collect();
        let scene = Scene { pages, strict, past };
        let market = scene.market();
        let campaigns = market.index.campaigns();
        for seed in 0..6 {
            let mut places = places(&scene.pages.world, &mut dice);
            places.truncate(if are_single { 1 } else { 5 });
            let page = query(1).split().0;
            let mut decision = scene.pages.decision(&market, page, &places, seed, &[]);
            decision.look(&campaigns);
            let mut profile = profile_of(&scene.past);
            let Some(ask) = admit(&mut decision, &campaigns, &mut profile, Strict::Ask) else {
                scene.check_answer(&decision, &places, &[]);
                continue;
            };
            let before = profile_of(&scene.past);
            prop_assert_eq!(recorded(&profile), recorded(&before), "nothing by asking");
            prop_assert_eq!(profile.take_fresh(), vec![]);
            prop_assert_eq!(winners(&decision), [], "nor chosen");
            scene.check_ask(&ask, &places);
            let granted = scene.grant(&ask, &mut profile, &mut || dice.percent(grants_percent));
            let asked_again =
                admit(&mut decision, &campaigns, &mut profile, Strict::Granted(&granted));
            prop_assert_eq!(asked_again, None);
            scene.check_answer(&decision, &places, &granted);
            if granted.is_empty() && are_distinct && places.len() == 1 {
                // As if nobody could say that strict caps hold.
                let page = query(1).split().0;
                let mut withheld = scene.pages.decision(&market, page, &places, seed, &[]);
                let mut profile = profile_of(&scene.past);
                admit(&mut withheld, &campaigns, &mut profile, Strict::Withheld);
                prop_assert_eq!(winners(&withheld), winners(&decision));
            }
        }
    }

    /// Where the store grants all that it is asked and all prices differ, the answer is the one
    /// that the caps alone would give, unless there were more to ask for than may be.
    #[test]
    fn what_is_granted_in_full_is_as_if_nothing_had_been_asked(
        recipe in recipe(100),
        showings in prop::sample::select(vec![0_usize, 10, 60]),
        are_single: bool,
    ) {
        let mut dice = Dice::new(recipe.seed ^ 9);
        let pages = Pages { are_single, ..Pages::new(&recipe, true) };
        let past = pages.world.past(&mut dice, showings);
        let strict = vec![true; pages.world.campaigns.len()];
        let scene = Scene { pages, strict, past };
        let market = scene.market();
        let campaigns = market.index.campaigns();
        let zones: &[usize] = if are_single { &[1] } else { &[2, 0, 1] };
        let places: Vec<_> = zones.iter().map(|zone| super::page::place(*zone, 4)).collect();
        let decide = || scene.pages.decision(&market, query(1).split().0, &places, 1, &[]);
        let mut local = decide();
        let mut profile = profile_of(&scene.past);
        admit(&mut local, &campaigns, &mut profile, Strict::Local);
        let mut asked = decide();
        let mut profile = profile_of(&scene.past);
        if let Some(ask) = admit(&mut asked, &campaigns, &mut profile, Strict::Ask) {
            prop_assume!(ask.candidates.len() < STRICT_CANDIDATES_MAX);
            let granted = scene.grant(&ask, &mut profile, &mut || true);
            admit(&mut asked, &campaigns, &mut profile, Strict::Granted(&granted));
            // One that siblings of this answer leave no room for took a place of the grant.
            let shown: Vec<_> = winners(&asked).into_iter().map(|(_, unit)| unit).collect();
            prop_assume!(granted.iter().all(|ad| shown.contains(&ad.0.to_string())));
        }
        prop_assert_eq!(winners(&asked), winners(&local));
    }
}

/// A strict cap over the whole advertiser counts siblings that need not be asked for, too.
#[test]
fn what_was_granted_still_counts_what_the_answer_shows_before_it() {
    let mut strict = capped(1, "x:1", &[(CapLevel::Advertiser, 3, DAY_US)]);
    strict.strict_caps = true;
    let ads = [(1, "x:1", "a"), (2, "x:2", "b"), (3, "x:2", "c"), (4, "x:1", "d"), (5, "x:2", "e")];
    let ads = (0..).zip(ads).map(|(at, (serial, of, unit))| ad(serial, of, unit, 100 - at, &[]));
    let market = Market::new(vec![strict, campaign(2, "x:2")], ads.collect());
    let (campaigns, mut profile) = (market.index.campaigns(), Profile::default());
    let mut decision = market.decision(query(4), 0);
    let ask = admit(&mut decision, &campaigns, &mut profile, Strict::Ask).unwrap();
    for candidate in &ask.candidates {
        profile.record(&candidate.advertiser, candidate.exposure, START_US).unwrap();
    }
    let granted: Vec<_> = ask.candidates.iter().map(|one| one.exposure.ad).collect();
    assert_eq!(granted[0], AdSerial(1));
    admit(&mut decision, &campaigns, &mut profile, Strict::Granted(&granted));
    let shown: Vec<_> = winners(&decision).into_iter().map(|(_, unit)| unit).collect();
    assert_eq!(shown, ["a", "b", "c", "e"], "d would be the fourth of x under a cap of 3");
}

/// An ad that was found before the profile was read, and does not fit it, takes nobody's place.
#[test]
fn what_the_profile_turns_down_leaves_its_place_to_a_strict_one() {
    let mut by_segment = campaign(1, "x:1");
    let mut targeting = Targeting::default();
    targeting.segments_any = Names::new(["sport/fan"]);
    by_segment.targeting = Some(Box::new(targeting));
    let mut strict = capped(2, "y:1", &[(CapLevel::Campaign, 1, DAY_US)]);
    strict.strict_caps = true;
    let ads = vec![ad(1, "x:1", "a", 200, &[]), ad(2, "y:1", "b", 100, &[])];
    let market = Market::new(vec![by_segment, strict], ads);
    let (campaigns, mut profile) = (market.index.campaigns(), Profile::default());
    let mut decision = market.decision(query(1), 0);
    assert!(decision.look(&campaigns));
    let ask = admit(&mut decision, &campaigns, &mut profile, Strict::Ask).unwrap();
    let asked: Vec<_> = ask.candidates.iter().map(|one| one.exposure.ad).collect();
    assert_eq!(asked, [AdSerial(2)], "the visitor is no fan");
}

/// Whether the second of x is shown hangs on whether the store grants the first: so it takes no
/// place before the one of y.
#[test]
fn a_place_that_hangs_on_a_grant_is_not_counted_as_taken() {
    let cap = [(CapLevel::Advertiser, 1, DAY_US)];
    let mut campaigns =
        vec![capped(1, "x:1", &cap), capped(2, "x:2", &cap), capped(3, "y:1", &cap)];
    campaigns[0].strict_caps = true;
    campaigns[2].strict_caps = true;
    let ads = [(1, "x:1", 300), (2, "x:2", 200), (3, "y:1", 100)];
    let ads = ads.map(|(serial, of, worth)| ad(serial, of, &serial.to_string(), worth, &[]));
    let market = Market::new(campaigns, ads.into());
    let (campaigns, mut profile) = (market.index.campaigns(), Profile::default());
    let mut decision = market.decision(query(2), 0);
    let ask = admit(&mut decision, &campaigns, &mut profile, Strict::Ask).unwrap();
    let asked: Vec<_> =
        ask.candidates.iter().map(|one| (one.exposure.ad.0, one.taken_before)).collect();
    assert_eq!(asked, [(1, 0), (3, 0)]);
}
