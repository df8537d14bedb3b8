//! What is asked for, checked field by field.

use jiff::tz::TimeZone;
use slotwise_core::index::Key;
use slotwise_core::model::{AccountSerial, AdSerial, CampaignId};
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::{
    EventKind, GetStatsRequest, ListMinutesRequest, ListTopAdsRequest, StatsDimension,
};

use super::Admin;
use crate::catalog::{CatalogError, decode_token, page_size, record_from};
use crate::doors::refusal::Refusal;
use crate::events::Kind;
use crate::limits::{
    MINUTES_PAGE_MAX, REPORT_DAYS_MAX, TOP_ADS_DEFAULT, TOP_ADS_MAX, TOP_MINUTES_DEFAULT,
    TOP_MINUTES_MAX,
};
use crate::reports::{BadDays, Dimension, Filter, MINUTE_US, Of, StatsQuery, TopQuery, cut};
use crate::serials::Serials;
use crate::time::micros;

/// Between the parts of a place in a list: no id holds a control character.
const SEPARATOR: char = '\u{1f}';

/// Whose minutes.
pub(super) struct What {
    pub(super) account: AccountSerial,
    pub(super) campaign: String,
    pub(super) unit: String,
}

impl What {
    /// Its ads, all that ever bore its name; nothing: every ad of the account.
    pub(super) fn ads(&self, serials: &Serials) -> Option<Vec<AdSerial>> {
        if self.campaign.is_empty() {
            return None;
        }
        let unit = Some(&*self.unit).filter(|unit| !unit.is_empty());
        let ads = serials.ads_of(&self.campaign.as_str().into(), unit);
        Some(ads.iter().map(|ad| ad.serial).collect())
    }
}

/// The account, campaign and ad of these names.
pub(super) async fn what(
    admin: &Admin,
    account_id: &str,
    campaign: String,
    unit: String,
) -> Result<What, Refusal> {
    let (account, _) = admin.account(account_id).await?;
    known_ad(admin, account_id, &campaign, &unit).await?;
    Ok(What { account, campaign, unit })
}

/// A range of minutes, and how far its page goes.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) from_min: i64,
    pub(super) page_until_min: i64,
    pub(super) until_min: i64,
}

pub(super) fn minutes(request: &ListMinutesRequest) -> Result<Range, Refusal> {
    let minute = |field: &str, at: &Option<prost_types::Timestamp>| {
        let at = at.as_ref().ok_or_else(|| Refusal::invalid(field, "is missing"))?;
        let at_us = micros(at).filter(|_| at.nanos == 0);
        let whole = at_us.filter(|at_us| at_us.rem_euclid(MINUTE_US) == 0);
        let minute = whole.map(|at_us| at_us.div_euclid(MINUTE_US));
        minute.ok_or_else(|| Refusal::invalid(field, "is no whole minute of the years 1 to 9999"))
    };
    let start = minute("start_time", &request.start_time)?;
    let until_min = minute("end_time", &request.end_time)?;
    if until_min <= start {
        return Err(Refusal::invalid("end_time", "is not after start_time"));
    }
    if until_min - start > REPORT_DAYS_MAX * 1_440 {
        let problem = format!("makes the range longer than {REPORT_DAYS_MAX} days, the limit");
        return Err(Refusal::invalid("end_time", problem));
    }
    let size = match request.page_size {
        0 => MINUTES_PAGE_MAX,
        size @ 1..=MINUTES_PAGE_MAX => size,
        size => {
            let problem = format!("is {size}; the limit is {MINUTES_PAGE_MAX}");
            return Err(Refusal::invalid("page_size", problem));
        }
    };
    let from_min = match decode_token(&request.page_token)?.as_str() {
        "" => start,
        token => {
            let minute = token.parse().ok().filter(|minute| (start..until_min).contains(minute));
            minute.ok_or_else(|| Refusal::invalid("page_token", "is none of this range"))?
        }
    };
    let page_until_min = until_min.min(from_min + i64::from(size));
    Ok(Range { from_min, page_until_min, until_min })
}

/// Which rows of a table to give.
pub(super) struct PageOf {
    pub(super) size: usize,
    pub(super) after: Option<Of>,
}

pub(super) async fn stats(
    admin: &Admin,
    request: &GetStatsRequest,
) -> Result<(StatsQuery, PageOf), Refusal> {
    let group_by = request.group_by.iter().enumerate().map(|(at, code)| dimension(at, *code));
    let group_by = group_by.collect::<Result<_, _>>()?;
    let size = page_size(request.page_size)?;
    let after = match decode_token(&request.page_token)?.as_str() {
        "" => None,
        token => Some(of_place(token)?),
    };
    if request.site_id.is_empty() && !request.zone_id.is_empty() {
        let problem = "needs site_id: a zone's name is unique on its site only";
        return Err(Refusal::invalid("zone_id", problem));
    }
    let (account, stored) = admin.account(&request.account_id).await?;
    let zone = match stored.time_zone.as_str() {
        "" => TimeZone::UTC,
        name => TimeZone::get(name).map_err(|_| {
            let id = &request.account_id;
            Refusal::unavailable(format!("time zone {name:?} of account {id} is not known here"))
        })?,
    };
    let days = cut(&zone, &request.first_day, &request.last_day).map_err(|error| {
        let field = match &error {
            BadDays::First(_) => "first_day",
            BadDays::Last(_) | BadDays::Order(_) | BadDays::TooMany(_) | BadDays::Beyond => {
                "last_day"
            }
        };
        Refusal::invalid(field, error.to_string())
    })?;
    known_place(admin, request).await?;
    known_ad(admin, &request.account_id, &request.campaign_id, &request.ad_unit_id).await?;
    let filter = Filter {
        site: request.site_id.as_str().into(),
        zone: request.zone_id.as_str().into(),
        campaign: request.campaign_id.as_str().into(),
        unit: request.ad_unit_id.as_str().into(),
    };
    Ok((StatsQuery { account, filter, days, group_by }, PageOf { size, after }))
}

