//! What is on the disk: what a forget leaves there, older and newer formats, and a disk that
//! fails.

use std::path::Path;

use rusqlite::Connection;
use slotwise_core::model::{AdSerial, CampaignSerial, Exposure, Segment, ZoneSerial};

use super::batch::{KEY_BYTES, key_bytes};
use super::*;
use crate::limits::PROFILE_PENDING_MAX;
use crate::testing::ManualClock;

const NOW_US: i64 = 1_796_040_000_000_000;
const WAIT: Duration = Duration::from_secs(10);

/// A journal whose thread is the test's own.
struct Disk {
    dir: tempfile::TempDir,
    state: Arc<State>,
    journal: Journal,
}

impl Disk {
    fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    fn at(dir: tempfile::TempDir) -> Self {
        let database = Database::open(&dir.path().join("profiles.sqlite"), &MIGRATIONS).unwrap();
        database
            .write_blocking(|writer| {
                writer.pragma_update(None, "secure_delete", true).map_err(failed)
            })
            .unwrap();
        let state = Arc::new(State::new(ManualClock::new(NOW_US)));
        let journal = Journal::open(database, Arc::clone(&state)).unwrap();
        Self { dir, state, journal }
    }

    fn reopened(self) -> Self {
        let Self { dir, journal, .. } = self;
        drop(journal);
        Self::at(dir)
    }

    fn show(&self, visitor: VisitorKey, decision: u64) {
        let mut admission = |profile: &mut Profile| {
            profile.record(&"x".into(), exposure(decision), NOW_US).unwrap();
        };
        self.state.admit(visitor, &mut admission).unwrap();
    }

    fn write(&mut self) {
        self.journal.write_pending().unwrap();
    }

    fn command<T>(&mut self, command: impl FnOnce(Done<T>) -> Command) -> Result<T, StoreError> {
        let (done, mut answer) = oneshot::channel();
        let (commands, mut waiting) = mpsc::channel(1);
        commands.try_send(command(done)).unwrap();
        self.journal.serve(&mut waiting);
        answer.try_recv().unwrap()
    }

    fn forget(&mut self, visitor: u128, account: Option<u32>) -> Result<Forgotten, StoreError> {
        let forget = Forget { visitor, account: account.map(AccountSerial), now_us: NOW_US };
        self.command(|done| Command::Forget(forget, done))
    }

    fn add_segment(&mut self, visitor: VisitorKey, name: &str) -> Result<Profile, StoreError> {
        let segment = Segment { name: name.to_owned(), expires_us: NOW_US + 1 };
        let change = SegmentsChange { add: vec![segment], remove: Vec::new() };
        let ask = ReSegment { visitor, now_us: NOW_US, change };
        self.command(|done| Command::Segments(ask, done))
    }

    fn decisions(&self, visitor: VisitorKey) -> Vec<u64> {
        let profile = self.state.copy(visitor).unwrap_or_default();
        profile.list(&"x".into()).iter().map(|shown| shown.decision).collect()
    }

    /// Whether any file holds the visitor.
    fn names(&self, visitor: VisitorKey) -> bool {
        files_hold(self.dir.path(), &key_bytes(visitor))
    }

    /// Runs `sql` with the key of `visitor` behind `head` as its blob, leaving deleted bytes be.
    fn write_by_hand(&self, sql: &str, head: &[u8], visitor: VisitorKey) {
        let by_hand = Connection::open(self.dir.path().join("profiles.sqlite")).unwrap();
        by_hand.pragma_update(None, "secure_delete", false).unwrap();
        let body = [head, &key_bytes(visitor)].concat();
        by_hand.execute(sql, [body]).unwrap();
    }
}

fn files_hold(dir: &Path, needle: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(needle.len()).any(|part| part == needle)
    })
}

fn visitor(account: u32, n: u64) -> VisitorKey {
    // No byte of it is a common one.
    let visitor = u128::from_le_bytes([0x9d; 16]) ^ u128::from(n);
    VisitorKey { account: AccountSerial(account), visitor }
}

fn exposure(decision: u64) -> Exposure {
    Exposure {
        at_us: NOW_US,
        life_us: 3_600_000_000,
        is_held: false,
        decision,
        zone: ZoneSerial(1),
        campaign: CampaignSerial(2),
        ad: AdSerial(3),
    }
}

