//! `ramp`: the highest rate that holds a latency goal. Up in steps until one fails, then halfway
//! between the last that held and the first that did not, until these are close.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::decisions::{self, Mode};
use crate::cli::{Of, Ramp};
use crate::limits::RAMP_STEPS_MAX;
use crate::report::{Report, ms};

/// A rate that was tried.
struct Step {
    intended: f64,
    rate: f64,
    us: u64,
    failed: u64,
    is_good: bool,
    own_limits: Vec<String>,
    /// Nothing: it held.
    why_not: Option<String>,
}

/// What was found.
pub(crate) struct Found {
    of: &'static str,
    goal_ms: f64,
    quantile: f64,
    steps: Vec<Step>,
}

/// A step must answer so much of what was intended, or it has not held its rate.
const ANSWERED_SHARE_MIN: f64 = 0.98;

pub(crate) fn run(args: &Ramp) -> anyhow::Result<Found> {
    let (of, mode) = match args.of {
        Of::Unary => ("unary", Mode::Unary),
        Of::Batch => ("batch", Mode::Batch(usize::from(args.batch))),
        Of::Stream => ("stream", Mode::Stream(1)),
    };
    anyhow::ensure!(
        args.decisions.making.closed.is_none(),
        "a ramp goes by rates, not by --closed"
    );
    let mut found = Found { of, goal_ms: args.goal_ms, quantile: args.quantile, steps: Vec::new() };
    let mut search = Search { rate: args.decisions.making.rate, held: None, failed: None };
    while found.steps.len() < RAMP_STEPS_MAX && !search.is_over(args.within) {
        let mut decisions = args.decisions.clone();
        decisions.making.rate = search.rate;
        let report = decisions::run(&decisions, mode)?;
        let step = step(&report, search.rate, args);
        eprintln!("{}", words(&step));
        search.next(step.why_not.is_none(), args.growth);
        found.steps.push(step);
    }
    Ok(found)
}

/// Where the search stands.
#[derive(Clone, Copy, Debug)]
struct Search {
    rate: f64,
    held: Option<f64>,
    failed: Option<f64>,
}

impl Search {
    fn is_over(self, within: f64) -> bool {
        match (self.held, self.failed) {
            (Some(held), Some(failed)) => failed - held <= held * within,
            // Not even a single one a second.
            (None, Some(failed)) => failed < 1.0,
            _ => false,
        }
    }

    fn next(&mut self, has_held: bool, growth: f64) {
        if has_held {
            self.held = Some(self.rate);
        } else {
            self.failed = Some(self.rate);
        }
        self.rate = match (self.held, self.failed) {
            (Some(held), Some(failed)) => f64::midpoint(held, failed),
            (None, Some(failed)) => failed / 2.0,
            _ => self.rate * growth,
        };
    }
}

fn step(report: &Report, intended: f64, args: &Ramp) -> Step {
    let mut step = Step {
        intended,
        rate: 0.0,
        us: 0,
        failed: 0,
        is_good: report.is_good(),
        own_limits: report.own_limits(),
        why_not: None,
    };
    let Some(kind) = report.kinds.first() else { return step };
    let meter = &kind.meter;
    step.rate = meter.rate();
    step.us = meter.latency_us.value_at_quantile(args.quantile);
    step.failed = meter.failed();
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    let offered = meter.counts.intended as f64 / meter.window.seconds();
    step.why_not = if step.failed > 0 {
        Some(format!("{} failed", step.failed))
    } else if step.rate < offered * ANSWERED_SHARE_MIN {
        Some("it fell behind".to_owned())
    } else if ms(step.us) > args.goal_ms {
        Some("too slow".to_owned())
    } else {
        None
    };
    step
}

fn words(step: &Step) -> String {
    let verdict = step.why_not.as_deref().unwrap_or("held");
    let mut text = format!("{:.0}/s: {:.2} ms: {verdict}", step.intended, ms(step.us));
    if !step.own_limits.is_empty() {
        let _ = write!(text, " (THE GENERATOR WAS THE LIMIT: {})", step.own_limits.join("; "));
    }
    text
}

impl Found {
    /// The highest rate that held.
    fn best(&self) -> Option<&Step> {
        let held = self.steps.iter().filter(|step| step.why_not.is_none());
        held.max_by(|one, two| one.intended.total_cmp(&two.intended))
    }

    /// Whether all answers were right, and some rate held.
    pub(crate) fn is_good(&self) -> bool {
        self.best().is_some() && self.steps.iter().all(|step| step.is_good || step.failed > 0)
    }

    pub(crate) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let quantile = format!("p{}, ms", self.quantile * 100.0);
        table.set_header(["INTENDED", "ANSWERED", &quantile, "VERDICT", "LIMIT"]);
        for step in &self.steps {
            let limit = if step.own_limits.is_empty() { "" } else { "the generator" };
            table.add_row([
                format!("{:.0}/s", step.intended),
                format!("{:.0}/s", step.rate),
                format!("{:.2}", ms(step.us)),
                step.why_not.clone().unwrap_or_else(|| "held".to_owned()),
                limit.to_owned(),
            ]);
        }
        for column in table.column_iter_mut().take(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let best = match self.best() {
            Some(best) => format!(
                "{}: {:.0}/s is the highest rate tried that keeps p{} within {} ms",
                self.of,
                best.intended,
                self.quantile * 100.0,
                self.goal_ms
            ),
            None => format!("{}: no rate kept the goal", self.of),
        };
        format!("{table}\n{best}\n")
    }

    pub(crate) fn json(&self) -> Value {
        let steps = self.steps.iter().map(|step| {
            json!({
                "rate_intended": step.intended,
                "rate": step.rate,
                "latency_us": step.us,
                "failed": step.failed,
                "held": step.why_not.is_none(),
                "why_not": step.why_not,
                "generator_was_the_limit": !step.own_limits.is_empty(),
            })
        });
        json!({
            "mode": "ramp",
            "of": self.of,
            "goal_ms": self.goal_ms,
            "quantile": self.quantile,
            "rate": self.best().map(|step| step.intended),
            "steps": steps.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rate_is_found_from_below_and_from_above() {
        for (start, limit) in [(1_000.0, 37_000.0), (90_000.0, 37_000.0)] {
            let mut search = Search { rate: start, held: None, failed: None };
            let mut steps = 0;
            while !search.is_over(0.02) {
                search.next(search.rate <= limit, 1.5);
                steps += 1;
            }
            let held = search.held.unwrap();
            assert!(held <= limit && held > limit * 0.97, "{held} in {steps} steps");
            assert!(steps < RAMP_STEPS_MAX);
        }
    }

    #[test]
    fn a_search_ends_where_nothing_holds() {
        let mut search = Search { rate: 1_000.0, held: None, failed: None };
        (0..20).take_while(|_| !search.is_over(0.02)).for_each(|_| ());
        while !search.is_over(0.02) {
            search.next(false, 1.5);
        }
        assert_eq!(search.held, None);
    }
}