fn dimension(at: usize, code: i32) -> Result<Dimension, Refusal> {
    match StatsDimension::try_from(code) {
        Ok(StatsDimension::Day) => Ok(Dimension::Day),
        Ok(StatsDimension::Site) => Ok(Dimension::Site),
        Ok(StatsDimension::Zone) => Ok(Dimension::Zone),
        Ok(StatsDimension::Campaign) => Ok(Dimension::Campaign),
        Ok(StatsDimension::Ad) => Ok(Dimension::Ad),
        Ok(StatsDimension::Unspecified) | Err(_) => {
            let field = format!("group_by[{at}]");
            Err(Refusal::invalid(&field, format!("is {code}, which is no dimension")))
        }
    }
}

/// A row's place in its table.
pub(super) fn place(of: &Of) -> String {
    let Of { day, site, zone, campaign, unit } = of;
    [day, site, zone, campaign, unit].map(|name| &**name).join(&SEPARATOR.to_string())
}

fn of_place(token: &str) -> Result<Of, Refusal> {
    let parts: Vec<_> = token.split(SEPARATOR).collect();
    let [day, site, zone, campaign, unit] = parts[..] else {
        return Err(Refusal::invalid("page_token", "is none of this call"));
    };
    Ok(Of {
        day: day.into(),
        site: site.into(),
        zone: zone.into(),
        campaign: campaign.into(),
        unit: unit.into(),
    })
}

pub(super) async fn top(admin: &Admin, request: &ListTopAdsRequest) -> Result<TopQuery, Refusal> {
    let kind = match request.kind() {
        EventKind::Impression => Kind::Impression,
        EventKind::Click => Kind::Click,
        EventKind::Conversion => Kind::Conversion,
        EventKind::Unspecified | EventKind::Loss => {
            return Err(Refusal::invalid("kind", "is none of impression, click and conversion"));
        }
    };
    let within = |field: &str, asked: u32, default: u32, limit: u32| match asked {
        0 => Ok(default),
        asked if asked > limit => {
            Err(Refusal::invalid(field, format!("is {asked}; the limit is {limit}")))
        }
        asked => Ok(asked),
    };
    let count = within("count", request.count, TOP_ADS_DEFAULT, TOP_ADS_MAX)?;
    let minutes = within("minutes", request.minutes, TOP_MINUTES_DEFAULT, TOP_MINUTES_MAX)?;
    let (account, _) = admin.account(&request.account_id).await?;
    let now_us = admin.users.clock.now_us();
    Ok(TopQuery { account, kind, count: count as usize, minutes: minutes.into(), now_us })
}

/// Sees that the campaign, and the ad where one is named, are or were there, and not another
/// account's. Slips of the hand should not read as "nothing happened".
async fn known_ad(
    admin: &Admin,
    account_id: &str,
    campaign: &str,
    unit: &str,
) -> Result<(), Refusal> {
    if campaign.is_empty() {
        if unit.is_empty() {
            return Ok(());
        }
        let problem = "needs campaign_id: an ad's name is unique in its campaign only";
        return Err(Refusal::invalid("ad_unit_id", problem));
    }
    let mut keys = vec![Key::Campaign(campaign.into())];
    if !unit.is_empty() {
        keys.push(Key::Ad(campaign.into(), unit.into()));
    }
    let (_, rows) = admin.catalog.store().get(&keys).await?;
    for row in &rows {
        if let (Key::Campaign(_), Ok(Record::Campaign(found))) = (&row.key, record_from(row))
            && found.account_id != account_id
        {
            let problem = format!("{campaign} is no campaign of account {account_id}");
            return Err(Refusal::invalid("campaign_id", problem));
        }
    }
    let serials = &admin.ledger.serials;
    let id = CampaignId::from(campaign);
    if rows.is_empty() && serials.ads_of(&id, None).is_empty() {
        return Err(CatalogError::NotFound { kind: "campaign", id: campaign.to_owned() }.into());
    }
    let has_ad = rows.iter().any(|row| matches!(row.key, Key::Ad(..)));
    if !unit.is_empty() && !has_ad && serials.ads_of(&id, Some(unit)).is_empty() {
        let id = format!("{campaign}/{unit}");
        return Err(CatalogError::NotFound { kind: "ad", id }.into());
    }
    Ok(())
}

/// The same for a site and a zone; these are never deleted.
async fn known_place(admin: &Admin, request: &GetStatsRequest) -> Result<(), Refusal> {
    let (site, zone) = (request.site_id.as_str(), request.zone_id.as_str());
    if site.is_empty() {
        return Ok(());
    }
    let keys = [Key::Site(site.into()), Key::Zone(site.into(), zone.into())];
    let keys = if zone.is_empty() { &keys[..1] } else { &keys[..] };
    let (_, rows) = admin.catalog.store().get(keys).await?;
    for key in keys {
        let Some(row) = rows.iter().find(|row| row.key == *key) else {
            return Err(CatalogError::NotFound { kind: key.kind(), id: key.to_string() }.into());
        };
        if let Ok(Record::Site(found)) = record_from(row)
            && found.account_id != request.account_id
        {
            let problem = format!("{site} is no site of account {}", request.account_id);
            return Err(Refusal::invalid("site_id", problem));
        }
    }
    Ok(())
}
