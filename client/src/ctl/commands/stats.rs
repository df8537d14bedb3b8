//! `stats`: what was counted, by day, site, zone, campaign and ad.

use jiff::{Timestamp, ToSpan};
use slotwise_proto::v1::{Counts, GetStatsRequest, StatsDimension, StatsRow};

use super::Context;
use crate::ctl::accounts::{Accounts, Locale};
use crate::ctl::cli::reports::{By, Stats};
use crate::ctl::error::Error;
use crate::ctl::paging;
use crate::ctl::report::{self, COUNTS_HEADER, Cell, Report};
use crate::stubs::ReportServiceClient;

/// Days before the last one that are shown where nobody says: a week in all.
const DAYS_BEFORE: i64 = 6;

pub(super) async fn run(context: &mut Context, args: Stats) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let locale = Accounts::default().get(&catalog, &args.account).await?;
    let reports = context.reports().await?;
    let request = request(&args, &locale, Timestamp::now())?;
    let mut total = None;
    let rows = paging::collect(args.limit.limit, async |page_size, page_token| {
        let request = GetStatsRequest { page_size, page_token, ..request.clone() };
        let page = reports.call(request, ReportServiceClient::get_stats).await?;
        total = page.total;
        Ok((page.rows, page.next_page_token))
    })
    .await?;
    report::print(&mut context.out, &args.form, &locale, report(rows, total))
}

fn request(args: &Stats, locale: &Locale, now: Timestamp) -> Result<GetStatsRequest, Error> {
    let today = now.to_zoned_datetime(locale.zone.clone()).date();
    let last = args.last.unwrap_or(today);
    let first = match args.first {
        Some(first) => first,
        None => last.checked_sub(DAYS_BEFORE.days()).map_err(|e| Error::Usage(e.to_string()))?,
    };
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let group_by = args.by.iter().map(|by| dimension(*by).into());
    Ok(GetStatsRequest {
        account_id: args.account.clone(),
        site_id: name(&args.site),
        zone_id: name(&args.zone),
        campaign_id: name(&args.campaign),
        ad_unit_id: name(&args.ad),
        first_day: first.to_string(),
        last_day: last.to_string(),
        group_by: group_by.collect(),
        ..GetStatsRequest::default()
    })
}

fn dimension(by: By) -> StatsDimension {
    match by {
        By::Day => StatsDimension::Day,
        By::Site => StatsDimension::Site,
        By::Zone => StatsDimension::Zone,
        By::Campaign => StatsDimension::Campaign,
        By::Ad => StatsDimension::Ad,
    }
}

fn report(rows: Vec<StatsRow>, total: Option<Counts>) -> Report<StatsRow> {
    let names = ["day", "site", "zone", "campaign", "ad"];
    let values: Vec<_> = rows.iter().map(|row| row.counts).collect();
    let rows = rows.into_iter().map(|row| {
        let StatsRow { day, site_id, zone_id, campaign_id, ad_unit_id, .. } = &row;
        let of = [day, site_id, zone_id, campaign_id, ad_unit_id];
        let mut cells: Vec<_> = of.map(|name| Cell::Text(name.clone())).into();
        cells.extend(report::counts(&row.counts));
        (row, cells)
    });
    let rows: Vec<_> = rows.collect();
    // Under several rows; the first column that is shown says what it is.
    let total = (rows.len() > 1).then(|| {
        let is_shown =
            |at: &usize| rows.iter().any(|(_, cells)| cells[*at] != Cell::Text(String::new()));
        let first = (0..names.len()).find(is_shown).unwrap_or(0);
        let name = |at| Cell::Text(if at == first { "total" } else { "" }.to_owned());
        (0..names.len()).map(name).chain(report::counts(&total)).collect()
    });
    let header = [&names[..], &COUNTS_HEADER].concat();
    Report { header, rows, total, values: report::drawn(&values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_stands_under_the_first_column_that_is_shown() {
        let row = |campaign: &str, clicks| StatsRow {
            campaign_id: campaign.into(),
            counts: Some(Counts { clicks, ..Counts::default() }),
            ..StatsRow::default()
        };
        let total = Some(Counts { clicks: 3, ..Counts::default() });
        let made = report(vec![row("a", 1), row("b", 2)], total);
        assert_eq!(made.values, [1, 2]);
        let total = made.total.unwrap();
        assert_eq!(total[3], Cell::Text("total".into()));
        assert_eq!(total[6], Cell::Number("3".into()));
        assert!(report(vec![row("a", 1)], None).total.is_none());
    }
}
