use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use slotwise_core::model::AccountId;

use super::*;
use crate::serials::NamedAccount;
use crate::tokens::PriceKind;

/// Impressions and clicks by zone and ad.
type Document = HashMap<(ZoneSerial, AdSerial), (u64, u64)>;

/// A store that takes what it is given, and then says so or not.
#[derive(Default)]
struct Fickle {
    documents: Mutex<HashMap<(AccountSerial, Day), Document>>,
    last: Mutex<HashMap<(u64, AccountSerial), u64>>,
    /// How many answers are lost on the way.
    lost: AtomicU32,
}

#[async_trait]
impl IncrementStore for Fickle {
    async fn add(&self, batches: &[IncrementBatch]) -> Result<(), StoreError> {
        for batch in batches {
            let mut last = self.last.lock().unwrap();
            let last = last.entry((batch.sender, batch.account)).or_default();
            if batch.number <= *last {
                continue;
            }
            *last = batch.number;
            for (day, pairs) in &batch.days {
                let mut documents = self.documents.lock().unwrap();
                let document = documents.entry((batch.account, *day)).or_default();
                for pair in pairs {
                    let sum = document.entry((pair.zone, pair.ad)).or_default();
                    *sum = (sum.0 + pair.impressions, sum.1 + pair.clicks);
                }
            }
        }
        let lose = |left: u32| left.checked_sub(1);
        match self.lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lose) {
            Ok(_) => Err(StoreError::Unavailable("no answer".to_owned())),
            Err(_) => Ok(()),
        }
    }

    async fn document(&self, _: AccountSerial, _: Day) -> Result<Vec<PairEstimate>, StoreError> {
        Ok(Vec::new())
    }
}

fn showing(account: u32, zone: u32, ad: u32) -> Showing {
    Showing {
        decision: 1,
        slot: 0,
        issued_at_ms: 0,
        price_nanos: 0,
        price_kind: PriceKind::Free,
        on_impression: false,
        visitor: None,
        account: AccountSerial(account),
        zone: ZoneSerial(zone),
        ad: AdSerial(ad),
    }
}

fn flusher(store: &Arc<Fickle>) -> (Arc<Increments>, Flusher, Arc<Counters>) {
    let counters = Arc::<Counters>::default();
    let increments = Arc::new(Increments::new(Arc::clone(&counters)));
    let serials = Arc::<Serials>::default();
    for (serial, time_zone) in [(1, ""), (2, "America/Chicago"), (3, "Asia/Kathmandu")] {
        serials.put_account(NamedAccount {
            serial: AccountSerial(serial),
            id: AccountId::from("a"),
            time_zone: time_zone.into(),
            currency: "EUR".into(),
        });
    }
    let store: Arc<dyn IncrementStore> = Arc::<Fickle>::clone(store);
    (Arc::clone(&increments), Flusher::new(increments, store, serials, 7), counters)
}

/// Microseconds of Unix time of an RFC 3339 instant.
fn at(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_microsecond()
}

/// 2026-09-07 is day 20,703: `date -u -d 2026-09-07 +%s` divided by 86,400.
const SEVENTH: Day = Day(20_703);

#[tokio::test]
async fn each_account_has_its_own_days() {
    let store = Arc::<Fickle>::default();
    let (increments, mut flusher, _) = flusher(&store);
    let instant = at("2026-09-08T02:23:34Z");
    for account in [1, 2, 3, 4] {
        increments.add(&showing(account, 1, 1), Kind::Impression, instant);
    }
    // The last quarter of Nepal's seventh, and the first of its eighth.
    increments.add(&showing(3, 1, 1), Kind::Click, at("2026-09-07T18:14:59Z"));
    increments.add(&showing(3, 1, 1), Kind::Click, at("2026-09-07T18:15:00Z"));
    flusher.flush().await.unwrap();
    let documents = store.documents.lock().unwrap();
    let pair = (ZoneSerial(1), AdSerial(1));
    let of = |account, day| documents[&(AccountSerial(account), day)][&pair];
    let eighth = Day(SEVENTH.0 + 1);
    assert_eq!(of(1, eighth), (1, 0));
    assert_eq!(of(2, SEVENTH), (1, 0), "in Chicago it is still the seventh");
    assert_eq!((of(3, SEVENTH), of(3, eighth)), ((0, 1), (1, 1)));
    assert_eq!(of(4, eighth), (1, 0), "of an account that nobody knows the day is UTC's");
    assert_eq!(documents.len(), 5);
}

#[tokio::test]
async fn what_is_sent_again_counts_once() {
    let store = Arc::<Fickle>::default();
    let (increments, mut flusher, counters) = flusher(&store);
    let mut expected = (0, 0);
    for round in 0..40_u64 {
        for _ in 0..=round {
            increments.add(&showing(1, 2, 3), Kind::Impression, 0);
        }
        increments.add(&showing(1, 2, 3), Kind::Click, 0);
        increments.add(&showing(1, 2, 3), Kind::Conversion, 0);
        expected = (expected.0 + round + 1, expected.1 + 1);
        store.lost.store(u32::try_from(round % 3).unwrap(), Ordering::Relaxed);
        while flusher.flush().await.is_err() {}
    }
    let documents = store.documents.lock().unwrap();
    let document = &documents[&(AccountSerial(1), Day(0))];
    assert_eq!(document[&(ZoneSerial(2), AdSerial(3))], expected);
    assert_eq!(counters.get(Metric::IncrementsDropped), 0);
}

#[tokio::test]
async fn without_room_they_are_dropped_and_counted() {
    let store = Arc::<Fickle>::default();
    let (increments, mut flusher, counters) = flusher(&store);
    let ads = u32::try_from(INCREMENT_SUMS_MAX).unwrap() + 10;
    for ad in 0..ads {
        increments.add(&showing(1, 1, ad), Kind::Impression, 0);
    }
    increments.add(&showing(1, 1, 0), Kind::Impression, 0);
    assert_eq!(counters.get(Metric::IncrementsDropped), 10);
    flusher.flush().await.unwrap();
    let documents = store.documents.lock().unwrap();
    let document = &documents[&(AccountSerial(1), Day(0))];
    let sum: u64 = document.values().map(|(impressions, _)| impressions).sum();
    assert_eq!(sum, u64::from(ads) - 10 + 1);
}

#[tokio::test]
async fn a_stop_flushes() {
    let store = Arc::<Fickle>::default();
    let (increments, flusher, _) = flusher(&store);
    let (stop, stopped) = oneshot::channel();
    increments.add(&showing(1, 1, 1), Kind::Click, 0);
    stop.send(()).unwrap();
    flusher.run(stopped).await;
    assert_eq!(store.documents.lock().unwrap().len(), 1);
}
