//! The five kinds of objects, alike where they are alike: key, owner, version, record.

use prost::{Message, Name};
use slotwise_core::index::Key;
use slotwise_core::model::Status;
use slotwise_proto::v1::catalog_record::Record;
use slotwise_proto::v1::{Account, Ad, Campaign, CampaignStatus, CatalogRecord, Site, Zone};

use crate::ports::Row;

/// One kind of catalogue object.
pub trait Object: Message + Name + Default + Clone + PartialEq {
    /// The field that names it among its siblings.
    const ID_FIELD: &'static str;

    /// Names it.
    fn key(&self) -> Key;

    /// It as a record.
    fn into_record(self) -> Record;

    /// It from a record of its kind.
    fn from_record(record: Record) -> Option<Self>;
}

macro_rules! object {
    ($type:ident, $id_field:literal, |$object:ident| $key:expr) => {
        impl Object for $type {
            const ID_FIELD: &'static str = $id_field;

            fn key(&self) -> Key {
                let $object = self;
                $key
            }

            fn into_record(self) -> Record {
                Record::$type(self)
            }

            fn from_record(record: Record) -> Option<Self> {
                match record {
                    Record::$type(object) => Some(object),
                    _ => None,
                }
            }
        }
    };
}

object!(Account, "account_id", |o| Key::Account(o.account_id.as_str().into()));
object!(Site, "site_id", |o| Key::Site(o.site_id.as_str().into()));
object!(Zone, "zone_id", |o| Key::Zone(o.site_id.as_str().into(), o.zone_id.as_str().into()));
object!(Campaign, "campaign_id", |o| Key::Campaign(o.campaign_id.as_str().into()));
object!(Ad, "ad_unit_id", |o| {
    Key::Ad(o.campaign_id.as_str().into(), o.ad_unit_id.as_str().into())
});

/// Names the object in `record`.
pub fn key_of(record: &Record) -> Key {
    match record {
        Record::Account(object) => object.key(),
        Record::Site(object) => object.key(),
        Record::Zone(object) => object.key(),
        Record::Campaign(object) => object.key(),
        Record::Ad(object) => object.key(),
    }
}

/// The field that names the object in `record` among its siblings.
pub fn id_field_of(record: &Record) -> &'static str {
    match record {
        Record::Account(_) => Account::ID_FIELD,
        Record::Site(_) => Site::ID_FIELD,
        Record::Zone(_) => Zone::ID_FIELD,
        Record::Campaign(_) => Campaign::ID_FIELD,
        Record::Ad(_) => Ad::ID_FIELD,
    }
}

/// What the object in `record` is listed under: a site's or campaign's account.
pub fn owner_of(record: &Record) -> &str {
    match record {
        Record::Site(site) => &site.account_id,
        Record::Campaign(campaign) => &campaign.account_id,
        _ => "",
    }
}

/// What a stored object is listed under; empty where that cannot be read.
pub fn owner_of_row(row: &Row) -> String {
    record_from(row).map(|record| owner_of(&record).to_owned()).unwrap_or_default()
}

/// The bytes that the store keeps: the object without what the server sets (its version, and a
/// campaign's status, which lies outside).
pub fn body_of(record: &Record) -> Vec<u8> {
    match record.clone() {
        Record::Account(object) => Account { version: 0, ..object }.encode_to_vec(),
        Record::Site(object) => Site { version: 0, ..object }.encode_to_vec(),
        Record::Zone(object) => Zone { version: 0, ..object }.encode_to_vec(),
        Record::Campaign(object) => Campaign { version: 0, status: 0, ..object }.encode_to_vec(),
        Record::Ad(object) => Ad { version: 0, ..object }.encode_to_vec(),
    }
}

/// The object in `row`, with its version and status.
///
/// # Errors
/// In words, when the body is not the object that its key says.
pub fn record_from(row: &Row) -> Result<Record, String> {
    let record = decode(row).map_err(|error| error.to_string())?;
    if key_of(&record) != row.key {
        return Err(format!("it is stored under the id of {}", row.key));
    }
    Ok(record)
}

fn decode(row: &Row) -> Result<Record, prost::DecodeError> {
    let (body, version) = (row.body.as_slice(), row.version);
    Ok(match &row.key {
        Key::Account(_) => Record::Account(Account { version, ..Account::decode(body)? }),
        Key::Site(_) => Record::Site(Site { version, ..Site::decode(body)? }),
        Key::Zone(..) => Record::Zone(Zone { version, ..Zone::decode(body)? }),
        Key::Campaign(_) => {
            let status = status_code(row.status.unwrap_or(Status::Paused)).into();
            Record::Campaign(Campaign { version, status, ..Campaign::decode(body)? })
        }
        Key::Ad(..) => Record::Ad(Ad { version, ..Ad::decode(body)? }),
    })
}

/// `record` as it will be kept: whatever its writer said of what the server sets. A campaign
/// without a status is active.
pub fn as_stored(record: &Record, status: Option<Status>) -> Record {
    let version = 0;
    match record.clone() {
        Record::Account(object) => Record::Account(Account { version, ..object }),
        Record::Site(object) => Record::Site(Site { version, ..object }),
        Record::Zone(object) => Record::Zone(Zone { version, ..object }),
        Record::Campaign(object) => {
            let status = status_code(status.unwrap_or(Status::Active)).into();
            Record::Campaign(Campaign { version, status, ..object })
        }
        Record::Ad(object) => Record::Ad(Ad { version, ..object }),
    }
}

/// `record` as the audit log keeps it.
pub fn encode(record: Record) -> Vec<u8> {
    CatalogRecord { record: Some(record) }.encode_to_vec()
}

/// The status as the contract spells it.
pub fn status_code(status: Status) -> CampaignStatus {
    match status {
        Status::Active => CampaignStatus::Active,
        Status::Paused => CampaignStatus::Paused,
    }
}

/// The status that the contract's number means; nothing: unspecified.
pub fn status_from(code: i32) -> Option<Status> {
    match CampaignStatus::try_from(code) {
        Ok(CampaignStatus::Active) => Some(Status::Active),
        Ok(CampaignStatus::Paused) => Some(Status::Paused),
        _ => None,
    }
}
