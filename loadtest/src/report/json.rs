//! The figures for programs. Latencies are in microseconds, from the instant at which each request
//! should have been sent.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::{Kind, QUANTILES, Report};

pub(super) fn value(report: &Report) -> Value {
    let kinds = report.kinds.iter().map(|kind| (kind.name.to_owned(), of(kind)));
    let making = &report.making;
    json!({
        "mode": report.mode,
        "rate_intended": if making.closed.is_some() { None } else { Some(making.rate) },
        "closed_in_flight": making.closed,
        "decisions_in_call": report.batch.unwrap_or(1),
        "seconds": making.seconds,
        "warm_up_seconds": making.warm_up,
        "connections": making.connections,
        "is_good": report.is_good(),
        "checked_whole": report.checked_whole,
        "answer_bytes_mean": report.answer_bytes,
        "last_fault": report.last_fault,
        "notes": report.notes,
        "kinds": kinds.collect::<serde_json::Map<_, _>>(),
        "generator": {
            "cpu_share": report.own_cpu_share(),
            "was_the_limit": !report.own_limits().is_empty(),
            "why": report.own_limits(),
        },
        "server": {
            "cpu_cores": report.server_cores(),
            "cpu_us_each": report.server_us_each(),
        },
    })
}

fn of(kind: &Kind) -> Value {
    let meter = &kind.meter;
    let counts = meter.counts;
    let seconds = meter.seconds.iter().map(|second| {
        json!({
            "intended": second.intended,
            "answered": second.answered,
            "failed": second.failed,
            "p50_us": second.p50_us,
            "p99_us": second.p99_us,
        })
    });
    json!({
        "rate": meter.rate(),
        "intended": counts.intended,
        "answered": counts.answered,
        "late": counts.late,
        "wrong": counts.wrong,
        "refused": counts.refused,
        "broken": counts.broken,
        "unanswered": counts.unanswered,
        "not_sent": counts.not_sent,
        "wrong_by_reason": meter.wrong,
        "refused_by_reason": meter.refused,
        "latency_us": quantiles(&meter.latency_us),
        "own_lateness_us": quantiles(&meter.own_lateness_us),
        "by_second": seconds.collect::<Vec<_>>(),
    })
}

fn quantiles(histogram: &Histogram<u64>) -> Value {
    let quantiles = QUANTILES.iter().map(|(name, quantile)| {
        let value = (!histogram.is_empty()).then(|| histogram.value_at_quantile(*quantile));
        ((*name).to_owned(), json!(value))
    });
    let mut object: serde_json::Map<_, _> = quantiles.collect();
    object.insert("mean".to_owned(), json!(histogram.mean()));
    object.insert("count".to_owned(), json!(histogram.len()));
    Value::Object(object)
}
