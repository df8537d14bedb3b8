//! `clicks` and `mixed`: what happens to ads after they were chosen.

use std::collections::VecDeque;

use anyhow::Context;

use super::counted::{Counted, Told};
use super::decisions::{self, Mode};
use crate::cli::{Clicks as ClicksArgs, Mixed as MixedArgs, Tell};
use crate::engine::{self, Clock};
use crate::h2::request::Template;
use crate::lanes::Lanes;
use crate::limits::{STOCK_BATCH, STOCK_IN_FLIGHT, STOCK_MAX};
use crate::load::clicks::Clicks;
use crate::load::decide::{BATCH, Decide, UNARY};
use crate::load::follow::{FollowUps, Showing};
use crate::load::gets::{Gets, USER_AGENT, What};
use crate::load::mixed::{Impressions, Mixed};
use crate::load::pace::{Beat, Pace};
use crate::load::probe::Probe;
use crate::load::records::{RECORD_EVENTS, Records};
use crate::meter::Meter;
use crate::report::{Kind, Report};
use crate::schedule::Schedule;

/// Clicks, or pixels, by a schedule.
pub(crate) fn clicks(args: &ClicksArgs) -> anyhow::Result<Report> {
    let decisions = &args.decisions;
    let (making, doors) = (&decisions.making, &decisions.doors);
    making.ensure_no_deadline("a click")?;
    let window = making.window();
    let counted = Counted::before(doors.admin_addr)?;
    let stock = stock(args)?;
    let beat = match making.closed {
        Some(in_flight) => {
            Beat::Closed { in_flight, end_ns: window.to_ns, left: stock.len() as u64 }
        }
        None => Beat::Open(Schedule::new(
            making.arrivals,
            making.rate,
            window.to_ns,
            decisions.asking.seed,
        )),
    };
    let what = if args.pixels { What::Pixel } else { What::Click };
    let meter = Meter::new(window, making.late_us())?;
    let probe = Probe::new(window, doors.pid());
    let mut load =
        Clicks::new(Pace::new(beat, 1, making.patience()), Gets::new(what, meter), probe, stock);
    let mut lanes = Lanes::new()?;
    for _ in 0..making.connections {
        let template = Template::browser(&doors.event_addr.to_string(), USER_AGENT);
        lanes.connect(doors.event_addr, template, &mut load)?;
    }
    engine::run(&mut load, &mut lanes, Clock::start(), making.rhythm(making.rate))?;
    load.gets.meter.finish();
    let told = told(load.gets.acknowledged, &load.gets.meter);
    let none = Told::default();
    let (impressions, clicks) = if args.pixels { (told, none) } else { (none, told) };
    let (words, is_met) = counted.after(impressions, clicks)?;
    let mut report = Report::new(if args.pixels { "pixels" } else { "clicks" }, making);
    report.spent = load.probe.spent();
    report.last_fault = lanes.last_fault.take();
    report.notes.push(words);
    report.is_spoilt = !is_met;
    let name = if args.pixels { "impressions" } else { "clicks" };
    report.kinds.push(Kind { name, meter: load.gets.meter });
    Ok(report)
}

