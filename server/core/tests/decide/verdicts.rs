//! Of several reasons to turn an ad down, the first in the contract's order is given.

use slotwise_core::decide::{Explainer, Strict, Verdict};
use slotwise_core::index::Change;
use slotwise_core::model::{
    Ad, AdSerial, Blocks, Campaign, CampaignSerial, Cap, CapLevel, Exposure, Keywords, Names,
    Placement, Price, Profile, Segment, Site, Size, Status, Targeting, Zone, ZoneSerial,
};

use crate::market::{ACCOUNT, DAY_US, Market, Query, SITE, START_US, ad, campaign, query, zone};

/// One candidate with everything around it.
struct Scene {
    zone: Zone,
    site: Blocks,
    campaign: Campaign,
    ad: Ad,
    query: Query,
    /// Whether the request blocks its advertiser, a category, a domain.
    blocked: [bool; 3],
    profile: Profile,
    is_profile_known: bool,
    /// The profile is only what a node remembers.
    is_withheld: bool,
}

impl Scene {
    /// Nothing speaks against the ad.
    fn clean() -> Self {
        let mut campaign = campaign(1, "x:1");
        campaign.categories = vec!["IAB2-1".to_owned()];
        campaign.advertiser_domains = vec!["shop.example.com".to_owned()];
        let mut ad = ad(1, "x:1", "1", 250, &["car"]);
        ad.size = Some(Size { width: 300, height: 250 });
        let mut query = query(1);
        query.keywords = Keywords::new(["war"]);
        Self {
            zone: zone(),
            site: Blocks::default(),
            campaign,
            ad,
            query,
            blocked: [false; 3],
            profile: Profile::default(),
            is_profile_known: true,
            is_withheld: false,
        }
    }

    fn verdict(self) -> Option<Verdict> {
        let mut market = Market::new(vec![self.campaign], vec![self.ad]);
        let site = Site { id: SITE.into(), account: ACCOUNT.into(), blocks: self.site };
        market.apply(vec![Change::Site(site), Change::Zone(self.zone)]);
        let [advertiser, category, domain] = self.blocked;
        let mut query = self.query;
        query.blocks = Blocks::new(
            advertiser.then_some("x"),
            category.then_some("IAB2"),
            domain.then_some("example.com"),
        );
        let campaigns = market.index.campaigns();
        let mut decision = market.decision(query, 0);
        let mut profile = self.profile;
        let strict = if self.is_withheld { Strict::Withheld } else { Strict::Local };
        if self.is_profile_known {
            decision.admit(&campaigns, &mut profile, 1, strict).unwrap();
        } else {
            decision.admit_unknown(&campaigns);
        }
        let known = self.is_profile_known.then_some(&profile);
        let explainer = Explainer::new(&decision, 0, &campaigns, known, self.is_withheld);
        let verdict = explainer.first(1)[0].reason.verdict();
        (verdict != Verdict::Chosen).then_some(verdict)
    }
}

type Spoil = fn(&mut Scene);

