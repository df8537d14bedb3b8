//! The published index: changed step by step, taken over whole, and freed.

use std::sync::{Arc, Weak};

use proptest::collection::vec;
use proptest::prelude::*;
use slotwise_core::index::{Builder, CampaignTable, Change, Index, Key, ZoneBlock};
use slotwise_core::model::{
    Account, AccountSerial, Ad, Blocks, Campaign, CapLevel, Placement, Profile, Site, Status, Zone,
    ZoneSerial,
};

use crate::changes::{Catalogue, SITES, Step, ZONES, shown};
use crate::market::{
    DAY_US, Market, SITE, START_US, ad, campaign, capped, cases, decided, ground, zone,
};

/// What an index decides in every zone, for every set of keywords.
fn decisions(index: &Index) -> Vec<Vec<(String, u64, u32)>> {
    let zones = SITES.iter().flat_map(|site| ZONES.iter().map(|zone| (*site, *zone)));
    let asked = zones.flat_map(|zone| (0..1_u32 << 5).map(move |set| (zone, set)));
    let words = ["k0", "k1", "k2", "k3", "k4"];
    let decide = |(zone, set): ((&str, &str), u32)| {
        let has = |(at, word): (usize, &'static str)| (set >> at & 1 == 1).then_some(word);
        decided(index, zone, words.into_iter().enumerate().filter_map(has), 9, set.into())
    };
    asked.map(decide).collect()
}

/// Batches of steps, with a number that says in which order each batch's changes arrive.
fn history() -> impl Strategy<Value = Vec<(Vec<Step>, usize)>> {
    vec((vec(any::<Step>(), 1..=12), any::<usize>()), 1..=20)
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn changes_step_by_step_lead_to_what_a_build_from_scratch_shows(
        beginning in vec(any::<Step>(), 60),
        history in history(),
    ) {
        let (mut catalogue, mut builder, index) =
            (Catalogue::default(), Builder::default(), Index::default());
        let steps = std::iter::once((beginning, 0)).chain(history);
        for (version, (steps, order)) in (1..).zip(steps) {
            steps.into_iter().for_each(|step| catalogue.step(step));
            let mut changes = catalogue.take_changes();
            let by = order % changes.len().max(1);
            changes.rotate_left(by);
            prop_assert_eq!(builder.apply(changes, version, &index), []);

            let fresh = Index::default();
            let mut from_scratch = Builder::default();
            prop_assert_eq!(from_scratch.apply(catalogue.everything(), version, &fresh), []);
            let serials = catalogue.serials();
            prop_assert_eq!(shown(&index, serials), shown(&fresh, serials));
            prop_assert_eq!(decisions(&index), decisions(&fresh));
            prop_assert_eq!(builder.ads_len(), catalogue.ads_len());
            prop_assert_eq!(from_scratch.ads_len(), catalogue.ads_len());
        }
    }

    #[test]
    fn an_index_that_adopts_another_shows_the_same_and_goes_on(
        before in vec(any::<Step>(), 0..=80),
        after in vec(any::<Step>(), 0..=80),
        later in vec(any::<Step>(), 1..=20),
    ) {
        let index = Index::default();
        let mut old = Catalogue::default();
        before.into_iter().for_each(|step| old.step(step));
        Builder::default().apply(old.everything(), 1, &index);

        let (mut new, mut builder, aside) =
            (Catalogue::default(), Builder::default(), Index::default());
        after.into_iter().for_each(|step| new.step(step));
        builder.apply(new.everything(), 2, &aside);
        new.take_changes();
        builder.retire(index.adopt(&aside));
        let serials = old.serials().max(new.serials());
        prop_assert_eq!(shown(&index, serials), shown(&aside, serials));

        // The other index was only the place to build in: its writer goes on with this one.
        later.into_iter().for_each(|step| new.step(step));
        prop_assert_eq!(builder.apply(new.take_changes(), 3, &index), []);
        let fresh = Index::default();
        Builder::default().apply(new.everything(), 3, &fresh);
        let serials = serials.max(new.serials());
        prop_assert_eq!(shown(&index, serials), shown(&fresh, serials));
    }
}

#[test]
fn a_campaign_made_again_in_another_account_leaves_its_old_siblings() {
    let account = |serial, id: &str| {
        Change::Account(Account {
            serial: AccountSerial(serial),
            id: id.into(),
            time_zone: "".into(),
        })
    };
    let wide = [(CapLevel::Advertiser, 1, DAY_US)];
    let (mut builder, index) = (Builder::default(), Index::default());
    let first = vec![
        account(1, "net"),
        account(2, "pub"),
        Change::Campaign(capped(1, "x:1", &wide)),
        Change::Campaign(campaign(2, "x:2")),
    ];
    assert_eq!(builder.apply(first, 1, &index), []);
    let life_us = |serial| {
        let row = index.campaigns().get(slotwise_core::model::CampaignSerial(serial)).cloned();
        row.map(|row| row.exposure_life_us)
    };
    assert_eq!(life_us(2), Some(DAY_US), "its sibling may ask for it");
    let again = Campaign { account: "pub".into(), ..capped(3, "x:1", &wide) };
    builder.apply(vec![Change::Campaign(again)], 2, &index);
    assert_eq!((life_us(1), life_us(3)), (None, Some(DAY_US)));
    assert_eq!(life_us(2), Some(0), "nobody in its account asks any more");
}

#[test]
fn a_pause_leaves_the_blocks_alone() {
    let mut market = Market::new(vec![campaign(1, "x:1")], vec![ad(1, "x:1", "1", 250, &[])]);
    let before = market.block();
    let paused = Campaign { status: Status::Paused, ..campaign(1, "x:1") };
    market.apply(vec![Change::Campaign(paused)]);
    assert!(Arc::ptr_eq(&before, &market.block()));
    assert_eq!(market.show(1, &mut Profile::default(), START_US).len(), 0);
    market.apply(vec![Change::Campaign(campaign(1, "x:1"))]);
    assert_eq!(market.show(1, &mut Profile::default(), START_US), ["1"]);
}

#[test]
fn an_unknown_zone_is_not_there() {
    let market = Market::new(Vec::new(), Vec::new());
    for (site, zone) in [(SITE, "other"), ("other", "top"), ("", ""), ("newst", "op")] {
        assert!(market.index.zone(site, zone).is_none(), "{site}/{zone}");
    }
}

/// Each names what is not there; the rest of the same change is published all the same.
#[test]
#[allow(clippy::too_many_lines, reason = "one scene: what is wrong, and what is said of it")]
fn what_names_a_missing_object_is_rejected_and_named() {
    let site_of_nobody =
        Site { id: "lost".into(), account: "nobody".into(), blocks: Blocks::default() };
    let zone_of_nothing = Zone { serial: ZoneSerial(9), site: "nowhere".into(), ..zone() };
    let of_nobody = Campaign { account: "nobody".into(), ..campaign(8, "x:lost") };
    let orphan = ad(9, "x:nothing", "orphan", 250, &[]);
    let place = |site: &str, zone: &str, ecpm_micros| Placement {
        site: site.into(),
        zone: zone.into(),
        ecpm_micros,
    };
    let placed = |serial, unit: &str, place: Placement| {
        let fine = ad(serial, "x:1", unit, 250, &[]);
        Ad { placements: [fine.placements[0].clone(), place].into(), ..fine }
    };
    let only = |serial, unit: &str, place: Placement| Ad {
        placements: [place].into(),
        ..ad(serial, "x:1", unit, 250, &[])
    };
    let foreign_site =
        Site { id: "foreign".into(), account: "pub".into(), blocks: Blocks::default() };
    let foreign_zone = Zone { serial: ZoneSerial(2), site: "foreign".into(), ..zone() };
    let mut changes = ground();
    changes.extend([
        Change::Account(Account {
            serial: AccountSerial(2),
            id: "pub".into(),
            time_zone: "".into(),
        }),
        Change::Site(foreign_site),
        Change::Zone(foreign_zone),
        Change::Campaign(campaign(1, "x:1")),
        Change::Ad(ad(1, "x:1", "fine", 250, &[])),
        Change::Site(site_of_nobody),
        Change::Zone(zone_of_nothing),
        Change::Campaign(of_nobody),
        Change::Ad(orphan),
        Change::Ad(only(2, "no zone", place(SITE, "gone", Some(1)))),
        Change::Ad(only(3, "no site", place("nowhere", "top", Some(1)))),
        Change::Ad(placed(6, "one of two", place(SITE, "gone", Some(1)))),
        Change::Ad(placed(4, "not ours", place("foreign", "top", Some(1)))),
        Change::Ad(Ad {
            placements: [place(SITE, "top", None)].into(),
            ..ad(5, "x:1", "free", 0, &[])
        }),
    ]);
    let (mut builder, index) = (Builder::default(), Index::default());
    let rejected = builder.apply(changes, 1, &index);

    let expected = [
        (Key::Site("lost".into()), "nobody"),
        (Key::Zone("nowhere".into(), "top".into()), "nowhere"),
        (Key::Campaign("x:lost".into()), "nobody"),
        (Key::Ad("x:nothing".into(), "orphan".into()), "x:nothing"),
        (Key::Ad("x:1".into(), "no zone".into()), "news/gone"),
        (Key::Ad("x:1".into(), "no site".into()), "nowhere/top"),
        (Key::Ad("x:1".into(), "not ours".into()), "foreign/top"),
        (Key::Ad("x:1".into(), "free".into()), "news/top"),
    ];
    for (key, missing) in &expected {
        let found = rejected.iter().find(|rejected| rejected.key == *key);
        let found = found.unwrap_or_else(|| panic!("{key} is not rejected: {rejected:?}"));
        assert!(found.why.contains(missing), "{found:?} does not name {missing}");
    }
    assert_eq!(rejected.len(), expected.len(), "{rejected:?}");
    let units = |block: Arc<ZoneBlock>| {
        block.entries.iter().map(|entry| entry.ad.unit.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        units(index.zone(SITE, "top").unwrap()),
        ["fine", "one of two"],
        "a missing zone leaves the ad in the others"
    );
    assert_eq!(units(index.zone("foreign", "top").unwrap()), [""; 0]);
    assert!(index.zone("nowhere", "top").is_none());
    assert_eq!(builder.ads_len(), 2);
}

#[test]
fn what_is_retired_is_freed_once_nobody_reads_it() {
    let mut market = Market::new(vec![campaign(1, "x:1")], vec![ad(1, "x:1", "1", 250, &[])]);
    let (block, table) = (market.block(), market.index.campaigns());
    let (old_block, old_table) = (Arc::downgrade(&block), Arc::downgrade(table.table()));
    market.apply(vec![Change::Ad(ad(1, "x:1", "1", 300, &[]))]);
    assert!(!Arc::ptr_eq(&block, &market.block()), "another block is shown");

    market.builder.sweep();
    assert_eq!(block.ecpm_micros(&block.entries[0]), 250_000_000, "a reader keeps what it reads");
    drop((block, table));
    assert!(is_alive(&old_block) && is_alive(&old_table), "it is not freed on a reader's thread");
    market.builder.sweep();
    assert!(!is_alive(&old_table), "the table");
    assert!(!is_alive(&old_block), "the block");
    let block = market.block();
    assert_eq!(block.ecpm_micros(&block.entries[0]), 300_000_000);
}

#[test]
fn what_nobody_ever_read_is_freed_by_one_sweep() {
    let mut market = Market::new(vec![campaign(1, "x:1")], vec![ad(1, "x:1", "1", 250, &[])]);
    let old: Vec<Weak<ZoneBlock>> = (1..=5)
        .map(|ecpm| {
            let old = Arc::downgrade(&market.block());
            market.apply(vec![Change::Ad(ad(1, "x:1", "1", ecpm, &[]))]);
            old
        })
        .collect();
    assert!(old.iter().all(is_alive), "not before");
    market.builder.sweep();
    assert_eq!(old.iter().filter(|old| is_alive(old)).count(), 0, "of five old blocks");
}

#[test]
fn what_an_adoption_retires_is_freed_as_well() {
    let market = Market::new(vec![campaign(1, "x:1")], vec![ad(1, "x:1", "1", 250, &[])]);
    let other = Market::new(vec![campaign(1, "x:1")], vec![ad(1, "x:1", "1", 300, &[])]);
    let (index, mut builder) = (market.index, other.builder);
    // The old index's writer goes with its catalogue.
    drop(market.builder);
    let block: Weak<ZoneBlock> = Arc::downgrade(&index.zone(SITE, "top").unwrap());
    let table: Weak<CampaignTable> = Arc::downgrade(index.campaigns().table());
    builder.retire(index.adopt(&other.index));
    assert!(is_alive(&block) && is_alive(&table));
    builder.sweep();
    assert!(!is_alive(&block) && !is_alive(&table));
    let block = index.zone(SITE, "top").unwrap();
    assert_eq!(block.ecpm_micros(&block.entries[0]), 300_000_000);
}

fn is_alive<T>(weak: &Weak<T>) -> bool {
    weak.strong_count() > 0
}
