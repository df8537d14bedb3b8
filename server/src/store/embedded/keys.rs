//! Keys and statuses as columns.

use rusqlite::types::Type;
use slotwise_core::index::Key;
use slotwise_core::model::Status;

use crate::ports::Serial;

/// The number of a key's kind in the files; never changed, never reused.
pub(super) fn kind_code(key: &Key) -> i64 {
    match key {
        Key::Account(_) => 1,
        Key::Site(_) => 2,
        Key::Zone(..) => 3,
        Key::Campaign(_) => 4,
        Key::Ad(..) => 5,
    }
}

/// The kind, as [`kind_code`] has it, and the number.
pub(super) fn serial_code(serial: Serial) -> (i64, u32) {
    match serial {
        Serial::Account(serial) => (1, serial.0),
        Serial::Zone(serial) => (3, serial.0),
        Serial::Campaign(serial) => (4, serial.0),
        Serial::Ad(serial) => (5, serial.0),
    }
}

/// The key in columns `at`, `at + 1` and `at + 2` of `row`: kind, parent, id.
pub(super) fn key_from(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Key> {
    let (kind, parent, id) = (
        row.get_ref(at)?.as_i64()?,
        row.get_ref(at + 1)?.as_str()?,
        row.get_ref(at + 2)?.as_str()?,
    );
    match kind {
        1 => Ok(Key::Account(id.into())),
        2 => Ok(Key::Site(id.into())),
        3 => Ok(Key::Zone(parent.into(), id.into())),
        4 => Ok(Key::Campaign(id.into())),
        5 => Ok(Key::Ad(parent.into(), id.into())),
        other => {
            let why = format!("kind {other} of an object is not known");
            Err(rusqlite::Error::FromSqlConversionFailure(at, Type::Integer, why.into()))
        }
    }
}

pub(super) fn status_code(status: Status) -> i64 {
    match status {
        Status::Active => 1,
        Status::Paused => 2,
    }
}

/// What is not known as active is not shown.
pub(super) fn status_from(code: i64) -> Status {
    if code == 1 { Status::Active } else { Status::Paused }
}
