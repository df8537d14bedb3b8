//! Two nodes on Redis and PostgreSQL, both of which are killed as well.

use crate::one_node::fate;
use crate::play;
use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;
use crate::round::Round;
use crate::stand::{Fate, until};

const NAMES: [&str; 2] = ["a", "b"];
/// What happens in a round.
const BLOWS: u64 = 3;
/// Acknowledgements between two of them, at most.
const BETWEEN: u64 = 300;

#[derive(Clone, Copy, Debug)]
enum Blow {
    KilledNode,
    KilledBoth,
    StoppedNode,
    /// At a step of the group commit, or of counting.
    DeadAtStep,
    KilledRedis,
    /// Redis is away, and a node dies at a step of its spill file.
    DeadWhileSpilling,
    KilledPostgres,
    /// A node stands still until the other has all of its partitions, and wakes up.
    Frozen,
    /// The same in the middle of a transaction.
    FrozenAtStep,
}

/// Each comes first in some round; those behind it are of the quick ones.
const FIRST: [Blow; 9] = [
    Blow::KilledRedis,
    Blow::Frozen,
    Blow::KilledPostgres,
    Blow::DeadWhileSpilling,
    Blow::DeadAtStep,
    Blow::FrozenAtStep,
    Blow::KilledNode,
    Blow::KilledBoth,
    Blow::StoppedNode,
];
const QUICK: [Blow; 8] = [
    Blow::KilledNode,
    Blow::KilledBoth,
    Blow::StoppedNode,
    Blow::DeadAtStep,
    Blow::DeadAtStep,
    Blow::KilledRedis,
    Blow::DeadWhileSpilling,
    Blow::KilledPostgres,
];

const STEPS: [(&str, &str); 8] = [
    ("events-before-append", ""),
    ("events-after-append", ""),
    ("count.before-ids", ""),
    ("count.after-ids", "count.before-commit=5%panic"),
    ("count.after-sums", ""),
    ("count.before-commit", "count.after-commit=20%return"),
    ("count.after-commit", ""),
    ("count.after-commit", "count.after-ids=5%panic"),
];
/// What is acknowledged or counted too early is killed before it is safe.
const MOODS: [&str; 5] = [
    "",
    "events-before-append=sleep(40)",
    "events-before-append=sleep(80);count.after-sums=sleep(20)",
    "events-after-append=sleep(40);events-after-spill=sleep(40)",
    "count.after-ids=sleep(20);count.before-commit=sleep(20)",
];
const SPILLING: [&str; 3] = ["spill-half-written", "events-after-spill", "events-before-append"];
const FREEZING: [&str; 3] = ["count.before-ids", "count.before-commit", "count.after-commit"];

/// Both stores.
struct Stores {
    redis: RedisServer,
    postgres: PostgresServer,
    database: String,
}

#[test]
fn what_was_sent_is_counted_once_by_two_nodes() {
    let (redis, postgres) = (RedisServer::start_durable(), PostgresServer::start());
    let mut stores = Stores { redis, postgres, database: String::new() };
    play("two nodes", |at, seed| {
        let counts = stores.postgres.database();
        stores.database = counts.rsplit_once('/').unwrap().1.to_owned();
        // What an earlier round left is of no use.
        stores.redis.run::<()>(&["FLUSHALL"]);
        let of_node = |name: &str| {
            let [store, counts] = [stores.redis.url(), counts.clone()];
            [["--node-id", name], ["--store", &store], ["--counts", &counts]]
                .concat()
                .into_iter()
                .map(str::to_owned)
                .collect()
        };
        let mut round = Round::begin(NAMES.map(of_node).into(), &MOODS, seed);
        for blow in 0..BLOWS {
            round.goes_on(BETWEEN);
            let first = FIRST[usize::try_from(at).unwrap() % FIRST.len()];
            let blow = if blow == 0 { first } else { round.random.pick(&QUICK) };
            eprintln!("two nodes: {blow:?}");
            stores.strike(blow, &mut round);
        }
        round.goes_on(BETWEEN);
        round.end()
    });
}

impl Stores {
    /// All runs again when it returns.
    fn strike(&mut self, blow: Blow, round: &mut Round) {
        let at = round.random.place(NAMES.len());
        match blow {
            Blow::KilledNode => {
                round.nodes[at].kill();
                round.outcome.kills += 1;
                // The other one goes on.
                round.goes_on(BETWEEN);
                again(round, at);
            }
            Blow::KilledBoth => {
                round.nodes.iter_mut().for_each(|node| node.kill());
                round.outcome.kills += 2;
                for at in 0..NAMES.len() {
                    again(round, at);
                }
            }
            Blow::StoppedNode => {
                round.nodes[at].stop();
                round.goes_on(BETWEEN);
                again(round, at);
            }
            Blow::DeadAtStep => {
                let step = round.random.pick(&STEPS);
                let fate = fate(&mut round.random, step);
                round.nodes[at].kill();
                round.nodes[at].start(Some(fate));
                round.outcome.kills += 2;
                round.outcome.at_a_step += u64::from(round.nodes[at].meets_its_fate());
                again(round, at);
            }
            Blow::KilledRedis => {
                self.redis.kill();
                round.rests(2_500);
                self.redis.restart();
                round.outcome.stores_killed += 1;
            }
            Blow::DeadWhileSpilling => self.dies_while_spilling(at, round),
            Blow::KilledPostgres => {
                self.postgres.kill();
                round.rests(1_500);
                self.postgres.restart();
                round.outcome.stores_killed += 1;
            }
            Blow::Frozen => {
                round.nodes[at].freeze();
                self.wakes_up(at, round);
            }
            Blow::FrozenAtStep => {
                let (step, hit) = (round.random.pick(&FREEZING), 1 + round.random.below(30));
                round.nodes[at].kill();
                round.nodes[at].start(Some(Fate { step, hit, freezes: true, mood: "" }));
                round.outcome.kills += 2;
                if round.nodes[at].freezes() {
                    round.outcome.at_a_step += 1;
                    self.wakes_up(at, round);
                }
                round.nodes[at].kill();
                again(round, at);
            }
        }
    }

    fn dies_while_spilling(&mut self, at: usize, round: &mut Round) {
        let (step, hit) = (round.random.pick(&SPILLING), 1 + round.random.below(20));
        round.nodes[at].kill();
        round.nodes[at].start(Some(Fate { step, hit, freezes: false, mood: "" }));
        self.redis.kill();
        round.outcome.kills += 2;
        round.outcome.stores_killed += 1;
        round.outcome.at_a_step += u64::from(round.nodes[at].meets_its_fate());
        self.redis.restart();
        again(round, at);
    }

    /// Once nothing is left to it.
    fn wakes_up(&self, at: usize, round: &mut Round) {
        let name = NAMES[at];
        let sql = format!("SELECT count(*) FROM slotwise.partitions WHERE counter = '{name}'");
        until("the other one takes over", || {
            self.postgres.psql(&self.database, &sql).as_deref() == Ok("0")
        });
        round.goes_on(BETWEEN / 4);
        round.nodes[at].wake();
        round.outcome.frozen += 1;
    }
}

/// Starts it again, at its best or slow at some step.
fn again(round: &mut Round, at: usize) {
    let mood = round.random.pick(&MOODS);
    round.nodes[at].start_in(mood);
}