/// In the order of enum Verdict in `proto/slotwise/v1/decision.proto`.
const REASONS: [(Verdict, Spoil); 13] = [
    (Verdict::CampaignPaused, |scene| scene.campaign.status = Status::Paused),
    (Verdict::FlightNotStarted, |scene| scene.campaign.flight.start_us = START_US + 1),
    (Verdict::FlightEnded, |scene| scene.campaign.flight.end_us = START_US),
    (Verdict::Size, |scene| scene.query.sizes = vec![Size { width: 728, height: 90 }]),
    (Verdict::BelowFloor, |scene| scene.query.floor_ecpm_micros = 250_000_001),
    (Verdict::BlockedAdvertiser, |scene| scene.blocked[0] = true),
    (Verdict::BlockedCategory, |scene| scene.blocked[1] = true),
    (Verdict::BlockedDomain, |scene| {
        scene.blocked[2] = true;
    }),
    (Verdict::ExcludedKeyword, |scene| scene.ad.excluded_keywords = Keywords::new([" WAR"])),
    (Verdict::Targeting, |scene| {
        let mut targeting = Targeting::default();
        targeting.set_hours([1]);
        scene.campaign.targeting = Some(Box::new(targeting));
    }),
    (Verdict::UserRequired, |scene| {
        scene.campaign.requires_user = true;
        scene.query.visitor_known = false;
    }),
    (Verdict::FrequencyCapped, |scene| {
        scene.campaign.caps =
            [Cap { level: CapLevel::Ad, impressions_max: 1, window_us: DAY_US }].into();
        let seen = Exposure {
            at_us: START_US - 1,
            life_us: DAY_US,
            is_held: false,
            decision: 7,
            zone: ZoneSerial(1),
            campaign: CampaignSerial(1),
            ad: AdSerial(1),
        };
        scene.profile.record(&"x".into(), seen, START_US).unwrap();
    }),
    (Verdict::BudgetUnavailable, |scene| scene.campaign.has_budget = true),
];

/// Where the profile cannot be had, that comes before the budget and after everything else.
#[test]
fn what_a_profile_would_decide_is_unavailable_without_one() {
    for (at, (verdict, spoil)) in REASONS.iter().enumerate() {
        let mut scene = Scene::clean();
        scene.campaign.caps =
            [Cap { level: CapLevel::Campaign, impressions_max: 9, window_us: DAY_US }].into();
        scene.is_profile_known = false;
        spoil(&mut scene);
        let expected = if at < 11 { *verdict } else { Verdict::ProfileUnavailable };
        assert_eq!(scene.verdict(), Some(expected));
    }
    let mut scene = Scene::clean();
    let mut targeting = Targeting::default();
    targeting.segments_none = Names::new(["a/b"]);
    scene.campaign.targeting = Some(Box::new(targeting));
    scene.is_profile_known = false;
    assert_eq!(scene.verdict(), Some(Verdict::ProfileUnavailable));
}

/// A store that is away has been told of segments, for all that a node can say.
#[test]
fn what_only_a_node_remembers_decides_over_no_segment() {
    let targeted = |any: &[&'static str], none: &[&'static str], given: &[&'static str]| {
        let mut scene = Scene::clean();
        let mut targeting = Targeting::default();
        targeting.segments_any = Names::new(any.iter().copied());
        targeting.segments_none = Names::new(none.iter().copied());
        scene.campaign.targeting = Some(Box::new(targeting));
        scene.query.context.segments = Names::new(given.iter().copied());
        scene.is_withheld = true;
        let segment = Segment { name: "a/b".to_owned(), expires_us: i64::MAX };
        scene.profile.update_segments(&[segment], &[], START_US).unwrap();
        scene.verdict()
    };
    assert_eq!(targeted(&["a/b"], &[], &[]), Some(Verdict::ProfileUnavailable));
    assert_eq!(targeted(&["c/d"], &[], &[]), Some(Verdict::ProfileUnavailable));
    assert_eq!(targeted(&[], &["c/d"], &[]), Some(Verdict::ProfileUnavailable));
    assert_eq!(targeted(&["c/d"], &[], &["c/d"]), None, "the caller knows");
    assert_eq!(targeted(&[], &["c/d"], &["c/d"]), Some(Verdict::Targeting), "the caller knows");
}

#[test]
fn of_every_set_of_reasons_the_first_is_given() {
    for set in 0..1_u32 << REASONS.len() {
        let mut scene = Scene::clean();
        let reasons = REASONS.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        let reasons: Vec<_> = reasons.map(|(_, reason)| reason).collect();
        for (_, spoil) in &reasons {
            spoil(&mut scene);
        }
        let expected = reasons.first().map(|(verdict, _)| *verdict);
        assert_eq!(scene.verdict(), expected, "set {set:b}");
    }
}

