//! Whether one object is sound in itself; a sound one comes out as the core's model of it.

mod ad;
mod campaign;
mod place;
mod targeting;
mod values;

use slotwise_core::index::Change;
use slotwise_core::model::Status;
use slotwise_proto::v1::catalog_record::Record;

pub use targeting::{NO_COUNTRY, NO_DEVICE_TYPE, NO_LANGUAGE, NO_REGION};
pub use values::Checker;

use super::object::record_from;
use super::problem::Problem;
use crate::ports::Row;

/// Checks the object in `record`.
///
/// # Errors
/// Every problem that it has.
pub fn check(record: &Record, serial: u32, status: Status) -> Result<Change, Vec<Problem>> {
    let mut checker = Checker::default();
    let change = match record {
        Record::Account(account) => Change::Account(place::account(account, serial, &mut checker)),
        Record::Site(site) => Change::Site(place::site(site, &mut checker)),
        Record::Zone(zone) => Change::Zone(place::zone(zone, serial, &mut checker)),
        Record::Campaign(campaign) => {
            Change::Campaign(campaign::campaign(campaign, serial, status, &mut checker))
        }
        Record::Ad(ad) => Change::Ad(ad::ad(ad, serial, &mut checker)),
    };
    checker.finish(change)
}

/// What a stored row means for the index.
///
/// # Errors
/// Why it must not be served, in words: somebody wrote to the store by hand.
pub fn change_of(row: &Row) -> Result<Change, String> {
    let record = record_from(row)?;
    let status = row.status.unwrap_or(Status::Paused);
    check(&record, row.serial, status).map_err(|problems| {
        let lines = problems.iter().map(|p| format!("{}: {}", p.field, p.message));
        lines.collect::<Vec<_>>().join("; ")
    })
}
