use std::collections::HashSet;

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::batch::{Damaged, decode, encode};
use super::*;

pub(super) fn event(kind: Kind, decision: u64, slot: u16) -> Event {
    let showing = Showing {
        decision,
        slot,
        issued_at_ms: 1_796_000_000_123,
        price_nanos: 2_000_000,
        price_kind: PriceKind::Click,
        on_impression: false,
        visitor: Some(3),
        account: AccountSerial(1),
        zone: ZoneSerial(2),
        ad: AdSerial(3),
    };
    let (tag, at_us) = (String::new(), 1_796_000_001_000_000);
    Event { kind, showing, at_us, tag, value_micros: 0, filtered_by: None }
}

fn various() -> Vec<Event> {
    let impression = event(Kind::Impression, 1, 0);
    let click = Event { filtered_by: Some("bots 1.2".into()), ..event(Kind::Click, u64::MAX, 1) };
    let mut conversion = event(Kind::Conversion, 0, 6_399);
    conversion.tag = "order 7 \u{1f600}".into();
    conversion.value_micros = i64::MIN;
    conversion.showing.visitor = None;
    conversion.showing.price_nanos = i64::MAX;
    conversion.showing.price_kind = PriceKind::Free;
    conversion.showing.on_impression = true;
    conversion.at_us = -1;
    vec![impression, click, conversion]
}

#[test]
fn a_batch_says_what_was_put_in() {
    for events in [vec![], various()] {
        assert_eq!(decode(&encode(&events)), Ok(events));
    }
}

#[test]
fn a_damaged_batch_is_refused_as_a_whole() {
    let bytes = encode(&various());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert_eq!(decode(&damaged), Err(Damaged::Checksum), "byte {at}");
        assert_eq!(decode(&bytes[..at]), Err(Damaged::Checksum), "cut at {at}");
    }
    // Sound, and of a kind that only a later version knows.
    let later = [2, 0x08, 9];
    let bytes = [&crc32fast::hash(&later).to_le_bytes()[..], &later].concat();
    assert_eq!(decode(&bytes), Err(Damaged::Unknown));
}

#[test]
fn an_event_has_one_id_and_no_other_has_it() {
    let mut ids = HashSet::new();
    let kinds = [Kind::Impression, Kind::Click, Kind::Conversion];
    let mut count = 0;
    for kind in kinds {
        for decision in [0, 1, u64::MAX] {
            for slot in [0, 1, 6_399] {
                for tag in ["", "a", "b"] {
                    for issued_at_ms in [0, 1_796_000_000_123] {
                        let mut event = event(kind, decision, slot);
                        event.tag = tag.into();
                        event.showing.issued_at_ms = issued_at_ms;
                        assert_eq!(event.id().issued_at_ms(), issued_at_ms);
                        // What else it says changes nothing: a repeat may come at another time.
                        let again = Event { at_us: 5, filtered_by: None, ..event.clone() };
                        assert_eq!(again.id(), event.id());
                        ids.insert(event.id());
                        count += 1;
                    }
                }
            }
        }
    }
    assert_eq!(ids.len(), count);
}

#[test]
fn an_event_costs_what_its_token_says_and_only_the_kind_that_is_paid_for() {
    for (kind, paid) in [(Kind::Impression, 0), (Kind::Click, 2_000_000), (Kind::Conversion, 0)] {
        assert_eq!(event(kind, 1, 1).price_nanos(), paid);
    }
}

/// SplitMix64 of the seed 0 begins with 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4,
/// 0x06c45d188009454f (the generator's published sequence; its state steps by the constant).
#[test]
fn ads_lie_where_they_always_lay() {
    let at = |ad: u32| {
        let mut event = event(Kind::Click, 1, 1);
        event.showing.ad = AdSerial(ad);
        HotAds::default().partition(&event.showing)
    };
    assert_eq!(at(0), Partition(0xf));
    let spread: HashSet<_> = (0..200).map(at).collect();
    assert_eq!(spread.len(), usize::from(PARTITIONS));
}

#[test]
fn a_hot_ad_is_spread_in_its_time_and_a_token_has_one_place() {
    let ad = AdSerial(3);
    let hot = HotAds::new(vec![
        HotAd { ad: AdSerial(4), from_ms: 0, until_ms: i64::MAX },
        HotAd { ad, from_ms: 9_000, until_ms: i64::MAX },
        HotAd { ad, from_ms: 1_000, until_ms: 2_000 },
    ]);
    let places = |issued_at_ms| {
        let place = |decision| {
            let mut event = event(Kind::Click, decision, 0);
            event.showing.issued_at_ms = issued_at_ms;
            let place = hot.partition(&event.showing);
            event.kind = Kind::Impression;
            assert_eq!(hot.partition(&event.showing), place, "the kind does not matter");
            place
        };
        (0..100).map(place).collect::<HashSet<_>>()
    };
    let cold = HotAds::default().partition(&event(Kind::Click, 1, 0).showing);
    for (issued_at_ms, spread) in
        [(999, 1), (1_000, 4), (1_999, 4), (2_000, 1), (8_999, 1), (9_000, 4), (99_000, 4)]
    {
        let places = places(issued_at_ms);
        assert_eq!(places.len(), spread, "issued at {issued_at_ms}");
        assert!(spread > 1 || places.contains(&cold));
    }
}
