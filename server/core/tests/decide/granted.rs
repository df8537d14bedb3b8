//! What becomes of what the store has granted.

use slotwise_core::decide::{Decision, Strict};
use slotwise_core::model::{
    AdSerial, AdvertiserId, Campaign, CampaignSerial, CapLevel, Exposure, Profile, ZoneSerial,
};

use crate::market::{DAY_US, HOUR_US, Market, START_US, ad, campaign, capped, query};

const DECISION: u64 = 9;

fn strict(serial: u32, id: &str, level: CapLevel, max: u32) -> Campaign {
    let mut made = capped(serial, id, &[(level, max, DAY_US)]);
    made.strict_caps = true;
    made
}

/// Ads by falling price: serial and campaign.
fn market(campaigns: Vec<Campaign>, ads: &[(u32, &str)]) -> Market {
    let made = |(at, (serial, of)): (i64, &(u32, &str))| {
        ad(*serial, of, &serial.to_string(), 100 - at, &[])
    };
    Market::new(campaigns, (0..).zip(ads).map(made).collect())
}

fn exposure(decision: u64, at_us: i64, campaign: u32, ad: u32) -> Exposure {
    Exposure {
        at_us,
        life_us: DAY_US,
        is_held: false,
        decision,
        zone: ZoneSerial(1),
        campaign: CampaignSerial(campaign),
        ad: AdSerial(ad),
    }
}

/// The ads of an answer of `count`, with `granted` recorded by the store as shown now, all of
/// campaign 1 of x, and `past` as shown an hour ago.
fn shown(market: &Market, count: usize, granted: &[u32], past: &[(u32, u32)]) -> Vec<u32> {
    let (x, campaigns) = (AdvertiserId::from("x"), market.index.campaigns());
    let mut profile = Profile::default();
    for (at, (campaign, ad)) in (100..).zip(past) {
        let seen = exposure(at, START_US - HOUR_US, *campaign, *ad);
        profile.record(&x, seen, START_US).unwrap();
    }
    for ad in granted {
        profile.record(&x, exposure(DECISION, START_US, 1, *ad), START_US).unwrap();
    }
    profile.take_fresh();
    let mut decision: Decision = market.decision(query(count), 0);
    decision.look(&campaigns);
    let granted: Vec<_> = granted.iter().map(|ad| AdSerial(*ad)).collect();
    let strict = Strict::Granted(&granted);
    decision.admit(&campaigns, &mut profile, DECISION, strict).unwrap();
    decision.winners().map(|winner| winner.entry.ad.serial.0).collect()
}

/// The store has recorded it: that is no reason to turn it down.
#[test]
fn what_was_granted_is_shown() {
    let market = market(vec![strict(1, "x:1", CapLevel::Campaign, 1)], &[(1, "x:1"), (2, "x:1")]);
    assert_eq!(shown(&market, 1, &[1], &[]), [1]);
    assert_eq!(shown(&market, 2, &[], &[]), [0_u32; 0]);
}

#[test]
fn one_that_was_refused_leaves_its_campaigns_others_in() {
    let campaigns = vec![strict(1, "x:1", CapLevel::Ad, 1), campaign(2, "y:1")];
    let market = market(campaigns, &[(5, "y:1"), (1, "x:1"), (2, "x:1"), (6, "y:1")]);
    assert_eq!(shown(&market, 3, &[2], &[]), [5, 2, 6]);
}

/// The store did not know of the sibling that stands before it.
#[test]
fn what_was_seen_before_counts_beside_what_this_answer_shows() {
    let campaigns = vec![strict(1, "x:1", CapLevel::Advertiser, 2), campaign(2, "x:2")];
    let market = market(campaigns, &[(5, "x:2"), (1, "x:1")]);
    assert_eq!(shown(&market, 2, &[1], &[]), [5, 1]);
    // The very ad, an hour ago, and its sibling now: that is two.
    assert_eq!(shown(&market, 2, &[1], &[(1, 1)]), [5]);
    assert_eq!(shown(&market, 2, &[1], &[(2, 7)]), [5]);
}