/// Ten visitors in two accounts: in folded parts, in old and new batches, and still pending.
fn ten_visitors(disk: &mut Disk) {
    for round in 0..6 {
        for n in 0..10 {
            disk.show(visitor(1, n), 2 * round);
            disk.show(visitor(2, n), 2 * round + 1);
            if round % 3 == 0 {
                disk.add_segment(visitor(1, n), &format!("round/{round}")).unwrap();
            }
            // Batches of every kind: of a few entries, and larger than a page.
            if n % 3 == 0 || round == 4 {
                disk.write();
            }
        }
        match round {
            1 => disk.journal.fold().unwrap(),
            5 => {}
            _ => disk.write(),
        }
    }
}

#[test]
fn a_forgotten_visitor_is_in_no_file_and_the_others_are_whole() {
    let mut disk = Disk::new();
    ten_visitors(&mut disk);
    assert!(disk.names(visitor(1, 3)) && disk.names(visitor(2, 3)));

    let forgotten = disk.forget(visitor(1, 3).visitor, None).unwrap();
    assert_eq!(forgotten, Forgotten { held_something: true, number: 1 });
    let one = disk.forget(visitor(2, 4).visitor, Some(2)).unwrap();
    assert_eq!(one, Forgotten { held_something: true, number: 2 });
    assert!(!files_hold(disk.dir.path(), &visitor(1, 3).visitor.to_le_bytes()), "the hash alone");
    assert!(!disk.names(visitor(2, 4)) && disk.names(visitor(1, 4)));

    for is_reopened in [false, true] {
        if is_reopened {
            disk.write();
            disk = disk.reopened();
        }
        for n in 0..10 {
            let is_gone = |account: u32| n == 3 || (account == 2 && n == 4);
            for account in [1, 2] {
                let odd = u64::from(account == 2);
                let all = if is_gone(account) { vec![] } else { vec![0, 2, 4, 6, 8, 10] };
                let all: Vec<_> = all.into_iter().map(|decision| decision + odd).collect();
                assert_eq!(disk.decisions(visitor(account, n)), all, "{account}, {n}");
            }
            let segments = disk.state.copy(visitor(1, n)).unwrap_or_default();
            let segments: Vec<_> = segments.segments().iter().map(|s| s.name.as_str()).collect();
            let all: &[&str] = if is_gone(1) { &[] } else { &["round/0", "round/3"] };
            assert_eq!(segments, all);
        }
    }
    let again = disk.forget(visitor(1, 3).visitor, None).unwrap();
    assert!(!again.held_something, "{again:?}");
    disk.journal.fold().unwrap();
    assert!(!disk.names(visitor(1, 3)) && !disk.names(visitor(2, 3)));
}

#[test]
fn many_are_forgotten_at_once_and_each_is_told_of_its_own() {
    let mut disk = Disk::new();
    ten_visitors(&mut disk);
    let (commands, mut waiting) = mpsc::channel(64);
    let ask = |n: u64| {
        let (done, answer) = oneshot::channel();
        let forget = Forget { visitor: visitor(1, n).visitor, account: None, now_us: NOW_US };
        commands.try_send(Command::Forget(forget, done)).unwrap();
        answer
    };
    let answers: Vec<_> = (5..15).map(ask).collect();
    disk.journal.serve(&mut waiting);
    for (n, mut answer) in (5..15).zip(answers) {
        let forgotten = answer.try_recv().unwrap().unwrap();
        assert_eq!(forgotten, Forgotten { held_something: n < 10, number: n - 4 });
        assert!(!disk.names(visitor(1, n)));
    }
    assert_eq!(*disk.state.forgets.borrow(), 10);
    assert_eq!(disk.decisions(visitor(1, 4)).len(), 6);
}

/// On disk only, as after a forget that failed half way.
#[test]
fn what_only_the_disk_holds_is_something_held() {
    let mut disk = Disk::new();
    disk.show(visitor(1, 0), 1);
    disk.write();
    disk.state.visitors.shards().for_each(|mut shard| shard.clear());
    assert!(disk.forget(visitor(1, 0).visitor, Some(2)).unwrap().number == 1);
    assert!(disk.names(visitor(1, 0)), "another account's");
    assert!(disk.forget(visitor(1, 0).visitor, Some(1)).unwrap().held_something);
    assert!(!disk.names(visitor(1, 0)));
}

#[test]
fn bytes_that_sqlite_left_in_the_file_go_too() {
    let mut disk = Disk::new();
    disk.show(visitor(1, 1), 1);
    disk.write();
    let sql = "INSERT INTO journal (batch, body) VALUES (1000, ?1)";
    disk.write_by_hand(sql, &[2], visitor(1, 0));
    disk.write_by_hand("DELETE FROM journal WHERE batch = 1000 AND body = ?1", &[2], visitor(1, 0));
    disk.forget(visitor(1, 9).visitor, None).unwrap();
    assert!(disk.names(visitor(1, 0)), "in what is free");
    disk.forget(visitor(1, 0).visitor, None).unwrap();
    assert!(!disk.names(visitor(1, 0)));
    assert_eq!(disk.reopened().decisions(visitor(1, 1)), [1]);
}

