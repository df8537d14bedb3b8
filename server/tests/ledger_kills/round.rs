//! A round: nodes on empty stores, a sender who goes on whatever happens to them, and in the end
//! the reports against its book.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::{ImportOptions, ListNodesRequest};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::book::Tally;
use crate::catalogue::Clients;
use crate::child::Doors;
use crate::lines::Lines;
use crate::random::Random;
use crate::replays::replay;
use crate::reports::{Reports, watch};
use crate::sender::{CALLERS, Sender, now_us};
use crate::stand::{Node, until};
use crate::world::{CAMPAIGNS, UNITS, ZONES, records};

/// What a round, or all of them, came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub kills: u64,
    /// Of these, those at the very step that was asked for.
    pub at_a_step: u64,
    /// Nodes that stood still and woke up.
    pub frozen: u64,
    pub stores_killed: u64,
    pub events: u64,
    pub late: u64,
    pub tally: Tally,
}

impl Outcome {
    /// Of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            kills: self.kills + other.kills,
            at_a_step: self.at_a_step + other.at_a_step,
            frozen: self.frozen + other.frozen,
            stores_killed: self.stores_killed + other.stores_killed,
            events: self.events + other.events,
            late: self.late + other.late,
            tally: self.tally.plus(other.tally),
        }
    }
}

pub struct Round {
    pub nodes: Vec<Node>,
    pub random: Random,
    pub outcome: Outcome,
    sender: Arc<Sender>,
    runtime: Runtime,
    callers: JoinSet<()>,
    began_us: i64,
}

impl Round {
    /// Nodes with these arguments, each in some of these moods; the catalogue that they serve; and
    /// callers at their doors.
    pub fn begin(arguments: Vec<Vec<String>>, moods: &[&'static str], seed: u64) -> Self {
        let (mut random, began_us) = (Random::new(seed), now_us());
        let trusts = random.one_in(2);
        let sender = Arc::new(Sender::new(arguments.len(), trusts));
        let node = |(at, mut arguments): (usize, Vec<String>)| {
            arguments.extend(["--events-trust-occurred-at".to_owned(), trusts.to_string()]);
            Node::new(at, arguments, &sender)
        };
        let mut nodes: Vec<_> = arguments.into_iter().enumerate().map(node).collect();
        let runtime = Runtime::new().unwrap();
        nodes.iter_mut().for_each(|node| node.start_in(random.pick(moods)));
        runtime.block_on(async {
            let mut clients = Clients::of(nodes[0].doors().unwrap()).await;
            clients.import(ImportOptions::default(), &records()).await;
        });
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            callers.spawn_on(Arc::clone(&sender).tell(random.fork()), runtime.handle());
        }
        callers.spawn_on(replay(Arc::clone(&sender), random.fork()), runtime.handle());
        let (watched, at) = (Arc::clone(&sender), random.fork());
        callers.spawn_on(async move { watch(&watched, at, began_us).await }, runtime.handle());
        let outcome = Outcome::default();
        Self { nodes, random, outcome, sender, runtime, callers, began_us }
    }

    /// Waits until up to `n` more events were acknowledged.
    pub fn goes_on(&mut self, n: u64) {
        let acknowledged = || self.sender.book().tally.acknowledged;
        let enough = acknowledged() + self.random.below(n + 1);
        until("too little is acknowledged", || acknowledged() >= enough);
    }

    /// Lets up to so many milliseconds pass.
    pub fn rests(&mut self, ms_max: u64) {
        std::thread::sleep(Duration::from_millis(self.random.below(ms_max)));
    }

    /// All nodes run: everything is told, and what was counted is what is in the book.
    pub fn end(mut self) -> Outcome {
        self.sender.finish();
        self.check();
        let book = self.sender.book();
        self.outcome.events = book.len();
        self.outcome.tally = book.tally;
        drop(book);
        self.outcome
    }

    fn check(&mut self) {
        let runtime = self.runtime.handle().clone();
        let _entered = runtime.enter();
        let callers = std::mem::take(&mut self.callers);
        self.runtime.block_on(callers.join_all());
        let doors: Vec<_> = self.nodes.iter().map(|node| node.doors().unwrap()).collect();
        until("events still wait on the disk of a node", || {
            self.runtime.block_on(async {
                let mut wait = false;
                for doors in &doors {
                    wait |= is_degraded(*doors).await;
                }
                !wait
            }) && self.nodes.iter().all(|node| spilled_bytes(node) == 0)
        });
        for node in &self.nodes {
            let log = node.logged();
            assert!(!log.contains("events are lost"), "the disk was too slow for this test");
        }
        self.close(doors[0]);
        for doors in doors {
            let mut reports = Reports::of(doors, &mut Lines::default(), self.began_us);
            let cells = self.sender.book().cells();
            self.runtime.block_on(reports.come_to(&cells));
            let book = std::mem::take(&mut *self.sender.book());
            self.outcome.late = self.runtime.block_on(reports.check(&book));
            *self.sender.book() = book;
        }
    }

    /// One more event of each ad, the last of its partition: once that is counted, all is.
    fn close(&mut self, doors: Doors) {
        let (sender, mut lines) = (Arc::clone(&self.sender), Lines::default());
        let random = &mut self.random;
        self.runtime.block_on(async {
            let ads = CAMPAIGNS.len() * UNITS.len();
            while sender.ask_for(doors, ZONES[0], &mut lines, random).await < ads {}
            Arc::clone(&sender).tell(random.fork()).await;
        });
    }
}

/// Where something is not as it should be, the logs say more.
impl Drop for Round {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (at, node) in self.nodes.iter().enumerate() {
                eprintln!("the log of node {at}: {}", kept(&node.logged()).display());
            }
        }
    }
}

/// Whether anything is wrong with it, in its own words.
async fn is_degraded(doors: Doors) -> bool {
    let mut door = CatalogServiceClient::new(Lines::default().to(doors.admin));
    match door.list_nodes(ListNodesRequest {}).await {
        Ok(answer) => answer.into_inner().nodes.iter().any(|node| !node.degraded_reason.is_empty()),
        Err(_) => true,
    }
}

fn spilled_bytes(node: &Node) -> u64 {
    std::fs::metadata(node.dir().join("events.spill")).map_or(0, |file| file.len())
}

fn kept(log: &str) -> PathBuf {
    let (_, path) = tempfile::NamedTempFile::new().unwrap().keep().unwrap();
    std::fs::write(&path, log).unwrap();
    path
}
