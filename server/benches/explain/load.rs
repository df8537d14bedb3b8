//! A full load of small requests, of which none, some or all are explained.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use slotwise_proto::v1::ChooseAdsRequest;
use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_server::testing::Server;
use tonic::transport::Channel;

use crate::report::{Sample, grouped, percent};
use crate::{Effort, SMALL, connect, data};

const CONNECTIONS: usize = 4;
const IN_FLIGHT: usize = 32;
/// What the rate may lose where one request of a hundred is explained.
const DROP_MAX: f64 = 0.05;

/// How many requests are explained.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Explained {
    None,
    OneOfAHundred,
    All,
}

impl Explained {
    fn is(self, number: u64) -> bool {
        match self {
            Self::None => false,
            Self::OneOfAHundred => number.is_multiple_of(100),
            Self::All => true,
        }
    }
}

/// What one round came to.
struct Round {
    /// Answers a second.
    rate: f64,
    /// Microseconds that the decision thread worked for each.
    cpu_us: f64,
}

struct Load {
    clients: Vec<AdDecisionServiceClient<Channel>>,
    /// The number of the next request: no two rounds ask the same.
    next: Arc<AtomicU64>,
}

/// Measures, and prints.
pub(crate) async fn run(server: &Server, effort: Effort) {
    let mut load = Load { clients: Vec::new(), next: Arc::default() };
    for _ in 0..CONNECTIONS {
        load.clients.push(connect(server).await);
    }
    // What the first requests find cold, and visitors without a history, those after them do not.
    for explained in [Explained::None, Explained::OneOfAHundred, Explained::All] {
        load.round(explained, effort.round).await;
    }
    let mut pairs = Vec::with_capacity(effort.pairs);
    for at in 0..effort.pairs {
        // In turns also within the pairs: what goes one way all the time counts for neither.
        let order = [Explained::None, Explained::OneOfAHundred];
        let first = load.round(order[at % 2], effort.round).await;
        let second = load.round(order[1 - at % 2], effort.round).await;
        pairs.push(if at % 2 == 0 { (first, second) } else { (second, first) });
    }
    let mut alls = Vec::new();
    for _ in 0..3 {
        alls.push(load.round(Explained::All, effort.round).await);
    }
    report(effort, &pairs, &alls);
}

fn report(effort: Effort, pairs: &[(Round, Round)], alls: &[Round]) {
    println!(
        "## One request of a hundred explained\n\n\
         A zone of {} ads; {CONNECTIONS} connections with {IN_FLIGHT} requests in flight on each, \
         each asked anew as soon as it is answered; rounds of {} s, first without and then with \
         in odd pairs, the other way round in even ones. Rate: answers a second. CPU: \
         microseconds that the decision thread worked for each answer, where the system tells; \
         what the callers cost is not in it, though they share its caches.\n",
        grouped(SMALL.ads),
        effort.round.as_secs_f64()
    );
    println!(
        "| pair | rate, none | rate, 1 % explained | ratio | CPU, none | CPU, 1 % explained |"
    );
    println!("|---|---|---|---|---|---|");
    let (mut ratios, mut cpu_ratios) = (Sample::default(), Sample::default());
    for (at, (none, some)) in pairs.iter().enumerate() {
        let ratio = some.rate / none.rate;
        ratios.push(ratio);
        cpu_ratios.push(none.cpu_us / some.cpu_us);
        println!(
            "| {} | {:.0} | {:.0} | {ratio:.3} | {:.2} us | {:.2} us |",
            at + 1,
            none.rate,
            some.rate,
            none.cpu_us,
            some.cpu_us
        );
    }
    let middle = |of: fn(&(Round, Round)) -> f64| Sample::from_iter(pairs.iter().map(of)).median();
    let plain_us = middle(|(none, _)| none.cpu_us);
    let all_us = Sample::from_iter(alls.iter().map(|all| all.cpu_us)).median();
    let all_rate = Sample::from_iter(alls.iter().map(|all| all.rate)).median();
    let explaining_us = all_us - plain_us;
    let implied = 0.01 * explaining_us / (plain_us + 0.01 * explaining_us);
    println!("\n| what | measured | bar |\n|---|---|---|");
    let drop = 1.0 - ratios.median();
    let mark = if drop < DROP_MAX { "" } else { "**" };
    println!(
        "| the rate drops by (median of the pairs; ratio: {}) | {mark}{}{mark} | {} |",
        ratios.spread(),
        percent(drop),
        percent(DROP_MAX)
    );
    println!(
        "| it would, did the callers cost nothing (from the CPU; ratio: {}) | {} | {} |",
        cpu_ratios.spread(),
        percent(1.0 - cpu_ratios.median()),
        percent(DROP_MAX)
    );
    println!("| one request, not explained: CPU | {plain_us:.1} us | – |");
    println!("| every request explained: rate, median of {} | {all_rate:.0} | – |", alls.len());
    println!("| one explained request: CPU | {all_us:.1} us | – |");
    println!("| what explaining it adds: CPU | {explaining_us:.1} us | – |");
    println!(
        "| the drop at 1 % that this implies, did the callers cost nothing | {} | {} |\n",
        percent(implied),
        percent(DROP_MAX)
    );
}

impl Load {
    async fn round(&self, explained: Explained, length: Duration) -> Round {
        let cpu_before = decision_cpu_us();
        let began = Instant::now();
        let callers: Vec<_> = (self.clients.iter())
            .flat_map(|client| std::iter::repeat_n(client, IN_FLIGHT))
            .map(|client| {
                let (client, next) = (client.clone(), Arc::clone(&self.next));
                tokio::spawn(call(client, next, explained, began + length))
            })
            .collect();
        let mut answers = 0_u64;
        for caller in callers {
            answers += caller.await.unwrap();
        }
        let took = began.elapsed();
        let cpu_us = decision_cpu_us() - cpu_before;
        Round { rate: answers as f64 / took.as_secs_f64(), cpu_us: cpu_us / answers as f64 }
    }
}

/// Asks one thing after another until `end`; how many.
async fn call(
    mut client: AdDecisionServiceClient<Channel>,
    next: Arc<AtomicU64>,
    explained: Explained,
    end: Instant,
) -> u64 {
    let mut answers = 0;
    while Instant::now() < end {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let explain = explained.is(number);
        let request = ChooseAdsRequest { explain, ..data::request(SMALL.zone, number) };
        let answer = client.choose_ads(request).await.unwrap().into_inner();
        let candidates = answer.explanation.map(|explanation| explanation.candidates as usize);
        assert_eq!(candidates, explain.then_some(SMALL.ads));
        answers += 1;
    }
    answers
}

/// Microseconds that the decision thread has worked so far; not a number where the system does
/// not tell.
fn decision_cpu_us() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let is_decision = |name: &str| name.starts_with("decide-");
    let cpu_ns = threads.filter_map(|thread| {
        let read = |file: &str| std::fs::read_to_string(thread.path().join(file)).ok();
        let times = read("comm").filter(|name| is_decision(name)).and(read("schedstat"))?;
        times.split_whitespace().next()?.parse::<f64>().ok()
    });
    let cpu_ns: f64 = cpu_ns.sum();
    if cpu_ns > 0.0 { cpu_ns / 1e3 } else { f64::NAN }
}