#[test]
fn a_damaged_batch_goes_with_the_visitor_whom_it_names() {
    let mut disk = Disk::new();
    let sql = "INSERT INTO journal (body) VALUES (?1)";
    disk.write_by_hand(sql, &[2, 9, 9], visitor(1, 0));
    disk.write_by_hand(sql, &[2, 9, 9], visitor(1, 1));
    disk.forget(visitor(1, 0).visitor, None).unwrap();
    assert!(!disk.names(visitor(1, 0)), "nobody can read it, but it is there");
    disk.forget(visitor(1, 1).visitor, Some(2)).unwrap();
    assert!(disk.names(visitor(1, 1)), "the other stays for whoever looks into it");
}

#[test]
fn what_is_shown_after_a_forget_is_kept_and_what_was_shown_before_is_not() {
    let mut disk = Disk::new();
    disk.forget(visitor(1, 0).visitor, None).unwrap();
    let mut late = |profile: &mut Profile| {
        for (at_us, decision) in [(NOW_US - 1, 1), (NOW_US, 2), (NOW_US + 1, 3)] {
            let shown = Exposure { at_us, ..exposure(decision) };
            profile.record(&"x".into(), shown, NOW_US).unwrap();
        }
    };
    disk.state.admit(visitor(1, 0), &mut late).unwrap();
    assert_eq!(disk.decisions(visitor(1, 0)), [3]);
    disk.show(visitor(1, 0), 4);
    assert_eq!(disk.decisions(visitor(1, 0)), [3]);
    disk.write();
    assert_eq!(disk.reopened().decisions(visitor(1, 0)), [3]);
}

/// As an older slotwise left it, some of it in pages that are free.
#[test]
fn a_file_of_format_1_is_read_and_brought_to_format_2() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("profiles.sqlite");
    {
        let old = Connection::open(&path).unwrap();
        old.execute_batch(MIGRATIONS[0]).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        let entry = |n: u64, decision: u64| {
            let mut entry = key_bytes(visitor(1, n)).to_vec();
            for number in [NOW_US, 3_600_000_000, i64::try_from(decision).unwrap()] {
                entry.extend(number.to_le_bytes());
            }
            entry.extend([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, b'x']);
            entry
        };
        let insert = |table: &str, entries: &[Vec<u8>]| {
            let body = [vec![1], entries.concat()].concat();
            let columns = if table == "profiles" { "generation, body" } else { "batch, body" };
            let sql = format!(
                "INSERT INTO {table} ({columns})
                    VALUES ((SELECT coalesce(max(rowid), 0) + 1 FROM {table}), ?1)"
            );
            old.execute(&sql, [body]).unwrap();
        };
        old.pragma_update(None, "secure_delete", false).unwrap();
        insert("journal", &(0..500).map(|n| entry(7, n)).collect::<Vec<_>>());
        old.execute("DELETE FROM journal", []).unwrap();
        insert("profiles", &[entry(0, 1), entry(1, 2)]);
        insert("journal", &[entry(0, 3)]);
    }
    assert!(files_hold(dir.path(), &key_bytes(visitor(1, 7))), "deleted, and still there");
    let mut disk = Disk::at(dir);
    assert!(!disk.names(visitor(1, 7)));
    assert_eq!(disk.decisions(visitor(1, 0)), [1, 3]);
    assert_eq!(disk.decisions(visitor(1, 1)), [2]);
    disk.forget(visitor(1, 0).visitor, None).unwrap();
    assert!(!disk.names(visitor(1, 0)));
    let disk = disk.reopened();
    assert_eq!(disk.decisions(visitor(1, 0)), [0; 0]);
    assert_eq!(disk.decisions(visitor(1, 1)), [2]);
    let by_hand = Connection::open(path).unwrap();
    let formats = "SELECT min(hex(substr(body, 1, 1))) || max(hex(substr(body, 1, 1))) FROM
        (SELECT body FROM journal UNION ALL SELECT body FROM profiles)";
    let formats: String = by_hand.query_row(formats, [], |row| row.get(0)).unwrap();
    assert_eq!(formats, "0202");
}

