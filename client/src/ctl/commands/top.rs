//! `top`: the ads with most events of the last minutes.

use slotwise_proto::v1::{EventKind, ListTopAdsRequest, TopAd};

use super::Context;
use crate::ctl::accounts::Accounts;
use crate::ctl::cli::reports::{Kind, Top};
use crate::ctl::error::Error;
use crate::ctl::report::{self, Cell, Report};
use crate::stubs::ReportServiceClient;

pub(super) async fn run(context: &mut Context, args: Top) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let locale = Accounts::default().get(&catalog, &args.account).await?;
    let reports = context.reports().await?;
    let (kind, events) = match args.kind {
        Kind::Impression => (EventKind::Impression, "impressions"),
        Kind::Click => (EventKind::Click, "clicks"),
        Kind::Conversion => (EventKind::Conversion, "conversions"),
    };
    let request = ListTopAdsRequest {
        account_id: args.account.clone(),
        kind: kind.into(),
        count: args.count,
        minutes: args.minutes,
    };
    let ads = reports.call(request, ReportServiceClient::list_top_ads).await?.ads;
    let values = ads.iter().map(|ad| ad.events).collect();
    let rows = ads.into_iter().map(|ad: TopAd| {
        let text = |name: &String| Cell::Text(name.clone());
        let cells =
            vec![text(&ad.campaign_id), text(&ad.ad_unit_id), Cell::Number(ad.events.to_string())];
        (ad, cells)
    });
    let header = vec!["campaign", "ad", events];
    let report = Report { header, rows: rows.collect(), total: None, values };
    report::print(&mut context.out, &args.form, &locale, report)
}
