//! The log of events.

use std::collections::BTreeSet;
use std::sync::Arc;

use slotwise_server::events::Partition;
use slotwise_server::ports::{EventLog, LogBatch, Position};
use tokio::task::JoinSet;

use crate::Harness;

type Log = Arc<dyn EventLog>;

const P: Partition = Partition(3);
/// More than any test appends.
const ALL_BYTES: usize = 1 << 30;

/// Bytes that no other number has, of various lengths, with every byte in them.
fn batch(number: u64) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend((0..number % 300).map(|n| n.to_le_bytes()[0]));
    bytes
}

async fn append(log: &Log, partition: Partition, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        log.append(vec![(partition, batch(number))]).await.unwrap();
    }
}

/// All of a partition, read in one go; the end is the end.
async fn all(log: &Log, partition: Partition) -> Vec<LogBatch> {
    let mut found: Vec<LogBatch> = Vec::new();
    loop {
        let last = found.last().map_or(Position::default(), |batch| batch.position);
        let more = log.read(partition, last, ALL_BYTES).await.unwrap();
        if more.is_empty() {
            assert!(found.is_sorted_by(|a, b| a.position < b.position), "positions rise");
            assert!(found.is_sorted_by_key(|batch| batch.appended_at_us), "so does the time");
            return found;
        }
        found.extend(more);
    }
}

fn bytes(batches: &[LogBatch]) -> Vec<Vec<u8>> {
    batches.iter().map(|batch| batch.bytes.clone()).collect()
}

fn batches(numbers: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.into_iter().map(batch).collect()
}

