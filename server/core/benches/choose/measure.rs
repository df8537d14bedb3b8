//! Asking and timing.

use std::hint::black_box;
use std::time::{Duration, Instant};

use slotwise_core::index::Campaigns;

use crate::data::{Ask, Kind, Request};
use crate::ours::{Asked, Market, decide};
use crate::yardstick::Yardstick;

/// Requests that are made ready together: few enough that they are still in the cache when they
/// are asked, as a server's would be.
pub(crate) const BATCH: usize = 64;

/// How long one cell is measured: so many requests, unless the time is over; never fewer than a
/// batch of ours, or [`Effort::theirs_min`] of theirs.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) ours: u64,
    pub(crate) theirs: u64,
    pub(crate) theirs_min: u64,
    pub(crate) time_max: Duration,
}

impl Effort {
    pub(crate) const FULL: Self =
        Self { ours: 50_000, theirs: 1_000, theirs_min: 50, time_max: Duration::from_secs(3) };
    pub(crate) const QUICK: Self =
        Self { ours: 5_000, theirs: 100, theirs_min: 20, time_max: Duration::from_millis(200) };
}

/// Values of one kind, measured one by one.
#[derive(Default)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The value that so many hundredths of all are not above.
    pub(crate) fn percentile(&self, hundredths: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (sorted.len() * hundredths).div_ceil(100).max(1);
        sorted[rank - 1]
    }
}

/// One cell of the tables.
#[derive(Default)]
pub(crate) struct Cell {
    /// Microseconds of single requests, the timer's own cost in them.
    pub(crate) single_us: Sample,
    /// Microseconds for each request of a whole batch, timed as one.
    pub(crate) batch_us: Sample,
    /// Entries touched by single requests.
    pub(crate) touched: Sample,
    /// Microseconds of the yardstick's single requests.
    pub(crate) yardstick_us: Sample,
}

/// Measures one question on one zone, and checks that both find the same scores.
pub(crate) fn measure(
    market: &Market,
    yardstick: &Yardstick,
    kind: Kind,
    ask: Ask,
    effort: Effort,
) -> Cell {
    let mut cell = Cell::default();
    let campaigns = market.index.campaigns();
    let mut numbers = (0..).map(|number| Request::new(kind, ask, number));
    let mut ready = || -> Vec<Asked> {
        numbers.by_ref().take(BATCH).map(|request| market.ready(&request)).collect()
    };
    let mut scores = Vec::with_capacity(BATCH * ask.count);
    // What the first requests find cold, those after them do not.
    single(ready(), &campaigns, &mut scores, &mut Cell::default());
    let began = Instant::now();
    loop {
        single(ready(), &campaigns, &mut scores, &mut cell);
        let is_late = began.elapsed() >= effort.time_max;
        if is_late || cell.single_us.len() as u64 >= effort.ours {
            break;
        }
        let asked = ready();
        let began = Instant::now();
        for asked in asked {
            decide(asked, &campaigns, &mut scores);
        }
        cell.batch_us.push(micros(began.elapsed()) / BATCH as f64);
        black_box(&mut scores).clear();
    }
    let began = Instant::now();
    for number in 0..effort.theirs {
        if number >= effort.theirs_min && began.elapsed() >= effort.time_max {
            break;
        }
        let request = Request::new(kind, ask, number);
        let (theirs, took) = yardstick.ask(&request);
        cell.yardstick_us.push(micros(took));
        scores.clear();
        decide(market.ready(&request), &campaigns, &mut scores);
        let same = scores.iter().map(|score| score.to_bits());
        assert!(
            same.eq(theirs.iter().map(|score| score.to_bits())),
            "request {number} {:?}: {scores:?} here, {theirs:?} by the yardstick",
            request.words,
        );
    }
    cell
}

/// Asks one batch, each request timed by itself.
fn single(asked: Vec<Asked>, campaigns: &Campaigns, scores: &mut Vec<f64>, cell: &mut Cell) {
    for asked in asked {
        let began = Instant::now();
        let touched = decide(asked, campaigns, scores);
        let took = began.elapsed();
        cell.single_us.push(micros(took));
        cell.touched.push(touched as f64);
    }
    black_box(scores).clear();
}

/// What the timer shows for nothing at all: microseconds.
pub(crate) fn timer_us() -> Sample {
    let mut nothing = Sample::default();
    for _ in 0..10_000 {
        let began = Instant::now();
        nothing.push(micros(began.elapsed()));
    }
    nothing
}

fn micros(took: Duration) -> f64 {
    took.as_secs_f64() * 1e6
}
