//! Counting steps.

use std::sync::Arc;

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::events::{EventId, Kind, Partition};
use slotwise_server::ports::{
    Claim, CountError, CountStore, Counted, Counts, IdLife, MinuteQuery, MinuteRow, PairRow, Place,
    Position, Step, Tally,
};

use crate::Harness;

pub const NOW_US: i64 = 1_796_000_000_000_000;
pub const NOW_MIN: i64 = NOW_US / 60_000_000;
pub const ACCOUNT: AccountSerial = AccountSerial(1);

/// An impression of zone 2 and ad 3 for 5 nanos, in time.
pub fn seen(number: u64, minute: i64) -> Tally {
    let mut id = [0; 16];
    let issued_ms = NOW_US / 1_000 - 5_000;
    id[..6].copy_from_slice(&issued_ms.to_be_bytes()[2..]);
    id[6..14].copy_from_slice(&number.to_be_bytes());
    Tally {
        id: EventId(id),
        life: IdLife::Short,
        kind: Kind::Impression,
        account: ACCOUNT,
        zone: ZoneSerial(2),
        ad: AdSerial(3),
        minute,
        price_nanos: 5,
        is_late: false,
    }
}

pub fn impressions(count: u64) -> Counts {
    let spend_nanos = i64::try_from(count).unwrap() * 5;
    Counts { impressions: count, spend_nanos, ..Counts::default() }
}

/// All partitions, claimed by one counter.
pub struct Counting {
    pub store: Arc<dyn CountStore>,
    pub claims: Vec<(Claim, Place)>,
}

impl Counting {
    pub async fn on(harness: &impl Harness) -> Self {
        let store = harness.open();
        let claims = store.claim("one", NOW_US).await.unwrap();
        assert_eq!(claims.len(), 16);
        Self { store, claims }
    }

    /// The next step of a partition, which it takes as counted.
    pub fn step(&mut self, partition: u8, tallies: Vec<Tally>) -> Step {
        let of = |(claim, _): &&mut (Claim, Place)| claim.partition == Partition(partition);
        let (claim, place) = self.claims.iter_mut().find(of).unwrap();
        let from = place.position;
        place.position = Position(from.0 + 1);
        Step { claim: *claim, from, to: *place, tallies, now_us: NOW_US }
    }

    pub async fn count(&mut self, partition: u8, tallies: Vec<Tally>) -> Counted {
        let step = self.step(partition, tallies);
        self.store.count(step).await.unwrap()
    }

    pub async fn minutes(&self) -> Vec<MinuteRow> {
        let query =
            MinuteQuery { account: ACCOUNT, ads: None, from_min: 0, until_min: 2 * NOW_MIN };
        self.store.minutes(&query).await.unwrap()
    }

    pub async fn pairs(&self) -> Vec<PairRow> {
        self.store.pairs(ACCOUNT, 0, 2 * NOW_MIN / 15 * 15).await.unwrap()
    }
}

pub fn in_time(minute: i64, counts: Counts) -> MinuteRow {
    MinuteRow { minute, counts, late: Counts::default() }
}

pub async fn a_step_is_counted_once(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let step = counting.step(0, vec![seen(1, NOW_MIN), seen(2, NOW_MIN), seen(3, NOW_MIN + 1)]);
    let counted = counting.store.count(step.clone()).await.unwrap();
    assert_eq!(counted, Counted { new: 3, late: 0, repeats: 0 });
    let again = counting.store.count(step).await;
    assert!(matches!(again, Err(CountError::Moved)), "{again:?}");
    let rows = [in_time(NOW_MIN, impressions(2)), in_time(NOW_MIN + 1, impressions(1))];
    assert_eq!(counting.minutes().await, rows);
    let pair = PairRow { zone: ZoneSerial(2), ad: AdSerial(3), counts: impressions(3) };
    assert_eq!(counting.pairs().await, [pair]);
    assert_eq!(counting.store.place(Partition(0)).await.unwrap().position, Position(1));
}

pub async fn what_was_counted_is_a_repeat(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    counting.count(0, vec![seen(1, NOW_MIN)]).await;
    let late = Tally { is_late: true, ..seen(1, NOW_MIN + 7) };
    let counted = counting.count(0, vec![seen(2, NOW_MIN), late, seen(1, NOW_MIN)]).await;
    assert_eq!(counted, Counted { new: 1, late: 0, repeats: 2 });
    assert_eq!(counting.minutes().await, [in_time(NOW_MIN, impressions(2))]);
}

pub async fn of_two_with_one_id_the_first_counts(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let tallies = vec![seen(9, NOW_MIN), seen(1, NOW_MIN), seen(1, NOW_MIN + 3)];
    let counted = counting.count(0, tallies).await;
    assert_eq!(counted, Counted { new: 2, late: 0, repeats: 1 });
    assert_eq!(counting.minutes().await, [in_time(NOW_MIN, impressions(2))]);
}

pub async fn events_that_differ_in_their_token_only_are_two(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    counting.count(0, vec![seen(1, NOW_MIN), seen(2, NOW_MIN)]).await;
    assert_eq!(counting.minutes().await, [in_time(NOW_MIN, impressions(2))]);
}