#[test]
fn a_newer_format_is_refused_with_what_to_do_about_it() {
    let disk = Disk::new();
    disk.write_by_hand("INSERT INTO journal (body) VALUES (?1)", &[3], visitor(1, 0));
    let Disk { dir, journal, .. } = disk;
    drop(journal);
    let Err(error) = EmbeddedProfiles::open(dir.path(), ManualClock::new(NOW_US)) else {
        panic!("opened")
    };
    let said = error.to_string();
    assert!(said.contains("newer slotwise (format 3; this one knows 2)"), "{said}");
    assert!(files_hold(dir.path(), &[&[3], &key_bytes(visitor(1, 0))[..]].concat()), "untouched");
}

#[test]
fn a_disk_that_fails_changes_no_segment_and_forgets_nobody_half() {
    let mut disk = Disk::new();
    disk.add_segment(visitor(1, 0), "a/1").unwrap();
    disk.show(visitor(1, 0), 1);
    disk.write();
    let (path, aside) =
        (disk.dir.path().join("profiles.sqlite"), disk.dir.path().join("profiles.aside"));
    std::fs::rename(&path, &aside).unwrap();
    let segments = |disk: &Disk| disk.state.copy(visitor(1, 0)).unwrap().segments().len();
    assert!(matches!(disk.add_segment(visitor(1, 0), "b/2"), Err(StoreError::Unavailable(_))));
    assert_eq!(segments(&disk), 1, "what was refused has not happened");
    assert!(matches!(disk.forget(visitor(1, 0).visitor, None), Err(StoreError::Unavailable(_))));
    assert_eq!(*disk.state.forgets.borrow(), 0, "nobody may believe that it is done");
    disk.show(visitor(1, 1), 1);
    disk.show(visitor(1, 2), 1);
    assert!(disk.forget(visitor(1, 1).visitor, None).is_err());

    std::fs::rename(&aside, &path).unwrap();
    disk.write();
    assert!(!disk.names(visitor(1, 1)), "what was forgotten waits for no disk");
    assert!(disk.names(visitor(1, 2)));
    assert!(disk.forget(visitor(1, 0).visitor, None).unwrap().held_something);
    assert!(!files_hold(disk.dir.path(), &key_bytes(visitor(1, 0))[KEY_BYTES - 16..]));
    disk.add_segment(visitor(1, 0), "b/2").unwrap();
    assert_eq!(segments(&disk.reopened()), 1);
}

/// In a shard of its own, unlike those of [`visitor`].
fn apart(n: u16) -> VisitorKey {
    VisitorKey { account: AccountSerial(1), visitor: u128::from(n) << 113 | u128::from(n) }
}

/// Wherever a fold is cut off, and whatever happens between its steps, a start finds what was known.
#[test]
fn a_fold_in_steps_loses_nothing_of_what_happens_between_them() {
    const VISITORS: u16 = 60;
    const STEP_BYTES: usize = 150;
    let held = |decision| Exposure { is_held: true, ..exposure(decision) };
    let record = |disk: &Disk, n, shown| {
        let mut admission = |profile: &mut Profile| {
            profile.record(&"x".into(), shown, NOW_US).unwrap();
        };
        disk.state.admit(apart(n), &mut admission).unwrap();
    };
    let (mut cut, mut is_done) = (0, false);
    while !is_done {
        let mut disk = Disk::new();
        for n in 0..VISITORS {
            record(&disk, n, exposure(1));
            record(&disk, n, held(2));
            if n % 8 == 0 {
                disk.add_segment(apart(n), "a/1").unwrap();
                disk.write();
            }
        }
        disk.journal.fold().unwrap();
        disk.write();
        for step in 0..cut {
            let n = u16::try_from(step * 7 % usize::from(VISITORS)).unwrap();
            match step % 5 {
                0 => record(&disk, n, Exposure { at_us: NOW_US + 1, ..exposure(3) }),
                1 => disk.state.release(apart(n), &"x".into(), held(2)),
                2 => drop(disk.add_segment(apart(n), "b/2").unwrap()),
                3 => drop(disk.forget(apart(n).visitor, None).unwrap()),
                _ => disk.write(),
            }
            is_done = disk.journal.fold_step(STEP_BYTES).unwrap();
            if is_done {
                break;
            }
        }
        disk.write();
        let known =
            |disk: &Disk| (0..VISITORS).map(|n| disk.state.copy(apart(n))).collect::<Vec<_>>();
        let before = known(&disk);
        disk = disk.reopened();
        assert_eq!(known(&disk), before, "cut off after {cut} steps");
        disk.journal.fold().unwrap();
        assert_eq!(known(&disk.reopened()), before, "and folded anew after {cut} steps");
        cut += if cut < 3 { 1 } else { 9 };
    }
    assert!(cut > 40, "the steps were too large to be cut between them: {cut}");
}

