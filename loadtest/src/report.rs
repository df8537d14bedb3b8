//! What a run has shown: the same figures as a table for people and as JSON for programs.

mod json;
mod table;

use std::path::Path;

use anyhow::Context;

use crate::cli::Making;
use crate::cpu::Spent;
use crate::limits::{OWN_CPU_SHARE_MAX, OWN_LATENESS_P99_US_MAX, OWN_LATENESS_SHARE_MAX};
use crate::meter::Meter;

/// One kind of request of a run.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) meter: Meter,
}

/// A run.
pub(crate) struct Report {
    pub(crate) mode: &'static str,
    pub(crate) making: Making,
    /// Decisions in one call.
    pub(crate) batch: Option<usize>,
    /// The first is what the run is about.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) spent: Spent,
    /// Answers that were held against the catalogue as a whole.
    pub(crate) checked_whole: u64,
    /// Mean of an answer, with its frame.
    pub(crate) answer_bytes: Option<f64>,
    /// Why the last connection broke.
    pub(crate) last_fault: Option<String>,
    /// What else has to be said.
    pub(crate) notes: Vec<String>,
    /// Something besides the answers was wrong.
    pub(crate) is_spoilt: bool,
}

impl Report {
    pub(crate) fn new(mode: &'static str, making: &Making) -> Self {
        Self {
            mode,
            making: making.clone(),
            batch: None,
            kinds: Vec::new(),
            spent: Spent::default(),
            checked_whole: 0,
            answer_bytes: None,
            last_fault: None,
            notes: Vec::new(),
            is_spoilt: false,
        }
    }

    /// The figures as a table.
    pub(crate) fn table(&self) -> String {
        table::render(self)
    }

    /// The figures for programs.
    pub(crate) fn json(&self) -> serde_json::Value {
        json::value(self)
    }

    /// Draws it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn draw(&self, path: &Path) -> anyhow::Result<()> {
        let svg = crate::chart::svg(self, &table::heading(self));
        std::fs::write(path, svg).with_context(|| path.display().to_string())
    }

    /// Whether something was answered, and nothing of it was wrong.
    pub(crate) fn is_good(&self) -> bool {
        let is_answered = self.kinds.first().is_some_and(|kind| kind.meter.counts.answered > 0);
        let is_wrong = self.kinds.iter().any(|kind| kind.meter.counts.wrong > 0);
        is_answered && !is_wrong && !self.is_spoilt
    }

    /// Seconds that were measured.
    fn seconds(&self) -> f64 {
        self.kinds.first().map_or(1.0, |kind| kind.meter.window.seconds())
    }

    /// The share of the measured time in which our thread was busy.
    pub(crate) fn own_cpu_share(&self) -> f64 {
        self.spent.own.as_secs_f64() / self.seconds()
    }

    /// Cores that the server used.
    pub(crate) fn server_cores(&self) -> Option<f64> {
        Some(self.spent.server?.as_secs_f64() / self.seconds())
    }

    /// Microseconds of the server's processor time for one answer of the first kind.
    pub(crate) fn server_us_each(&self) -> Option<f64> {
        let kind = self.kinds.first()?;
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
        let answers = kind.meter.counts.answered_in_window.max(1) as f64;
        Some(self.spent.server?.as_secs_f64() * 1e6 / answers)
    }

    /// Why it was the generator that limited the run, where it was.
    pub(crate) fn own_limits(&self) -> Vec<String> {
        let mut limits = Vec::new();
        let share = self.own_cpu_share();
        if share > OWN_CPU_SHARE_MAX {
            limits.push(format!("its thread was busy for {:.0} % of the time", share * 100.0));
        }
        for kind in &self.kinds {
            let p99_us = kind.meter.own_lateness_p99_us();
            // Where answers take far longer, it is not we who make them wait.
            let answers_us = kind.meter.latency_us.value_at_quantile(0.99);
            let is_ours = ms(p99_us) > ms(answers_us) * OWN_LATENESS_SHARE_MAX;
            if p99_us > OWN_LATENESS_P99_US_MAX && is_ours && !kind.meter.latency_us.is_empty() {
                limits.push(format!(
                    "it came to one send of a hundred of {} more than {:.1} ms late",
                    kind.name,
                    crate::report::ms(p99_us)
                ));
            }
        }
        limits
    }
}

/// Milliseconds.
pub(crate) fn ms(us: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    let us = us as f64;
    us / 1_000.0
}

/// The quantiles that are shown, and what they are called.
pub(crate) const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Window;

    /// Whether the generator is said to have been the limit, where it came so late, answers took so
    /// long, and its thread was busy for so much of ten seconds.
    fn was_the_limit(late_ms: u64, answered_ms: u64, busy_s: u64) -> bool {
        let mut meter = Meter::new(Window { from_ns: 0, to_ns: 10_000_000_000 }, 100_000).unwrap();
        meter.came_to(0, late_ms * 1_000_000);
        meter.answered(0, answered_ms * 1_000_000, 1);
        let cli = <crate::cli::Cli as clap::Parser>::try_parse_from(["loadtest", "unary"]).unwrap();
        let crate::cli::Command::Unary(args) = cli.command else { panic!("not unary") };
        let mut report = Report::new("unary", &args.making);
        report.spent.own = std::time::Duration::from_secs(busy_s);
        report.kinds.push(Kind { name: "decisions", meter });
        assert_eq!(
            report.table().contains("THE GENERATOR WAS THE LIMIT"),
            !report.own_limits().is_empty()
        );
        !report.own_limits().is_empty()
    }

    #[test]
    fn the_generator_says_when_it_was_the_limit() {
        assert!(!was_the_limit(5, 6, 5), "neither late nor busy");
        assert!(was_the_limit(50, 60, 5), "late, and that is most of what is measured");
        assert!(!was_the_limit(50, 4_000, 5), "late, but it is the server that takes its time");
        assert!(was_the_limit(1, 2, 10), "busy all the time");
    }
}
