//! Whether what was acknowledged is counted: the counts of the account before and after.

use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use slotwise_client::stubs::ReportServiceClient;
use slotwise_client::v1::{Counts, GetStatsRequest};
use slotwise_client::{Options, Reports};

use crate::limits::COUNTED_MAX;
use crate::workload::ACCOUNT;

/// How often it is looked again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Counts that stay as they are for so many looks belong to nobody any more.
const QUIET_LOOKS: usize = 4;

/// Reads the counts of the account.
pub(crate) struct Counted {
    runtime: tokio::runtime::Runtime,
    reports: Reports,
    first_day: String,
    before: (u64, u64),
}

/// Events of one kind: acknowledged, and those of which it is not known whether the server has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) acknowledged: u64,
    pub(crate) unknown: u64,
}

impl Told {
    fn is_met_by(self, counted: u64) -> bool {
        (self.acknowledged..=self.acknowledged + self.unknown).contains(&counted)
    }
}

impl Counted {
    /// What is counted before the run, once nothing of earlier runs is added any more.
    pub(crate) fn before(admin: std::net::SocketAddr) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let options = Options::parse([admin.to_string()])?;
        let reports = runtime.block_on(async { Reports::connect(&options).await })?;
        let first_day = day(Timestamp::now() - 24.hours());
        let mut counted = Self { runtime, reports, first_day, before: (0, 0) };
        let (mut quiet, until) = (0, Instant::now() + COUNTED_MAX);
        counted.before = counted.now()?;
        while quiet < QUIET_LOOKS && Instant::now() < until {
            std::thread::sleep(LOOK_AGAIN);
            let now = counted.now()?;
            quiet = if now == counted.before { quiet + 1 } else { 0 };
            counted.before = now;
        }
        Ok(counted)
    }

    /// Impressions and clicks, as the account's statistics have them.
    fn now(&self) -> anyhow::Result<(u64, u64)> {
        let ask = GetStatsRequest {
            account_id: ACCOUNT.to_owned(),
            first_day: self.first_day.clone(),
            last_day: day(Timestamp::now() + 24.hours()),
            ..GetStatsRequest::default()
        };
        let call = self.reports.call(ask, ReportServiceClient::get_stats);
        let Counts { impressions, clicks, .. } =
            self.runtime.block_on(call)?.total.unwrap_or_default();
        Ok((impressions, clicks))
    }

    /// Waits until all of it is counted; what is said of it, and whether it is as it should be.
    pub(crate) fn after(&self, impressions: Told, clicks: Told) -> anyhow::Result<(String, bool)> {
        let began = Instant::now();
        loop {
            let now = self.now()?;
            let counted = (now.0 - self.before.0.min(now.0), now.1 - self.before.1.min(now.1));
            let is_met = impressions.is_met_by(counted.0) && clicks.is_met_by(counted.1);
            if is_met || began.elapsed() > COUNTED_MAX {
                let words = format!(
                    "counted {:.1} s after the end: {} of {} impressions, {} of {} clicks that were \
                     acknowledged",
                    began.elapsed().as_secs_f64(),
                    counted.0,
                    impressions.acknowledged,
                    counted.1,
                    clicks.acknowledged
                );
                let unknown = impressions.unknown + clicks.unknown;
                let doubt = format!(" ({unknown} more were sent and not answered)");
                let verdict = if is_met { "" } else { "NOT COUNTED AS ACKNOWLEDGED: " };
                let doubt = if unknown > 0 { doubt } else { String::new() };
                return Ok((format!("{verdict}{words}{doubt}"), is_met));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// The day of an instant, as reports name it; the account's time zone is UTC.
fn day(instant: Timestamp) -> String {
    instant.to_zoned_datetime(TimeZone::UTC).date().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fewer_are_counted_than_acknowledged_and_no_more_than_sent() {
        let told = Told { acknowledged: 10, unknown: 2 };
        let met: Vec<_> = (8..15).filter(|counted| told.is_met_by(*counted)).collect();
        assert_eq!(met, [10, 11, 12]);
    }

    #[test]
    fn days_are_named_as_reports_name_them() {
        assert_eq!(day("2026-12-01T23:59:59Z".parse().unwrap()), "2026-12-01");
    }
}
