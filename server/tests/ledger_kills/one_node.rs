//! One node on the embedded store.

use crate::play;
use crate::random::Random;
use crate::round::Round;
use crate::stand::Fate;

/// Processes of a round, before the last.
const LIVES: u64 = 3;
/// Acknowledgements of a life that ends by our hand, at most.
const LIFE: u64 = 400;

/// Every step of the group commit, of the spill file, and of the counting transaction, each with
/// what makes the process come there.
const STEPS: [(&str, &str); 12] = [
    ("events-before-append", ""),
    ("log-in-transaction", ""),
    ("events-after-append", ""),
    // The log refuses everything: all goes to the disk.
    ("spill-half-written", "log-append=return"),
    ("events-after-spill", "log-append=return"),
    // It comes back: what was spilled goes there, and then the file is emptied.
    ("spill-before-empty", "log-append=9*return->off"),
    ("events-before-append", "log-append=30%return"),
    ("count.before-ids", ""),
    ("count.after-ids", ""),
    ("count.after-sums", "log-append=10%return"),
    ("count.before-commit", ""),
    ("count.after-commit", ""),
];

/// What goes wrong in a life that ends by our hand.
const MOODS: [&str; 10] = [
    // What is acknowledged too early is killed before it is safe.
    "events-before-append=sleep(40)",
    "events-after-append=sleep(40);count.before-commit=sleep(40)",
    "log-append=return;events-after-spill=sleep(40)",
    "log-append=20%return",
    // A log that takes it, and too late.
    "log-append=9*off->1*sleep(2500)->off",
    "log-in-transaction=5%panic",
    "count.after-commit=30%return",
    "count.after-ids=5%panic",
    "count.before-commit=5%panic;log-append=5%return",
    "count.before-ids=5*off->1*sleep(1000)->off",
];

pub fn fate(random: &mut Random, (step, mood): (&'static str, &'static str)) -> Fate {
    // It is emptied once in a while.
    let hit = if step == "spill-before-empty" { 1 } else { 1 + random.below(30) };
    Fate { step, hit, freezes: false, mood }
}

#[test]
fn what_was_sent_is_counted_once_by_one_node() {
    play("one node", |_, seed| {
        let mut round = Round::begin(vec![Vec::new()], &MOODS, seed);
        round.goes_on(LIFE);
        round.nodes[0].kill();
        for _ in 0..LIVES {
            live(&mut round);
        }
        round.nodes[0].start(None);
        round.goes_on(LIFE);
        round.outcome.kills += 1;
        round.end()
    });
}

fn live(round: &mut Round) {
    let is_fated = !round.random.one_in(3);
    if is_fated {
        let at = round.random.pick(&STEPS);
        let fate = fate(&mut round.random, at);
        round.nodes[0].start(Some(fate));
        round.outcome.kills += 1;
        round.outcome.at_a_step += u64::from(round.nodes[0].meets_its_fate());
        return;
    }
    let mood = round.random.pick(&MOODS);
    round.nodes[0].start_in(mood);
    round.goes_on(LIFE);
    if round.random.one_in(3) {
        round.nodes[0].stop();
    } else {
        round.nodes[0].kill();
        round.outcome.kills += 1;
    }
}
