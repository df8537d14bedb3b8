//! Estimates: added up once, whatever is sent again.

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::ports::{Day, IncrementBatch, PairEstimate};

use crate::Harness;

const ACCOUNT: AccountSerial = AccountSerial(1);
const TODAY: Day = Day(20_787);
const TOMORROW: Day = Day(20_788);

fn pair(zone: u32, ad: u32, impressions: u64, clicks: u64) -> PairEstimate {
    PairEstimate { zone: ZoneSerial(zone), ad: AdSerial(ad), impressions, clicks }
}

fn batch(sender: u64, number: u64, days: Vec<(Day, Vec<PairEstimate>)>) -> IncrementBatch {
    IncrementBatch { sender, number, account: ACCOUNT, days }
}

pub(crate) async fn sums_add_up_by_account_and_day(harness: &impl Harness) {
    let store = harness.increments().await;
    assert_eq!(store.document(ACCOUNT, TODAY).await.unwrap(), []);
    let first = batch(1, 1, vec![(TODAY, vec![pair(2, 10, 5, 1), pair(2, 9, 1, 0)])]);
    let other = IncrementBatch { account: AccountSerial(2), ..first.clone() };
    store.add(&[first, other]).await.unwrap();
    let days = vec![
        (TODAY, vec![pair(2, 10, 0, 2), pair(1, 10, 1, 1)]),
        (TOMORROW, vec![pair(2, 10, 7, 0)]),
    ];
    store.add(&[batch(1, 2, days)]).await.unwrap();
    let expected = [pair(1, 10, 1, 1), pair(2, 9, 1, 0), pair(2, 10, 5, 3)];
    assert_eq!(store.document(ACCOUNT, TODAY).await.unwrap(), expected);
    assert_eq!(store.document(ACCOUNT, TOMORROW).await.unwrap(), [pair(2, 10, 7, 0)]);
    let expected = [pair(2, 9, 1, 0), pair(2, 10, 5, 1)];
    assert_eq!(store.document(AccountSerial(2), TODAY).await.unwrap(), expected);
}

pub(crate) async fn a_repeated_flush_changes_nothing(harness: &impl Harness) {
    let store = harness.increments().await;
    let flush = |number| batch(1, number, vec![(TODAY, vec![pair(1, 1, 1, 0)])]);
    for number in [1, 1, 2, 2, 1, 3, 3, 3] {
        store.add(&[flush(number)]).await.unwrap();
    }
    assert_eq!(store.document(ACCOUNT, TODAY).await.unwrap(), [pair(1, 1, 3, 0)]);
    // Its number counts for each account apart.
    let other = IncrementBatch { account: AccountSerial(2), ..flush(2) };
    store.add(&[flush(3), other.clone(), other]).await.unwrap();
    assert_eq!(store.document(AccountSerial(2), TODAY).await.unwrap(), [pair(1, 1, 1, 0)]);
    assert_eq!(store.document(ACCOUNT, TODAY).await.unwrap(), [pair(1, 1, 3, 0)]);
}

pub(crate) async fn senders_do_not_stand_in_each_others_way(harness: &impl Harness) {
    let store = harness.increments().await;
    for (sender, number) in [(1, 5), (2, 1), (u64::MAX, 1), (0, 1), (1, 5), (2, 2)] {
        let days = vec![(TODAY, vec![pair(1, 1, 1, 1)])];
        store.add(&[batch(sender, number, days)]).await.unwrap();
    }
    assert_eq!(store.document(ACCOUNT, TODAY).await.unwrap(), [pair(1, 1, 5, 5)]);
}

pub(crate) async fn many_accounts_are_added_at_once(harness: &impl Harness) {
    let store = harness.increments().await;
    let of = |account: u32| IncrementBatch {
        account: AccountSerial(account),
        ..batch(1, 1, vec![(TODAY, vec![pair(1, account, u64::from(account), 0)])])
    };
    store.add(&(1..=200).map(of).collect::<Vec<_>>()).await.unwrap();
    for account in [1, 100, 200] {
        let document = store.document(AccountSerial(account), TODAY).await.unwrap();
        assert_eq!(document, [pair(1, account, u64::from(account), 0)]);
    }
}

pub(crate) async fn estimates_survive_reopening(harness: &impl Harness) {
    let store = harness.increments().await;
    let flush = batch(3, 1, vec![(TODAY, vec![pair(1, 1, 1, 0)])]);
    store.add(std::slice::from_ref(&flush)).await.unwrap();
    drop(store);
    let store = harness.increments().await;
    store.add(&[flush]).await.unwrap();
    assert_eq!(store.document(ACCOUNT, TODAY).await.unwrap(), [pair(1, 1, 1, 0)]);
}