pub(crate) async fn batches_come_back_byte_for_byte_in_order(harness: &impl Harness) {
    let log = harness.log().await;
    append(&log, P, 0..400).await;
    log.append(vec![(P, Vec::new())]).await.unwrap();
    let large: Vec<u8> = (0..2_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    log.append(vec![(P, large.clone())]).await.unwrap();
    let mut expected = batches(0..400);
    expected.extend([Vec::new(), large]);
    assert!(bytes(&all(&log, P).await) == expected);
}

pub(crate) async fn an_empty_partition_ends_at_once(harness: &impl Harness) {
    let log = harness.log().await;
    for partition in Partition::all() {
        assert_eq!(log.read(partition, Position::default(), 1_000).await.unwrap(), []);
        let far = Position(u128::MAX);
        assert_eq!(log.read(partition, far, 1_000).await.unwrap(), []);
        assert_eq!(log.trim(partition, far, i64::MAX).await.unwrap(), 0);
    }
}

pub(crate) async fn a_read_goes_on_after_what_was_read(harness: &impl Harness) {
    let log = harness.log().await;
    append(&log, P, 0..10).await;
    let whole = all(&log, P).await;
    for (at, batch) in whole.iter().enumerate() {
        let rest = log.read(P, batch.position, ALL_BYTES).await.unwrap();
        assert_eq!(rest.first(), whole.get(at + 1), "after {at}");
    }
    let end = whole[9].position;
    assert_eq!(log.read(P, end, ALL_BYTES).await.unwrap(), []);
    append(&log, P, 10..11).await;
    assert_eq!(bytes(&log.read(P, end, ALL_BYTES).await.unwrap()), batches(10..11));
}

pub(crate) async fn a_read_stays_within_its_bytes_but_for_one_batch(harness: &impl Harness) {
    let log = harness.log().await;
    append(&log, P, 0..300).await;
    let whole = all(&log, P).await;
    for bytes_max in [0, 1, 8, 100, 1_000, 10_000] {
        let mut found: Vec<LogBatch> = Vec::new();
        loop {
            let last = found.last().map_or(Position::default(), |batch| batch.position);
            let part = log.read(P, last, bytes_max).await.unwrap();
            let size: usize = part.iter().map(|batch| batch.bytes.len()).sum();
            assert!(size <= bytes_max || part.len() == 1, "{size} of {bytes_max}");
            if part.is_empty() {
                break;
            }
            found.extend(part);
        }
        assert!(found == whole, "with {bytes_max} bytes at a time");
    }
}

pub(crate) async fn partitions_know_nothing_of_each_other(harness: &impl Harness) {
    let log = harness.log().await;
    for round in 0..5 {
        let of = |partition: Partition| (partition, batch(round * 100 + u64::from(partition.0)));
        log.append(Partition::all().map(of).collect()).await.unwrap();
    }
    let of = |partition: Partition| batches((0..5).map(|r| r * 100 + u64::from(partition.0)));
    for partition in Partition::all() {
        assert_eq!(bytes(&all(&log, partition).await), of(partition));
    }
    let end = all(&log, P).await[4].position;
    assert_eq!(log.trim(P, end, i64::MAX).await.unwrap(), 5);
    for partition in Partition::all().filter(|partition| *partition != P) {
        assert_eq!(bytes(&all(&log, partition).await), of(partition));
    }
    assert_eq!(all(&log, P).await, []);
}

pub(crate) async fn one_append_may_have_several_batches_of_a_partition(harness: &impl Harness) {
    let log = harness.log().await;
    let mixed = (0_u8..30).map(|n| (Partition(n % 3), batch(n.into()))).collect();
    log.append(mixed).await.unwrap();
    for partition in 0..3 {
        let expected = batches((0..30).filter(|n| n % 3 == u64::from(partition)));
        assert_eq!(bytes(&all(&log, Partition(partition)).await), expected);
    }
    log.append(Vec::new()).await.unwrap();
}

pub(crate) async fn what_was_appended_survives_reopening(harness: &impl Harness) {
    let log = harness.log().await;
    append(&log, P, 0..20).await;
    let before = all(&log, P).await;
    drop(log);
    let log = harness.log().await;
    assert_eq!(all(&log, P).await, before, "positions and times, too");
    append(&log, P, 20..21).await;
    assert_eq!(bytes(&log.read(P, before[19].position, ALL_BYTES).await.unwrap()), batches(20..21));
}

pub(crate) async fn parallel_appends_lose_and_double_nothing(harness: &impl Harness) {
    const CALLERS: u64 = 8;
    const APPENDS: u64 = 25;
    let log = harness.log().await;
    let appending = |caller: u64| {
        let log = Arc::clone(&log);
        async move {
            for n in 0..APPENDS {
                let number = caller * APPENDS + n;
                let parts = [P, Partition(0)].map(|partition| (partition, batch(number)));
                log.append(parts.to_vec()).await.unwrap();
            }
        }
    };
    (0..CALLERS).map(appending).collect::<JoinSet<_>>().join_all().await;
    for partition in [P, Partition(0)] {
        let found = bytes(&all(&log, partition).await);
        let sorted: BTreeSet<_> = found.iter().cloned().collect();
        assert_eq!(sorted, batches(0..CALLERS * APPENDS).into_iter().collect());
        assert_eq!(found.len(), sorted.len());
        for caller in 0..CALLERS {
            let own = batches(caller * APPENDS..(caller + 1) * APPENDS);
            let found: Vec<_> = found.iter().filter(|batch| own.contains(batch)).collect();
            assert_eq!(found, own.iter().collect::<Vec<_>>(), "each caller's in its order");
        }
    }
}

/// A position that was read promises that nothing comes below it any more.
pub(crate) async fn a_reader_misses_nothing_that_is_appended_meanwhile(harness: &impl Harness) {
    const CALLERS: u64 = 4;
    const APPENDS: u64 = 50;
    let log = harness.log().await;
    let appending = |caller: u64| {
        let log = Arc::clone(&log);
        async move { append(&log, P, caller * APPENDS..(caller + 1) * APPENDS).await }
    };
    let appenders: JoinSet<_> = (0..CALLERS).map(appending).collect();
    let mut found: Vec<LogBatch> = Vec::new();
    let reading = async {
        while (found.len() as u64) < CALLERS * APPENDS {
            let last = found.last().map_or(Position::default(), |batch| batch.position);
            found.extend(log.read(P, last, 2_000).await.unwrap());
        }
    };
    tokio::time::timeout(crate::profiles::WAIT * 6, reading).await.expect("all are seen");
    appenders.join_all().await;
    assert!(found == all(&log, P).await);
}

pub(crate) async fn a_trim_drops_what_was_counted_and_is_old(harness: &impl Harness) {
    let log = harness.log().await;
    // The store's clock goes on between some of them.
    let mut number = 0;
    let whole = loop {
        append(&log, P, number..number + 1).await;
        number += 1;
        let whole = all(&log, P).await;
        let times: BTreeSet<_> = whole.iter().map(|batch| batch.appended_at_us).collect();
        if times.len() >= 5 && number >= 20 {
            break whole;
        }
    };
    let last = whole[whole.len() - 1].position;
    let middle = &whole[whole.len() / 2];
    let mut left = whole.clone();
    for (counted, before_us) in [
        // Nothing was counted; nothing is old.
        (Position::default(), i64::MAX),
        (last, whole[0].appended_at_us),
        (last, i64::MIN),
        // The instant decides; then what was counted does.
        (last, whole[4].appended_at_us),
        (middle.position, i64::MAX),
        (middle.position, i64::MAX),
        // Between two positions, and past the last.
        (Position(middle.position.0 + 1), i64::MAX),
        (Position(u128::MAX), i64::MAX),
    ] {
        let drops =
            |batch: &LogBatch| batch.position <= counted && batch.appended_at_us < before_us;
        let expected = left.iter().filter(|batch| drops(batch)).count() as u64;
        let trimmed = log.trim(P, counted, before_us).await.unwrap();
        left.retain(|batch| !drops(batch));
        assert_eq!(trimmed, expected, "{counted:?} {before_us}");
        assert_eq!(all(&log, P).await, left, "{counted:?} {before_us}");
    }
}

pub(crate) async fn a_trim_of_much_drops_all_of_it(harness: &impl Harness) {
    let log = harness.log().await;
    for part in 0..5 {
        let part = (part * 600..(part + 1) * 600).map(|number| (P, batch(number % 7)));
        log.append(part.collect()).await.unwrap();
    }
    let whole = all(&log, P).await;
    assert_eq!(whole.len(), 3_000);
    assert_eq!(log.trim(P, whole[2_950].position, i64::MAX).await.unwrap(), 2_951);
    assert_eq!(all(&log, P).await, whole[2_951..]);
}

pub(crate) async fn no_position_is_given_twice(harness: &impl Harness) {
    let log = harness.log().await;
    append(&log, P, 0..10).await;
    let last = all(&log, P).await[9].position;
    assert_eq!(log.trim(P, last, i64::MAX).await.unwrap(), 10);
    drop(log);
    let log = harness.log().await;
    assert_eq!(all(&log, P).await, []);
    append(&log, P, 10..11).await;
    let next = all(&log, P).await;
    assert!(next[0].position > last);
    assert_eq!(log.read(P, last, ALL_BYTES).await.unwrap(), next, "a reader goes on");
}
