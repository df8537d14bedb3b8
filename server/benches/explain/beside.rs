//! Small requests while a large zone is explained on the same decision thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use slotwise_proto::v1::ChooseAdsRequest;
use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_server::testing::Server;
use tonic::transport::Channel;

use crate::data::ZoneOf;
use crate::report::{Sample, grouped, micros, time};
use crate::{Effort, SMALL, connect, data};

/// Explanations that are measured with nothing beside them.
const ALONE: usize = 10;

/// Measures, and prints.
pub(crate) async fn run(server: &Server, large: ZoneOf, effort: Effort) {
    let (mut small, explaining) = (connect(server).await, connect(server).await);
    let mut numbers = 0..;
    // What the first requests find cold, those after them do not.
    ask(&mut small, &mut numbers, effort.beside_round, &mut Sample::default()).await;
    let mut alone = Sample::default();
    let mut client = explaining.clone();
    for at in 0..=ALONE as u64 {
        let took = micros(explain(&mut client, large, at).await);
        if at > 0 {
            alone.push(took);
        }
    }
    let [mut without, mut with, mut beside] = [(); 3].map(|()| Sample::default());
    for _ in 0..effort.beside_pairs {
        ask(&mut small, &mut numbers, effort.beside_round, &mut without).await;
        let is_over = Arc::new(AtomicBool::new(false));
        let explainer = tokio::spawn(explain_on(explaining.clone(), large, Arc::clone(&is_over)));
        ask(&mut small, &mut numbers, effort.beside_round, &mut with).await;
        is_over.store(true, Ordering::Relaxed);
        beside.extend(explainer.await.unwrap());
    }

    println!(
        "## A zone of {} ads explained beside small requests\n\n\
         One caller asks the zone of {} ads, one request after another, none explained; another, \
         on a connection of its own, explains the large zone over and over. One decision thread \
         answers both. {} rounds of {} s without and with the explanations, in turns. Times are \
         from the call to the answer, as the caller sees them.\n",
        grouped(large.ads),
        grouped(SMALL.ads),
        effort.beside_pairs,
        effort.beside_round.as_secs_f64()
    );
    println!("| what | how many | p50 | p99 | largest |\n|---|---|---|---|---|");
    let line = |what: &str, sample: &Sample| {
        let [p50, p99, most] = [50, 99, 100].map(|hundredths| time(sample.percentile(hundredths)));
        println!("| {what} | {} | {p50} | {p99} | {most} |", grouped(sample.len()));
    };
    line("a small request, nothing beside it", &without);
    line("a small request, explanations beside it", &with);
    line("an explanation of the large zone, nothing beside it", &alone);
    line("an explanation of the large zone, small requests beside it", &beside);
}

/// Asks the small zone one thing after another for `length`.
async fn ask(
    client: &mut AdDecisionServiceClient<Channel>,
    numbers: &mut impl Iterator<Item = u64>,
    length: Duration,
    latencies: &mut Sample,
) {
    let end = Instant::now() + length;
    for number in numbers {
        let request = data::request(SMALL.zone, number);
        let began = Instant::now();
        if began >= end {
            break;
        }
        client.choose_ads(request).await.unwrap();
        latencies.push(micros(began.elapsed()));
    }
}

/// Explains the large zone over and over; how long each took, in microseconds.
async fn explain_on(
    mut client: AdDecisionServiceClient<Channel>,
    large: ZoneOf,
    is_over: Arc<AtomicBool>,
) -> Vec<f64> {
    let mut times = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        times.push(micros(explain(&mut client, large, number).await));
    }
    times
}

async fn explain(
    client: &mut AdDecisionServiceClient<Channel>,
    large: ZoneOf,
    number: u64,
) -> Duration {
    let request = ChooseAdsRequest { explain: true, ..data::request(large.zone, number) };
    let began = Instant::now();
    let answer = client.choose_ads(request).await.unwrap().into_inner();
    let took = began.elapsed();
    let explanation = answer.explanation.unwrap();
    assert_eq!(explanation.candidates as usize, large.ads);
    took
}