/// As an older slotwise folded it: parts of any visitors, numbered from 1.
#[test]
fn parts_of_before_give_way_to_a_row_for_each_shard() {
    let disk = Disk::new();
    let by_hand = |sql: &str| {
        let by_hand = Connection::open(disk.dir.path().join("profiles.sqlite")).unwrap();
        let mut part = super::batch::Batch::new();
        part.add_exposure(apart(1), &"x".into(), &exposure(1));
        part.add_segments(apart(1), &[Segment { name: "a/1".to_owned(), expires_us: NOW_US + 1 }]);
        by_hand.execute(sql, [part.bytes()]).unwrap();
    };
    by_hand("INSERT INTO profiles (part, generation, body) VALUES (1, 7, ?1)");
    let mut disk = disk.reopened();
    disk.add_segment(apart(1), "b/2").unwrap();
    disk.journal.fold().unwrap();
    // A crash just before they went would have left them.
    let left = Connection::open(disk.dir.path().join("profiles.sqlite")).unwrap();
    let count = "SELECT count(*) FROM profiles WHERE part >= 0";
    assert_eq!(left.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    let mut part = super::batch::Batch::new();
    part.add_segments(apart(1), &[Segment { name: "a/1".to_owned(), expires_us: NOW_US + 1 }]);
    let sql = "INSERT INTO profiles (part, generation, body) VALUES (1, 7, ?1)";
    left.execute(sql, [part.bytes()]).unwrap();
    drop(left);
    let disk = disk.reopened();
    let profile = disk.state.copy(apart(1)).unwrap();
    assert_eq!(profile.list(&"x".into()), [exposure(1)]);
    let segments: Vec<_> = profile.segments().iter().map(|s| s.name.as_str()).collect();
    assert_eq!(segments, ["a/1", "b/2"], "the newer word holds");
}

#[test]
fn where_the_disk_does_not_follow_there_is_a_bound_and_it_opens_again() {
    let mut disk = Disk::new();
    let mut decision = 0;
    let mut show = |disk: &Disk, visitor| {
        decision += 1;
        let shown = exposure(decision);
        // One visitor has no room for so many: the same list is given up each time.
        let mut admission = |profile: &mut Profile| {
            *profile = Profile::default();
            profile.record(&"x".into(), shown, NOW_US).unwrap();
        };
        disk.state.admit(visitor, &mut admission)
    };
    for told in 0..PROFILE_PENDING_MAX {
        assert!(show(&disk, apart(0)).is_ok(), "one visitor may have all of it: {told}");
    }
    assert!(matches!(show(&disk, apart(0)), Err(StoreError::Full(_))));
    let mut others = 0;
    while show(&disk, apart(1)).is_ok() {
        others += 1;
        assert!(others < PROFILE_PENDING_MAX, "there is no bound");
    }
    assert!(others > 0, "they have their share");
    disk.write();
    assert!([0, 1].into_iter().all(|n| show(&disk, apart(n)).is_ok()));
}

/// Whatever order they come in, a start finds what was known before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_forget_between_admits_leaves_memory_and_disk_at_one() {
    let dir = tempfile::tempdir().unwrap();
    let open = || EmbeddedProfiles::open(dir.path(), ManualClock::new(NOW_US)).unwrap();
    let store = Arc::new(open());
    let show = |store: Arc<EmbeddedProfiles>, from: u64| async move {
        for decision in from..from + 500 {
            // After every forget's instant: each is of another visit, and stays unless a forget
            // found it.
            let shown = Exposure { at_us: NOW_US + 1, ..exposure(decision) };
            let mut admission = |profile: &mut Profile| {
                let advertiser = (decision % 50).to_string().as_str().into();
                profile.record(&advertiser, shown, NOW_US).unwrap();
            };
            store.admit(visitor(1, 0), NOW_US, WAIT, &mut admission).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let shows: tokio::task::JoinSet<_> =
        (0..4).map(|task| show(Arc::clone(&store), task * 500)).collect();
    for number in 1..=20 {
        let forgotten = store.forget(visitor(1, 0).visitor, None, NOW_US).await.unwrap();
        assert_eq!(forgotten.number, number);
    }
    shows.join_all().await;
    let before = store.read(visitor(1, 0), NOW_US, WAIT).await.unwrap().profile;
    drop(store);
    let after = open().read(visitor(1, 0), NOW_US, WAIT).await.unwrap().profile;
    let all = |profile: &Profile| {
        let mut all: Vec<_> = profile
            .lists()
            .flat_map(|(advertiser, list)| {
                list.iter().map(move |shown| (advertiser.to_string(), shown.decision))
            })
            .collect();
        all.sort();
        all
    };
    assert_eq!(all(&after), all(&before));
}
