//! Whole servers that are killed, stopped, frozen and cut off from their stores while clicks,
//! impressions and conversions come in at their real doors: what the reports say in the end is
//! what an independent sender has written down.
//!
//! Rounds by SLOTWISE_TEST_ROUNDS (default: 3 of each kind). Each round prints its seed;
//! SLOTWISE_TEST_SEED makes the same plan again, as the seed of the first round.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

#[allow(dead_code)]
#[path = "process/catalogue.rs"]
mod catalogue;
#[allow(dead_code)]
#[path = "process/child.rs"]
mod child;
#[path = "support/postgres.rs"]
mod postgres_server;
#[path = "support/redis.rs"]
mod redis_server;

#[path = "ledger_kills/book.rs"]
mod book;
#[path = "ledger_kills/full_disk.rs"]
mod full_disk;
#[path = "ledger_kills/lines.rs"]
mod lines;
#[path = "ledger_kills/one_node.rs"]
mod one_node;
#[path = "ledger_kills/random.rs"]
mod random;
#[path = "ledger_kills/replays.rs"]
mod replays;
#[path = "ledger_kills/reports.rs"]
mod reports;
#[path = "ledger_kills/round.rs"]
mod round;
#[path = "ledger_kills/sender.rs"]
mod sender;
#[path = "ledger_kills/stand.rs"]
mod stand;
#[path = "ledger_kills/two_nodes.rs"]
mod two_nodes;
#[path = "ledger_kills/world.rs"]
mod world;

use round::Outcome;

const ROUNDS: u64 = 3;

/// Plays the rounds, and says what they came to.
fn play(name: &str, mut round: impl FnMut(u64, u64) -> Outcome) {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let rounds = number("SLOTWISE_TEST_ROUNDS").unwrap_or(ROUNDS);
    let mut random = [0; 8];
    getrandom::fill(&mut random).unwrap();
    let first = number("SLOTWISE_TEST_SEED").unwrap_or(u64::from_le_bytes(random) >> 1);
    let mut all = Outcome::default();
    for at in 0..rounds {
        let seed = first.wrapping_add(at);
        eprintln!("{name}: round {at}, SLOTWISE_TEST_SEED={seed}");
        let outcome = round(at, seed);
        eprintln!("{name}: {outcome:?}");
        all = all.plus(outcome);
    }
    eprintln!("{name}: {rounds} rounds: {all:?}");
    assert!(all.kills > 0 && all.tally.repeated > 0, "nothing was killed or repeated");
}
