//! Our values as PostgreSQL's. Serials, of 32 bits without a sign, go as `bigint`.

use std::error::Error;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::events::EventId;
use crate::ports::Position;

/// 16 bytes, as a `uuid`: it is compared byte by byte, as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bytes16(pub(super) [u8; 16]);

impl ToSql for Bytes16 {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Bytes16 {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.try_into()?))
    }

    accepts!(UUID);
}

impl From<Position> for Bytes16 {
    fn from(position: Position) -> Self {
        Self(position.0.to_be_bytes())
    }
}

impl From<Bytes16> for Position {
    fn from(bytes: Bytes16) -> Self {
        Self(u128::from_be_bytes(bytes.0))
    }
}

impl From<EventId> for Bytes16 {
    fn from(id: EventId) -> Self {
        Self(id.0)
    }
}

/// A minute or a quarter of Unix time: 32 bits reach to the year 6053.
pub(super) fn minute(minute: i64) -> i32 {
    i32::try_from(minute).unwrap_or(if minute < 0 { i32::MIN } else { i32::MAX })
}

/// The minute of an instant.
pub(super) fn minute_of(us: i64) -> i32 {
    minute(us.div_euclid(60_000_000))
}
