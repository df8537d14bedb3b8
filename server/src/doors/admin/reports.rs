//! `ReportService`: what was counted, by minute and by day.

mod ask;
mod watch;

use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::Stream;
use slotwise_proto::v1 as wire;
use slotwise_proto::v1::report_service_server::ReportService;
use tonic::{Request, Response, Status};

use super::{Admin, AdminDoor};
use crate::catalog::encode_token;
use crate::doors::refusal::Refusal;
use crate::limits::WATCHERS_MAX;
use crate::ports::{Counts, MinuteQuery};
use crate::reports::{self, MINUTE_US, Minute, Of, StatsError, StatsRow};
use crate::time::timestamp;

#[tonic::async_trait]
impl ReportService for AdminDoor {
    async fn list_minutes(
        &self,
        request: Request<wire::ListMinutesRequest>,
    ) -> Result<Response<wire::ListMinutesResponse>, Status> {
        Ok(Response::new(minutes(&self.admin, request.get_ref()).await?))
    }

    type WatchMinutesStream = Pin<Box<dyn Stream<Item = Result<wire::MinuteCount, Status>> + Send>>;

    async fn watch_minutes(
        &self,
        request: Request<wire::WatchMinutesRequest>,
    ) -> Result<Response<Self::WatchMinutesStream>, Status> {
        let request = request.into_inner();
        let ledger = &self.admin.ledger;
        let slot = Arc::clone(&ledger.watching).try_acquire_owned().map_err(|_| {
            Refusal::unavailable(format!("{WATCHERS_MAX} callers are watching; try again later"))
        })?;
        let what =
            ask::what(&self.admin, &request.account_id, request.campaign_id, request.ad_unit_id);
        let watching = watch::watch(Arc::clone(&self.admin), what.await?, self.drain.clone(), slot);
        Ok(Response::new(Box::pin(watching)))
    }

    async fn get_stats(
        &self,
        request: Request<wire::GetStatsRequest>,
    ) -> Result<Response<wire::GetStatsResponse>, Status> {
        Ok(Response::new(stats(&self.admin, request.get_ref()).await?))
    }

    async fn list_top_ads(
        &self,
        request: Request<wire::ListTopAdsRequest>,
    ) -> Result<Response<wire::ListTopAdsResponse>, Status> {
        Ok(Response::new(top(&self.admin, request.get_ref()).await?))
    }

    async fn get_bill(
        &self,
        _request: Request<wire::GetBillRequest>,
    ) -> Result<Response<wire::Bill>, Status> {
        let why = "GetBill is not supported by this version: a bill is made by recounting the raw \
                   events, and GetStats shows what was counted as they came";
        Err(Status::unimplemented(why))
    }
}

async fn minutes(
    admin: &Admin,
    request: &wire::ListMinutesRequest,
) -> Result<wire::ListMinutesResponse, Refusal> {
    let ledger = &admin.ledger;
    let range = ask::minutes(request)?;
    let (campaign, unit) = (request.campaign_id.clone(), request.ad_unit_id.clone());
    let what = ask::what(admin, &request.account_id, campaign, unit).await?;
    let _turn = ledger.reporting.acquire().await;
    let query = MinuteQuery {
        account: what.account,
        ads: what.ads(&ledger.serials),
        from_min: range.from_min,
        until_min: range.page_until_min,
    };
    // Before the rows: what a minute was closed with is in them then.
    let promised_us = ledger.counts.promised_us().await?;
    let rows = ledger.counts.minutes(&query).await?;
    let minutes = reports::fill(&rows, query.from_min, query.until_min, promised_us);
    let is_last = range.page_until_min == range.until_min;
    Ok(wire::ListMinutesResponse {
        minutes: minutes.map(|minute| minute_of(&what, &minute)).collect(),
        next_page_token: match is_last {
            true => String::new(),
            false => encode_token(&range.page_until_min.to_string()),
        },
        // Nothing was promised yet where nothing was ever counted.
        watermark: (promised_us > 0).then(|| timestamp(promised_us)),
    })
}

async fn stats(
    admin: &Admin,
    request: &wire::GetStatsRequest,
) -> Result<wire::GetStatsResponse, Refusal> {
    let ledger = &admin.ledger;
    let (query, page) = ask::stats(admin, request).await?;
    let _turn = ledger.reporting.acquire().await;
    let table = reports::stats(&*ledger.counts, &ledger.serials, &query).await;
    let table = table.map_err(|error| match error {
        StatsError::TooManyRows => Refusal::invalid("group_by", error.to_string()),
        StatsError::Store(error) => error.into(),
    })?;
    let rest = table.rows.partition_point(|(of, _)| page.after.as_ref().is_some_and(|a| of <= a));
    let rest = &table.rows[rest..];
    let rows = &rest[..rest.len().min(page.size)];
    let next_page_token = match rows.last() {
        Some((of, _)) if rows.len() < rest.len() => encode_token(&ask::place(of)),
        _ => String::new(),
    };
    Ok(wire::GetStatsResponse {
        rows: rows.iter().map(stats_row).collect(),
        total: Some(counts_of(table.total)),
        next_page_token,
    })
}

async fn top(
    admin: &Admin,
    request: &wire::ListTopAdsRequest,
) -> Result<wire::ListTopAdsResponse, Refusal> {
    let ledger = &admin.ledger;
    let query = ask::top(admin, request).await?;
    let _turn = ledger.reporting.acquire().await;
    let ads = reports::top(&*ledger.counts, &ledger.serials, query).await?;
    let ad = |ad: reports::TopAd| wire::TopAd {
        campaign_id: ad.campaign.to_string(),
        ad_unit_id: ad.unit.to_string(),
        events: ad.events,
    };
    Ok(wire::ListTopAdsResponse { ads: ads.into_iter().map(ad).collect() })
}

fn minute_of(what: &ask::What, minute: &Minute) -> wire::MinuteCount {
    wire::MinuteCount {
        minute: Some(timestamp(minute.minute * MINUTE_US)),
        counts: Some(counts_of(minute.counts)),
        late: Some(counts_of(minute.late)),
        closed: minute.is_closed,
        campaign_id: what.campaign.clone(),
        ad_unit_id: what.unit.clone(),
    }
}

fn stats_row((of, counts): &StatsRow) -> wire::StatsRow {
    let Of { day, site, zone, campaign, unit } = of;
    wire::StatsRow {
        day: day.to_string(),
        site_id: site.to_string(),
        zone_id: zone.to_string(),
        campaign_id: campaign.to_string(),
        ad_unit_id: unit.to_string(),
        counts: Some(counts_of(*counts)),
        // Nothing is recounted by this version.
        exact: false,
    }
}

fn counts_of(counts: Counts) -> wire::Counts {
    wire::Counts {
        impressions: counts.impressions,
        clicks: counts.clicks,
        conversions: counts.conversions,
        spend_nanos: counts.spend_nanos,
    }
}
