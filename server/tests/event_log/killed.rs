//! Killed at every step of the group commit and of the spill file.

use std::collections::BTreeSet;
use std::sync::Arc;

use slotwise_server::telemetry::{Counters, Metric};

use crate::child::{Life, live};
use crate::{SPILL, check, embedded, recorder, settled};

/// Lives on one directory, one after another.
const LIVES: u64 = 3;
/// Far more than a life gets to.
const EVENTS: u64 = 1_000_000;

/// Where a process dies, and what its log does meanwhile.
const DEATHS: [(&str, &str); 7] = [
    ("events-before-append", "off"),
    ("log-in-transaction", "off"),
    ("events-after-append", "off"),
    // The log refuses everything: all goes to the disk.
    ("spill-half-written", "return"),
    ("events-after-spill", "return"),
    // It comes back after some appends: what was spilled goes there, and then the file is emptied.
    ("spill-before-empty", "9*return->off"),
    // Anywhere among these.
    ("events-before-append", "30%return"),
];

fn rounds() -> u64 {
    std::env::var("SLOTWISE_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10)
}

fn random(below: u64) -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    u64::from_le_bytes(bytes) % below
}

#[tokio::test]
async fn what_was_acknowledged_survives_every_kill() {
    for round in 0..rounds() {
        let dir = tempfile::tempdir().unwrap();
        let (mut acknowledged, mut lives) = (BTreeSet::new(), Vec::new());
        for number in 0..LIVES {
            let at = (round * LIVES + number) % DEATHS.len() as u64;
            let (point, log) = DEATHS[usize::try_from(at).unwrap()];
            // It is emptied once.
            let time = if point == "spill-before-empty" { 1 } else { 1 + random(25) };
            let death = Some((point, time));
            let life = Life { first: number * EVENTS, events: EVENTS, at_once: 1, death, log };
            let ended = live(dir.path(), &life, "");
            assert!(ended.was_killed(), "{life:?}: {}", ended.status);
            acknowledged.extend(ended.acknowledged);
            lives.push(life);
        }
        eprintln!("round {round}: {} events, {lives:?}", acknowledged.len());
        let (log, counters) = (embedded(dir.path()), Arc::<Counters>::default());
        let recorder = recorder(dir.path(), Arc::clone(&log), &counters);
        settled(&recorder).await;
        drop(recorder);
        assert_eq!(std::fs::metadata(dir.path().join(SPILL)).unwrap().len(), 0);
        // A frame that was not written whole is no damage: nobody was told of it.
        assert_eq!(counters.get(Metric::SpillFramesDamaged), 0);
        check(&*log, &acknowledged).await;
    }
}