pub async fn late_ones_are_beside_their_minute(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let late = |number, kind| Tally { is_late: true, kind, ..seen(number, NOW_MIN) };
    let tallies = vec![
        seen(1, NOW_MIN),
        late(2, Kind::Click),
        late(3, Kind::Conversion),
        late(1, Kind::Click),
    ];
    let counted = counting.count(0, tallies).await;
    assert_eq!(counted, Counted { new: 3, late: 2, repeats: 1 });
    let late = Counts { impressions: 0, clicks: 1, conversions: 1, spend_nanos: 10 };
    let row = MinuteRow { minute: NOW_MIN, counts: impressions(1), late };
    assert_eq!(counting.minutes().await, [row]);
    let counts = Counts { impressions: 1, clicks: 1, conversions: 1, spend_nanos: 15 };
    let pair = PairRow { zone: ZoneSerial(2), ad: AdSerial(3), counts };
    assert_eq!(counting.pairs().await, [pair], "late ones are in them");
}

pub async fn a_step_from_elsewhere_changes_nothing(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let mut step = counting.step(0, vec![seen(1, NOW_MIN)]);
    step.from = Position(7);
    step.to.position = Position(8);
    let refused = counting.store.count(step).await;
    assert!(matches!(refused, Err(CountError::Moved)), "{refused:?}");
    assert_eq!(counting.minutes().await, []);
    assert_eq!(counting.store.place(Partition(0)).await.unwrap().position, Position(0));
    // Its ids are not known either.
    counting.claims = counting.store.claim("one", NOW_US).await.unwrap();
    assert_eq!(counting.count(0, vec![seen(1, NOW_MIN)]).await.new, 1);
}

pub async fn a_sum_that_does_not_fit_changes_nothing(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let dear = Tally { price_nanos: i64::MAX, ..seen(1, NOW_MIN) };
    counting.count(0, vec![dear]).await;
    // With what is stored, and in itself.
    let other = AdSerial(4);
    for tallies in [
        vec![seen(2, NOW_MIN)],
        vec![Tally { ad: other, ..dear }, Tally { ad: other, ..seen(2, NOW_MIN) }],
    ] {
        let tallies = (10..).zip(tallies).map(|(n, tally)| Tally { id: seen(n, 0).id, ..tally });
        let tallies = tallies.collect();
        let step = counting.step(0, tallies);
        let refused = counting.store.count(step).await;
        assert!(matches!(refused, Err(CountError::Overflow)), "{refused:?}");
        counting.claims = counting.store.claim("one", NOW_US).await.unwrap();
    }
    let counts = Counts { impressions: 1, spend_nanos: i64::MAX, ..Counts::default() };
    assert_eq!(counting.minutes().await, [in_time(NOW_MIN, counts)]);
    let cheap = Tally { price_nanos: 0, ..seen(10, NOW_MIN) };
    assert_eq!(counting.count(0, vec![cheap]).await.new, 1, "its id was not kept");
}

pub async fn a_step_without_events_moves_the_promise(harness: &impl Harness) {
    let counting = Counting::on(harness).await;
    let (claim, place) = counting.claims[3];
    let to = Place { promised_us: NOW_US, ..place };
    let step = Step { claim, from: place.position, to, tallies: vec![], now_us: NOW_US };
    assert_eq!(counting.store.count(step).await.unwrap(), Counted::default());
    assert_eq!(counting.store.place(claim.partition).await.unwrap(), to);
}

pub async fn partitions_count_at_once(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    for round in 0..5 {
        let steps: Vec<_> = (0..16_u8)
            .map(|partition| {
                let number = |n| round << 32 | u64::from(partition) << 16 | n;
                let tallies = (0..100).map(|n| seen(number(n), NOW_MIN)).collect();
                counting.step(partition, tallies)
            })
            .collect();
        let counted = steps.into_iter().map(|step| {
            let store = Arc::clone(&counting.store);
            tokio::spawn(async move { store.count(step).await.unwrap() })
        });
        for counted in counted.collect::<Vec<_>>() {
            assert_eq!(counted.await.unwrap().new, 100);
        }
    }
    assert_eq!(counting.minutes().await, [in_time(NOW_MIN, impressions(8_000))]);
}

pub async fn everything_counted_survives_reopening(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    counting.count(5, vec![seen(1, NOW_MIN)]).await;
    let place = counting.store.place(Partition(5)).await.unwrap();
    drop(counting);
    let mut counting = Counting::on(harness).await;
    assert_eq!(counting.store.place(Partition(5)).await.unwrap(), place);
    let counted = counting.count(5, vec![seen(1, NOW_MIN)]).await;
    assert_eq!(counted.repeats, 1);
    assert_eq!(counting.minutes().await, [in_time(NOW_MIN, impressions(1))]);
}

pub async fn the_largest_serials_and_money_come_back(harness: &impl Harness) {
    let mut counting = Counting::on(harness).await;
    let largest = Tally {
        account: AccountSerial(u32::MAX),
        zone: ZoneSerial(u32::MAX),
        ad: AdSerial(u32::MAX),
        price_nanos: i64::MAX,
        ..seen(1, NOW_MIN)
    };
    let mut step = counting.step(0, vec![largest]);
    step.to = Place { position: Position(u128::MAX), promised_us: i64::MAX };
    let to = step.to;
    counting.store.count(step).await.unwrap();
    assert_eq!(counting.store.place(Partition(0)).await.unwrap(), to);
    let pairs = counting.store.pairs(AccountSerial(u32::MAX), 0, 2 * NOW_MIN).await.unwrap();
    let counts = Counts { impressions: 1, spend_nanos: i64::MAX, ..Counts::default() };
    let pair = PairRow { zone: ZoneSerial(u32::MAX), ad: AdSerial(u32::MAX), counts };
    assert_eq!(pairs, [pair]);
}