/// A token for each click, from decisions that are made beforehand.
fn stock(args: &ClicksArgs) -> anyhow::Result<VecDeque<Showing>> {
    let decisions = &args.decisions;
    let making = &decisions.making;
    let seconds = making.warm_up + making.seconds;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a number of clicks"
    )]
    // At random there may be some more than on average.
    let most = (making.rate * seconds as f64 * 1.02) as usize + 100;
    let most = if making.closed.is_some() { STOCK_MAX } else { most };
    anyhow::ensure!(
        most <= STOCK_MAX,
        "{most} clicks are more than the {STOCK_MAX} that tokens are got for: a lower --rate or \
         fewer --seconds"
    );
    let mode = Mode::Batch(STOCK_BATCH);
    let calls = most.div_ceil(STOCK_BATCH * decisions.asking.count as usize) as u64;
    let mut common = decisions::common(decisions, mode)?;
    common.pace = Pace::new(
        Beat::Closed { in_flight: STOCK_IN_FLIGHT, end_ns: u64::MAX, left: calls },
        STOCK_BATCH as u64,
        decisions.making.patience(),
    );
    common.probe = Probe::off();
    let mut load = Decide::new(common, Some(STOCK_BATCH));
    load.follow = Some(FollowUps::all(most));
    let needed = load.body_bytes_max();
    decisions::drive(&mut load, decisions, BATCH, mode, needed)?;
    let follow = load.follow.take().context("nothing was followed up")?;
    let failed = load.common.meter.failed();
    anyhow::ensure!(
        failed == 0,
        "{failed} of the decisions that tokens were to come from failed: {:?} {:?}",
        load.common.meter.wrong,
        load.common.meter.refused
    );
    Ok(follow.clicked)
}

/// Decisions with what follows them.
pub(crate) fn mixed(args: &MixedArgs) -> anyhow::Result<Report> {
    let decisions = &args.decisions;
    let (making, doors) = (&decisions.making, &decisions.doors);
    anyhow::ensure!(
        making.closed.is_none(),
        "mixed goes by a schedule: --closed is for the others"
    );
    making.ensure_no_deadline("mixed")?;
    let counted = Counted::before(doors.admin_addr)?;
    let window = making.window();
    let mut decide = Decide::new(decisions::common(decisions, Mode::Unary)?, None);
    decide.follow = Some(FollowUps::shares(args.impressions, args.clicks, decisions.asking.seed));
    let meter = || Meter::new(window, making.late_us());
    let impressions = match args.tell {
        Tell::Calls => Impressions::Records(Records::new(meter()?)),
        Tell::Pixels => Impressions::Pixels(Gets::new(What::Pixel, meter()?)),
    };
    let clicks = Gets::new(What::Click, meter()?);
    let lanes_each = usize::from(args.event_connections);
    let decision_lanes = usize::from(making.connections);
    let mut load = Mixed::new(decide, clicks, impressions, decision_lanes, lanes_each);
    let mut lanes = Lanes::new()?;
    let (decision, event) = (doors.decision_addr, doors.event_addr);
    for _ in 0..decision_lanes {
        let template = Template::grpc(&decision.to_string(), UNARY);
        lanes.connect(decision, template, &mut load)?;
    }
    for at in 0..2 * lanes_each {
        let template = if at >= lanes_each && args.tell == Tell::Calls {
            Template::grpc(&event.to_string(), RECORD_EVENTS)
        } else {
            Template::browser(&event.to_string(), USER_AGENT)
        };
        lanes.connect(event, template, &mut load)?;
    }
    engine::run(&mut load, &mut lanes, Clock::start(), making.rhythm(making.rate))?;
    let Mixed { decide, clicks, impressions, .. } = load;
    let (seen, clicked) = (impressions.acknowledged(), clicks.acknowledged);
    let mut impressions = impressions.into_meter();
    let mut clicks = clicks.meter;
    impressions.finish();
    clicks.finish();
    let (words, is_met) = counted.after(told(seen, &impressions), told(clicked, &clicks))?;
    let mut report = decisions::report(decide.common, decisions, Mode::Unary);
    report.mode = "mixed";
    report.last_fault = lanes.last_fault.take();
    report.notes.push(words);
    report.is_spoilt = !is_met;
    report.kinds.push(Kind { name: "impressions", meter: impressions });
    report.kinds.push(Kind { name: "clicks", meter: clicks });
    Ok(report)
}

/// What the server has said that it has, and what it may have besides.
fn told(acknowledged: u64, meter: &Meter) -> Told {
    let counts = meter.counts;
    // A call that was cut off may have been taken; so may one whose answer was wrong.
    let unknown = counts.broken + counts.unanswered + counts.refused + counts.wrong;
    Told { acknowledged, unknown }
}
