//! Tests of `campaign.rs`: prices and caps.

use super::*;

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
