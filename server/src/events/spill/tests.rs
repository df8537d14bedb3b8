use super::*;
use crate::events::Kind;
use crate::events::tests::event;

const BYTES_MAX: u64 = 1 << 20;

/// A frame of three events, unlike those of other numbers.
fn batch(number: u64) -> Vec<Event> {
    (0..3).map(|slot| event(Kind::Click, number, slot)).collect()
}

fn bytes(number: u64) -> Vec<Vec<u8>> {
    vec![batch::encode(&batch(number))]
}

fn open(dir: &tempfile::TempDir) -> Spill {
    Spill::open(dir.path(), BYTES_MAX).unwrap()
}

/// Writes frames, one by one; returns the file and where each of them ends.
async fn write(dir: &tempfile::TempDir, numbers: std::ops::Range<u64>) -> (PathBuf, Vec<usize>) {
    let (spill, path) = (open(dir), dir.path().join(NAME));
    let mut ends = Vec::new();
    for number in numbers {
        spill.write(bytes(number)).await.unwrap();
        ends.push(std::fs::read(&path).unwrap().len());
    }
    (path, ends)
}

/// Reads everything back, and empties the file.
async fn drain(spill: &Spill) -> (Vec<Event>, u64) {
    let (mut events, mut damaged) = (Vec::new(), 0);
    while let Some(portion) = spill.next().await.unwrap() {
        spill.done(&portion).await.unwrap();
        events.extend(portion.events);
        damaged += portion.damaged;
    }
    assert!(spill.is_empty());
    (events, damaged)
}

fn all(numbers: impl IntoIterator<Item = u64>) -> Vec<Event> {
    numbers.into_iter().flat_map(batch).collect()
}

#[tokio::test]
async fn what_is_written_comes_back_in_order_until_it_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = write(&dir, 0..5).await;
    let spill = open(&dir);
    assert!(!spill.is_empty());
    let portion = spill.next().await.unwrap().unwrap();
    assert_eq!((portion.events, portion.damaged), (all(0..5), 0));
    // Nobody said that it is done: it comes again, here and after a restart.
    assert_eq!(spill.next().await.unwrap().unwrap().events, all(0..5));
    drop(spill);
    let spill = open(&dir);
    assert_eq!(drain(&spill).await, (all(0..5), 0));
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    spill.write(bytes(9)).await.unwrap();
    assert_eq!(drain(&spill).await, (all([9]), 0));
}

#[tokio::test]
async fn what_is_written_during_a_replay_comes_after_it() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, 0..2).await;
    let spill = open(&dir);
    let portion = spill.next().await.unwrap().unwrap();
    spill.write(bytes(2)).await.unwrap();
    spill.done(&portion).await.unwrap();
    assert!(!spill.is_empty());
    assert_eq!(drain(&spill).await, (all([2]), 0));
}

#[tokio::test]
async fn a_large_file_comes_back_in_portions() {
    let dir = tempfile::tempdir().unwrap();
    let spill = Spill::open(dir.path(), 8 << 20).unwrap();
    let large = |number| (0..4_000).map(move |slot| event(Kind::Click, number, slot));
    for number in 0..8 {
        let events: Vec<_> = large(number).collect();
        spill.write(vec![batch::encode(&events)]).await.unwrap();
    }
    let first = spill.next().await.unwrap().unwrap();
    assert!(first.events.len() < 8 * 4_000 && first.next >= SPILL_PORTION_BYTES);
    assert_eq!(drain(&spill).await, ((0..8).flat_map(large).collect(), 0));
}

#[tokio::test]
async fn a_torn_last_frame_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ends) = write(&dir, 0..3).await;
    let whole = std::fs::read(&path).unwrap();
    for len in ends[1]..ends[2] {
        // Cut short by a kill; or its place was made, and the rest not written.
        let cut = whole[..len].to_vec();
        let mut hollow = cut.clone();
        hollow.resize(ends[2], 0);
        for torn in [cut, hollow] {
            std::fs::write(&path, torn).unwrap();
            let spill = open(&dir);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), ends[1] as u64, "at {len}");
            spill.write(bytes(7)).await.unwrap();
            assert_eq!(drain(&spill).await, (all([0, 1, 7]), 0), "at {len}");
        }
    }
}

#[tokio::test]
async fn damage_costs_only_the_frame_that_it_is_in() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ends) = write(&dir, 0..4).await;
    let whole = std::fs::read(&path).unwrap();
    for at in ends[0]..ends[1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x20;
        std::fs::write(&path, &damaged).unwrap();
        let spill = open(&dir);
        assert_eq!(drain(&spill).await, (all([0, 2, 3]), 1), "byte {at}");
        // It is kept for somebody to look at, and the next events have a file.
        assert_eq!(std::fs::read(dir.path().join(DAMAGED_NAME)).unwrap(), damaged);
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        spill.write(bytes(8)).await.unwrap();
        assert_eq!(drain(&spill).await, (all([8]), 0));
    }
}

#[tokio::test]
async fn damage_while_it_is_open_ends_too() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ends) = write(&dir, 0..2).await;
    let spill = open(&dir);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0; 4], ends[0] as u64).unwrap();
    assert_eq!(drain(&spill).await, (all([0]), 1));
}

#[tokio::test]
async fn beyond_its_bound_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ends) = write(&dir, 1..2).await;
    let spill = Spill::open(dir.path(), 2 * ends[0] as u64).unwrap();
    // Two do not fit beside the first: none of them is taken.
    let two = vec![bytes(2).remove(0), bytes(3).remove(0)];
    let error = spill.write(two).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), ends[0] as u64);
    spill.write(bytes(4)).await.unwrap();
    assert_eq!(drain(&spill).await, (all([1, 4]), 0));
    spill.write(bytes(5)).await.unwrap();
}

/// The system's own full disk.
#[tokio::test]
async fn a_full_disk_is_told() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", dir.path().join(NAME)).unwrap();
    let spill = open(&dir);
    let error = spill.write(bytes(0)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
    assert!(spill.is_empty());
}

#[tokio::test]
async fn nothing_is_written_to_a_file_that_was_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let (spill, path) = (open(&dir), dir.path().join(NAME));
    spill.write(bytes(0)).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(spill.write(bytes(1)).await.is_err());
    std::fs::write(&path, b"").unwrap();
    assert!(spill.write(bytes(1)).await.is_err(), "it is another file");
    // What waits is read all the same; then there is no need of the old one any more.
    assert_eq!(drain(&spill).await, (all([0]), 0));
    spill.write(bytes(1)).await.unwrap();
    drop(spill);
    assert_eq!(drain(&open(&dir)).await, (all([1]), 0));
}
