//! `bars`: the loads that the service is measured by, one after the other, against a server of our
//! own: the tables of BENCHMARKS.md.

use std::path::Path;

use anyhow::Context;
use serde_json::json;

use super::decisions::{self, Mode};
use super::{events, prepare};
use crate::cli::{Bars, Decisions, Mixed, Tell};
use crate::report::Report;
use crate::server::{self, Server};
use crate::workload::Catalogue;

/// Decisions a second of each load.
const UNARY: f64 = 70_000.0;
const BATCH: f64 = 300_000.0;
const STREAM: f64 = 400_000.0;
const MIXED: f64 = 40_000.0;
/// Decisions in one call of a batch.
const IN_BATCH: usize = 16;

/// Runs all loads; whether all answers were right.
pub(crate) fn run(args: &Bars) -> anyhow::Result<bool> {
    let binary = server::binary(args.server_bin.as_deref())?;
    let home = tempfile::tempdir().context("a directory for the server")?;
    let server = Server::start(&binary, home.path(), &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let catalogue = Catalogue::new(&args.decisions.shape)?;
    println!("{}\n", runtime.block_on(prepare::import(server.admin, catalogue))?);
    let mut all = Vec::new();
    let mut is_good = true;
    for load in ["unary", "batch", "stream", "mixed"] {
        let report = one(args, &server, load)?;
        println!("{}", report.table());
        if let Some(out) = &args.out {
            draw(out, &report)?;
        }
        is_good &= report.is_good();
        all.push((load.to_owned(), report.json()));
    }
    server.stop();
    if let Some(path) = &args.decisions.results.json {
        let all: serde_json::Map<_, _> = all.into_iter().collect();
        std::fs::write(path, format!("{}\n", json!(all)))
            .with_context(|| path.display().to_string())?;
    }
    Ok(is_good)
}

fn one(args: &Bars, server: &Server, load: &str) -> anyhow::Result<Report> {
    let at = |rate: f64| {
        let mut decisions: Decisions = args.decisions.clone();
        decisions.doors.decision_addr = server.decisions;
        decisions.doors.event_addr = server.events;
        decisions.doors.admin_addr = server.admin;
        decisions.doors.server_pid = Some(server.pid());
        decisions.making.rate = rate * args.scale;
        decisions
    };
    match load {
        "unary" => decisions::run(&at(UNARY), Mode::Unary),
        "batch" => decisions::run(&at(BATCH), Mode::Batch(IN_BATCH)),
        "stream" => decisions::run(&at(STREAM), Mode::Stream(1)),
        _ => events::mixed(&Mixed {
            impressions: 0.3,
            clicks: 0.01,
            tell: Tell::Calls,
            event_connections: 2,
            decisions: at(MIXED),
        }),
    }
}

/// Draws a report into a directory.
fn draw(out: &Path, report: &Report) -> anyhow::Result<()> {
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    report.draw(&out.join(format!("{}.svg", report.mode)))
}
