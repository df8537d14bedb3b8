//! Tests of `campaign.rs`: what a pause says.

use super::*;

fn answer(ads_changed: u32, nodes: [u32; 3]) -> SetCampaignStatusResponse {
    SetCampaignStatusResponse {
        catalog_version: 12,
        ads_changed,
        zones_changed: if ads_changed == 0 { 0 } else { 500 },
        nodes_live: nodes[0],
        nodes_applied: nodes[1],
        nodes_silent: nodes[2],
        elapsed: Some(prost_types::Duration { seconds: 0, nanos: 3_200_000 }),
    }
}

#[test]
fn a_pause_says_how_much_stopped_and_where() {
    assert_eq!(
        sentence("7:summer", CampaignStatus::Paused, &answer(12, [1, 1, 0])),
        "paused 7:summer: 12 ads in 500 zones stopped on 1 of 1 node in 3.2 ms"
    );
    assert_eq!(
        sentence("7:summer", CampaignStatus::Active, &answer(1, [2, 1, 0])),
        "activated 7:summer: 1 ad in 500 zones started on 1 of 2 nodes in 3.2 ms"
    );
    let repeat = sentence("7:summer", CampaignStatus::Paused, &answer(0, [1, 1, 0]));
    assert!(repeat.starts_with("nothing changed: 7:summer was paused"), "{repeat}");
}

#[test]
fn nodes_that_may_still_serve_are_said() {
    assert_eq!(missing_nodes(&answer(12, [3, 3, 0])), None);
    let behind = missing_nodes(&answer(12, [3, 1, 0])).unwrap();
    assert!(behind.contains("2 live nodes did not confirm"), "{behind}");
    // A repeat too: nothing changed, but it may still be shown somewhere.
    let silent = missing_nodes(&answer(0, [1, 1, 1])).unwrap();
    assert!(silent.contains("1 known node not heard of"), "{silent}");
}

#[test]
fn prices_and_caps_print_as_the_flags_take_them() {
    let per = |per| Price { per: Some(per) };
    let money = crate::ctl::money::format_micros;
    let cpm = per(Per::ThousandImpressionsMicros(20_000_000));
    assert_eq!(price(Some(&cpm), money), "20.00 cpm");
    assert_eq!(price(Some(&per(Per::ClickMicros(450_000))), money), "0.45 cpc");
    assert_eq!(price(None, money), "");
    let parsed = ["campaign:3/1d", "ad:1/2h"].map(|cap| crate::ctl::cli::values::cap(cap).unwrap());
    assert_eq!(caps(&parsed), "campaign:3/1d ad:1/2h");
}
