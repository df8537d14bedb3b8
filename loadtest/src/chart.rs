//! A report drawn as SVG: latency by percentile, and what became of the requests over time.

mod plot;

use plot::{Axis, Line, Plot, Scale};

use crate::report::{Kind, Report, ms};

/// Colours that are told apart by people who see few of them, too.
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];
const INTENDED: &str = "#999999";
const FAILED: &str = "#cc0000";

/// Both charts, one below the other.
pub(crate) fn svg(report: &Report, heading: &str) -> String {
    plot::page(heading, &[latency(report), rates(report)])
}

/// Latency by percentile; each nine takes as much room as the one before.
fn latency(report: &Report) -> Plot {
    let lines = report.kinds.iter().zip(COLOURS).map(|(kind, colour)| Line {
        name: kind.name.to_owned(),
        colour,
        points: percentiles(kind),
    });
    let nines =
        [(1.0, "0"), (10.0, "90"), (100.0, "99"), (1e3, "99.9"), (1e4, "99.99"), (1e5, "99.999")];
    Plot {
        title: "Latency from the intended send, ms, by percentile".to_owned(),
        x: Axis { scale: Scale::Log, ticks: nines.map(|(at, name)| (at, name.to_owned())).into() },
        y: Axis { scale: Scale::Log, ticks: Vec::new() },
        lines: lines.collect(),
    }
}

/// 1 / (1 - quantile), and the latency in ms.
fn percentiles(kind: &Kind) -> Vec<(f64, f64)> {
    let latency = &kind.meter.latency_us;
    let mut points = Vec::new();
    #[allow(clippy::cast_precision_loss, reason = "a count, for a chart")]
    let count = latency.len() as f64;
    let mut slots = 1.0_f64;
    // Up to the last nine of which there are some ten answers.
    while count > 0.0 && slots * 10.0 <= count.max(10.0) {
        let us = latency.value_at_quantile(1.0 - 1.0 / slots);
        points.push((slots, ms(us.max(1))));
        slots *= STEP;
    }
    points
}

/// So many points to a nine: some twenty.
const STEP: f64 = 1.122;

/// What should have been sent, what was answered and what failed, second by second.
fn rates(report: &Report) -> Plot {
    let mut lines = Vec::new();
    for (at, (kind, colour)) in report.kinds.iter().zip(COLOURS).enumerate() {
        let series = |value: fn(&crate::meter::Second) -> u64| {
            let seconds = kind.meter.seconds.iter().enumerate();
            #[allow(clippy::cast_precision_loss, reason = "a count, for a chart")]
            let points = seconds.map(|(second, row)| (second as f64, value(row) as f64));
            points.collect::<Vec<_>>()
        };
        if at == 0 {
            let points = series(|second| second.intended);
            lines.push(Line { name: "intended".to_owned(), colour: INTENDED, points });
        }
        let points = series(|second| second.answered);
        lines.push(Line { name: format!("{} answered", kind.name), colour, points });
        if kind.meter.failed() > 0 {
            let points = series(|second| second.failed);
            lines.push(Line { name: format!("{} failed", kind.name), colour: FAILED, points });
        }
    }
    Plot {
        title: "A second, over the seconds of the run (with its warm-up)".to_owned(),
        x: Axis { scale: Scale::Linear, ticks: Vec::new() },
        y: Axis { scale: Scale::Linear, ticks: Vec::new() },
        lines,
    }
}
