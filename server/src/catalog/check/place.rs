//! Accounts, sites and zones.

use jiff::tz::TimeZone;
use slotwise_core::model::{Account, AccountSerial, Blocks, Site, Zone, ZoneSerial};
use slotwise_proto::v1;

use super::Checker;
use crate::limits::{BLOCKED_MAX, DISPLAY_NAME_BYTES_MAX, ID_BYTES_MAX, SIZES_MAX};

pub(super) fn account(account: &v1::Account, serial: u32, checker: &mut Checker) -> Account {
    checker.id("account_id", &account.account_id);
    checker.text("display_name", &account.display_name, DISPLAY_NAME_BYTES_MAX);
    let zone = &account.time_zone;
    checker.text("time_zone", zone, ID_BYTES_MAX);
    checker.text("currency", &account.currency, ID_BYTES_MAX);
    if !zone.is_empty() && TimeZone::get(zone).is_err() {
        checker.refuse("time_zone", "is no IANA time zone; \"Europe/Vienna\" would be one");
    }
    let currency = &account.currency;
    let is_code = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
    if !currency.is_empty() && !is_code {
        checker.refuse("currency", "is no ISO 4217 code; \"EUR\" would be one");
    }
    Account {
        serial: AccountSerial(serial),
        id: account.account_id.as_str().into(),
        time_zone: zone.as_str().into(),
    }
}

pub(super) fn site(site: &v1::Site, checker: &mut Checker) -> Site {
    checker.id("site_id", &site.site_id);
    checker.id("account_id", &site.account_id);
    checker.names("blocked_advertisers", &site.blocked_advertisers, BLOCKED_MAX);
    checker.names("blocked_categories", &site.blocked_categories, BLOCKED_MAX);
    checker.names("blocked_domains", &site.blocked_domains, BLOCKED_MAX);
    Site {
        id: site.site_id.as_str().into(),
        account: site.account_id.as_str().into(),
        blocks: Blocks::new(
            site.blocked_advertisers.iter().map(String::as_str),
            site.blocked_categories.iter().map(String::as_str),
            site.blocked_domains.iter().map(String::as_str),
        ),
    }
}

pub(super) fn zone(zone: &v1::Zone, serial: u32, checker: &mut Checker) -> Zone {
    checker.id("site_id", &zone.site_id);
    checker.id("zone_id", &zone.zone_id);
    checker.price_micros("floor_ecpm_micros", zone.floor_ecpm_micros);
    checker.len("sizes", zone.sizes.len(), SIZES_MAX);
    let sizes = zone.sizes.iter().enumerate();
    let sizes = sizes.map(|(at, size)| checker.size(&format!("sizes[{at}]"), size)).collect();
    Zone {
        serial: ZoneSerial(serial),
        site: zone.site_id.as_str().into(),
        id: zone.zone_id.as_str().into(),
        sizes,
        floor_ecpm_micros: zone.floor_ecpm_micros,
    }
}
