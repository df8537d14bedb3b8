//! `minutes`: what was counted in each, and with `--watch` each as it changes.

use std::time::Duration;

use jiff::{Timestamp, Unit};
use slotwise_proto::v1::{ListMinutesRequest, MinuteCount, WatchMinutesRequest};

use super::Context;
use crate::ctl::accounts::{Accounts, Locale};
use crate::ctl::cli::reports::{Format, Minutes};
use crate::ctl::connect::Reports;
use crate::ctl::error::Error;
use crate::ctl::output::note;
use crate::ctl::report::{self, COUNTS_HEADER, Cell, Report};
use crate::ctl::time;
use crate::ctl::time::When;
use crate::stubs::ReportServiceClient;

/// Waits between attempts to reconnect: short for a restart, long enough to leave a server alone.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

pub(super) async fn run(context: &mut Context, args: Minutes) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let locale = Accounts::default().get(&catalog, &args.account).await?;
    let reports = context.reports().await?;
    if args.watch {
        return follow(context, &reports, &args, &locale).await;
    }
    let (start, end) = range(&args, &locale, Timestamp::now())?;
    let mut request = ListMinutesRequest {
        account_id: args.account.clone(),
        campaign_id: args.campaign.clone().unwrap_or_default(),
        ad_unit_id: args.ad.clone().unwrap_or_default(),
        start_time: Some(time::to_wire(start)),
        end_time: Some(time::to_wire(end)),
        ..ListMinutesRequest::default()
    };
    let mut minutes = Vec::new();
    loop {
        let page = reports.call(request.clone(), ReportServiceClient::list_minutes).await?;
        minutes.extend(page.minutes);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    let values: Vec<_> = minutes.iter().map(|minute| minute.counts).collect();
    let rows = minutes.into_iter().map(|minute| {
        let cells = cells(&minute, &locale);
        (minute, cells)
    });
    let report = Report {
        header: header(),
        rows: rows.collect(),
        total: None,
        values: report::drawn(&values),
    };
    report::print(&mut context.out, &args.form, &locale, report)
}

/// The first minute and the one to end before. What is no whole minute is cut off at the start,
/// and rounded up at the end.
fn range(args: &Minutes, locale: &Locale, now: Timestamp) -> Result<(Timestamp, Timestamp), Error> {
    let at = |when: When| when.resolve(&locale.zone).map_err(Error::Usage);
    let whole = |at: Timestamp, mode| {
        let round = jiff::TimestampRound::new().smallest(Unit::Minute).mode(mode);
        at.round(round).map_err(|error| Error::Usage(error.to_string()))
    };
    let end = args.until.map(at).transpose()?.unwrap_or(now);
    let end = whole(end, jiff::RoundMode::Ceil)?;
    let start = match args.from {
        Some(from) => at(from)?,
        None => end.checked_sub(args.last).map_err(|error| Error::Usage(error.to_string()))?,
    };
    Ok((whole(start, jiff::RoundMode::Floor)?, end))
}

/// Prints each minute when it changes, for ever.
async fn follow(
    context: &mut Context,
    reports: &Reports,
    args: &Minutes,
    locale: &Locale,
) -> Result<(), Error> {
    let format = report::format(&context.out, &args.form);
    if format == Format::Csv {
        context.out.raw(&report::csv_line(&report::header_cells(&header())))?;
    }
    let mut wait = BACKOFF_MIN;
    loop {
        let mut has_come = false;
        let why = match watch(context, reports, args, locale, format, &mut has_come).await {
            Ok(()) => "the server ended the stream".to_owned(),
            Err(error) if error.is_passing() => error.to_string(),
            Err(error) => return Err(error),
        };
        if has_come {
            wait = BACKOFF_MIN;
        }
        note(&format!("{why}; watching again in {wait:?}"));
        tokio::time::sleep(wait).await;
        wait = BACKOFF_MAX.min(wait * 2);
    }
}

async fn watch(
    context: &mut Context,
    reports: &Reports,
    args: &Minutes,
    locale: &Locale,
    format: Format,
    has_come: &mut bool,
) -> Result<(), Error> {
    let request = WatchMinutesRequest {
        account_id: args.account.clone(),
        campaign_id: args.campaign.clone().unwrap_or_default(),
        ad_unit_id: args.ad.clone().unwrap_or_default(),
    };
    let mut minutes = reports.open(request, ReportServiceClient::watch_minutes).await?;
    while let Some(minute) = minutes.message().await.map_err(|error| reports.failure(error))? {
        *has_come = true;
        let cells = cells(&minute, locale);
        match format {
            Format::Json => context.out.message(&minute)?,
            Format::Csv => context.out.raw(&report::csv_line(&cells))?,
            Format::Table => context.out.line(&sentence(&cells, locale))?,
        }
        context.out.flush()?;
    }
    Ok(())
}

/// A minute in one line: a table that grows has no widths.
fn sentence(cells: &[Cell], locale: &Locale) -> String {
    let header = header();
    let named = header.iter().zip(cells).map(|(name, cell)| (name, report::shown(cell, locale)));
    let parts = named.filter(|(_, value)| !value.is_empty()).enumerate();
    let parts = parts.map(|(at, (name, value))| match at {
        0 => value,
        _ => format!("{name} {value}"),
    });
    parts.collect::<Vec<_>>().join("  ")
}

fn header() -> Vec<&'static str> {
    let late = ["late impressions", "late clicks", "late conversions", "late spend"];
    [&["minute"][..], &COUNTS_HEADER, &late, &["state"]].concat()
}

fn cells(minute: &MinuteCount, locale: &Locale) -> Vec<Cell> {
    let mut cells = vec![Cell::Text(minute_in(minute, locale))];
    cells.extend(report::counts(&minute.counts));
    // Mostly nothing is late: columns without a word are left out of tables.
    let has_late = minute.late.is_some_and(|late| late != slotwise_proto::v1::Counts::default());
    match has_late {
        true => cells.extend(report::counts(&minute.late)),
        false => cells.extend(std::iter::repeat_n(Cell::Text(String::new()), COUNTS_HEADER.len())),
    }
    cells.push(Cell::Text(if minute.closed { "closed" } else { "open" }.to_owned()));
    cells
}

/// `2026-11-30T12:00-06:00`: with its offset, as an hour may come twice.
fn minute_in(minute: &MinuteCount, locale: &Locale) -> String {
    let Some(at) = minute.minute.as_ref().and_then(time::from_wire) else {
        return String::new();
    };
    let local = at.to_zoned_datetime(locale.zone.clone());
    match locale.zone == jiff::tz::TimeZone::UTC {
        true => local.strftime("%Y-%m-%dT%H:%MZ").to_string(),
        false => local.strftime("%Y-%m-%dT%H:%M%:z").to_string(),
    }
}
