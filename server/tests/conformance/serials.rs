//! Objects by their serials, also after they were deleted.

use slotwise_core::index::Key;
use slotwise_core::model::{AccountSerial, AdSerial, CampaignSerial, ZoneSerial};
use slotwise_server::ports::{Commit, Row, Serial};

use crate::Harness;
use crate::catalog::{
    AT_US, Store, account, ad, apply, campaign, deletes, get, load, on, puts, site, zone,
};

/// What the contract keeps tokens and late events for, in days.
const KEPT_DAYS: i64 = 35;
const DAY_US: i64 = 86_400 * 1_000_000;

async fn fill(store: &Store) {
    let keys = [account("net"), site("s"), zone("s", "z"), campaign("x:1"), ad("x:1", "a")];
    apply(store, puts(keys, "first")).await;
}

/// The number of a stored object; a site has none that anybody asks for.
fn serial(row: &Row) -> Serial {
    match row.key {
        Key::Account(_) => Serial::Account(AccountSerial(row.serial)),
        Key::Zone(..) => Serial::Zone(ZoneSerial(row.serial)),
        Key::Campaign(_) => Serial::Campaign(CampaignSerial(row.serial)),
        Key::Ad(..) => Serial::Ad(AdSerial(row.serial)),
        Key::Site(_) => panic!("not by its serial"),
    }
}

async fn found(store: &Store, serial: Serial) -> Option<Row> {
    store.by_serial(serial).await.unwrap()
}

pub(crate) async fn an_object_is_found_by_its_serial(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    for key in [account("net"), zone("s", "z"), campaign("x:1"), ad("x:1", "a")] {
        let row = get(&store, &key).await;
        assert_eq!(found(&store, serial(&row)).await, Some(row), "{key}");
    }
    apply(&store, puts([ad("x:1", "a")], "second")).await;
    let row = get(&store, &ad("x:1", "a")).await;
    assert_eq!(row.body, b"second");
    assert_eq!(found(&store, serial(&row)).await, Some(row));
    assert_eq!(found(&store, Serial::Ad(AdSerial(0))).await, None);
    assert_eq!(found(&store, Serial::Ad(AdSerial(u32::MAX))).await, None);
}

pub(crate) async fn what_was_deleted_is_found_as_it_was(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    let keys = [zone("s", "z"), campaign("x:1"), ad("x:1", "a")];
    let mut rows = Vec::new();
    for key in &keys {
        rows.push(get(&store, key).await);
    }
    apply(&store, deletes(keys)).await;
    drop(store);
    let store = harness.catalog().await;
    for row in rows {
        let kept = found(&store, serial(&row)).await;
        assert_eq!(kept, Some(Row { status: None, ..row }));
    }
}

pub(crate) async fn what_is_made_again_leaves_the_old_one_its_serial(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    let key = ad("x:1", "a");
    let old = get(&store, &key).await;
    apply(&store, deletes([campaign("x:1"), key.clone()])).await;
    apply(&store, puts([campaign("x:1"), key.clone()], "again")).await;
    let new = get(&store, &key).await;
    assert_ne!(old.serial, new.serial);
    assert_eq!(found(&store, serial(&old)).await, Some(old.clone()));
    assert_eq!(found(&store, serial(&new)).await, Some(new.clone()));
    apply(&store, deletes([key])).await;
    assert_eq!(found(&store, serial(&old)).await.unwrap().body, b"first");
    assert_eq!(found(&store, serial(&new)).await.unwrap().body, b"again");
}

/// More rows than any store changes in one step.
const MANY: usize = 3_000;

pub(crate) async fn what_a_large_change_brings_and_takes_is_found(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    let keys = || (0..MANY).map(|n| ad("x:1", &format!("u{n}")));
    // Asked for at once, while the change may still be on its way into place.
    apply(&store, puts(keys(), "many")).await;
    let first = get(&store, &ad("x:1", "u0")).await;
    assert_eq!(found(&store, serial(&first)).await, Some(first));
    let (_, all) = load(&store).await;
    let rows = || all.values().filter(|row| row.body == b"many");
    assert_eq!(rows().count(), MANY);
    for row in rows().step_by(97) {
        assert_eq!(found(&store, serial(row)).await.as_ref(), Some(row));
    }
    apply(&store, Commit { forced: true, ..deletes(keys()) }).await;
    for row in rows().step_by(97) {
        assert_eq!(found(&store, serial(row)).await.as_ref(), Some(row), "deleted");
    }
    let (_, left) = load(&store).await;
    assert!(left.values().all(|row| row.body != b"many"));
}

pub(crate) async fn what_was_deleted_long_ago_is_forgotten(harness: &impl Harness) {
    let store = harness.catalog().await;
    fill(&store).await;
    let row = get(&store, &ad("x:1", "a")).await;
    apply(&store, deletes([ad("x:1", "a")])).await;
    let later = async |at_us: i64, name: &str| {
        let head = store.head().await.unwrap().version;
        let commit = Commit { at_us, ..on(head, puts([site(name)], "")) };
        store.commit(commit).await.unwrap();
    };
    later(AT_US + KEPT_DAYS * DAY_US, "kept").await;
    assert_eq!(found(&store, serial(&row)).await, Some(row.clone()));
    later(AT_US + KEPT_DAYS * DAY_US + 1, "gone").await;
    assert_eq!(found(&store, serial(&row)).await, None);
}