/// The site and the zone turn down as the request does.
#[test]
fn what_the_site_and_the_zone_say_holds_as_well() {
    let by_site: [(Verdict, Spoil); 5] = [
        (Verdict::Size, |scene| {
            scene.zone.sizes = [Size { width: 728, height: 90 }].into();
        }),
        (Verdict::BelowFloor, |scene| scene.zone.floor_ecpm_micros = 250_000_001),
        (Verdict::BlockedAdvertiser, |scene| scene.site = Blocks::new(["x"], [], [])),
        (Verdict::BlockedCategory, |scene| scene.site = Blocks::new([], ["IAB2"], [])),
        (Verdict::BlockedDomain, |scene| scene.site = Blocks::new([], [], ["example.com"])),
    ];
    for (expected, spoil) in by_site {
        let mut scene = Scene::clean();
        spoil(&mut scene);
        assert_eq!(scene.verdict(), Some(expected));
    }
}

#[test]
fn bounds_belong_to_the_eligible_side() {
    let fine: [(&str, Spoil); 8] = [
        ("exactly the floor", |scene| scene.query.floor_ecpm_micros = 250_000_000),
        ("the zone's floor exactly", |scene| scene.zone.floor_ecpm_micros = 250_000_000),
        ("begins now", |scene| scene.campaign.flight.start_us = START_US),
        ("ends with the next microsecond", |scene| scene.campaign.flight.end_us = START_US + 1),
        ("one of the zone's sizes", |scene| {
            let sizes = [Size { width: 728, height: 90 }, Size { width: 300, height: 250 }];
            scene.zone.sizes = sizes.into();
        }),
        ("the request's sizes stand for the zone's", |scene| {
            scene.zone.sizes = [Size { width: 728, height: 90 }].into();
            scene.query.sizes = vec![Size { width: 300, height: 250 }];
        }),
        ("a known visitor", |scene| scene.campaign.requires_user = true),
        ("a replay leaves budgets out", |scene| {
            scene.campaign.has_budget = true;
            scene.query.without_budgets = true;
        }),
    ];
    for (what, spoil) in fine {
        let mut scene = Scene::clean();
        spoil(&mut scene);
        assert_eq!(scene.verdict(), None, "{what}");
    }
}

/// [start, end): also at its ends.
#[test]
fn a_flight_that_is_over_is_not_served() {
    let end_us = 1_762_747_200 * 1_000_000; // 2025-11-10T04:00:00Z
    let now_us = 1_762_761_600 * 1_000_000; // 2025-11-10T08:00:00Z
    for (at_us, expected) in [(now_us, true), (end_us, true), (end_us - 1, false)] {
        let mut scene = Scene::clean();
        scene.campaign.flight.end_us = end_us;
        scene.query.now_us = at_us;
        assert_eq!(scene.verdict().is_some_and(|v| v == Verdict::FlightEnded), expected);
    }
}

#[test]
fn an_ad_without_a_size_fits_only_where_any_does() {
    let mut scene = Scene::clean();
    scene.ad.size = None;
    assert_eq!(scene.verdict(), None);
    let mut scene = Scene::clean();
    scene.ad.size = None;
    scene.query.sizes = vec![Size { width: 300, height: 250 }];
    assert_eq!(scene.verdict(), Some(Verdict::Size));
}

#[test]
fn the_zones_own_price_is_what_the_floor_is_held_against() {
    let mut scene = Scene::clean();
    scene.campaign.price = Some(Price::ThousandImpressions(300_000_000));
    scene.query.floor_ecpm_micros = 260_000_000;
    assert_eq!(scene.verdict(), Some(Verdict::BelowFloor), "250 in this zone");
    let mut scene = Scene::clean();
    scene.campaign.price = Some(Price::ThousandImpressions(300_000_000));
    scene.query.floor_ecpm_micros = 260_000_000;
    let place = scene.ad.placements[0].clone();
    scene.ad.placements = [Placement { ecpm_micros: None, ..place }].into();
    assert_eq!(scene.verdict(), None, "the campaign's price where the zone has none");
}
