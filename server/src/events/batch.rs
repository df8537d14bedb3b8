//! Events as bytes: what lies in the log, in a spill file and in an archive's input.
//!
//! A batch is a CRC-32 of what follows (four bytes, little-endian), and then each event as a
//! protobuf message with its length before it. Fields may be added; their numbers never change.

use prost::Message;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

use super::{Event, Kind};
use crate::tokens::{PriceKind, Showing};

/// A batch that is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    /// Its checksum is another.
    #[error("the checksum of a batch of events is wrong")]
    Checksum,
    /// It was written by another version, or by something else.
    #[error("a batch of events has what this version does not know")]
    Unknown,
}

/// An event in the log.
#[derive(Clone, PartialEq, Message)]
struct Record {
    /// 1: impression, 2: click, 3: conversion.
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(sfixed64, tag = "2")]
    at_us: i64,
    #[prost(fixed64, tag = "3")]
    decision: u64,
    #[prost(uint32, tag = "4")]
    slot: u32,
    #[prost(sfixed64, tag = "5")]
    issued_at_ms: i64,
    #[prost(sint64, tag = "6")]
    price_nanos: i64,
    /// 0: free, 1: impression, 2: click, 3: conversion.
    #[prost(uint32, tag = "7")]
    price_kind: u32,
    #[prost(bool, tag = "8")]
    on_impression: bool,
    /// Empty, or 16 bytes, big-endian.
    #[prost(bytes = "vec", tag = "9")]
    visitor: Vec<u8>,
    #[prost(uint32, tag = "10")]
    account: u32,
    #[prost(uint32, tag = "11")]
    zone: u32,
    #[prost(uint32, tag = "12")]
    ad: u32,
    #[prost(string, tag = "13")]
    tag: String,
    #[prost(int64, tag = "14")]
    value_micros: i64,
    #[prost(string, optional, tag = "15")]
    filtered_by: Option<String>,
}

/// `events` as bytes.
pub fn encode<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for event in events {
        // A vector grows: there is always room.
        let _ = Record::of(event).encode_length_delimited(&mut bytes);
    }
    let checksum = crc32fast::hash(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// What [`encode`] was given.
///
/// # Errors
/// [`Damaged`], for a batch as a whole: none of it is to be counted then.
pub fn decode(bytes: &[u8]) -> Result<Vec<Event>, Damaged> {
    let (checksum, mut rest) = bytes.split_first_chunk().ok_or(Damaged::Checksum)?;
    if crc32fast::hash(rest) != u32::from_le_bytes(*checksum) {
        return Err(Damaged::Checksum);
    }
    let mut events = Vec::new();
    while !rest.is_empty() {
        let record = Record::decode_length_delimited(&mut rest).map_err(|_| Damaged::Unknown)?;
        events.push(record.event().ok_or(Damaged::Unknown)?);
    }
    Ok(events)
}

impl Record {
    fn of(event: &Event) -> Self {
        let showing = &event.showing;
        Self {
            kind: match event.kind {
                Kind::Impression => 1,
                Kind::Click => 2,
                Kind::Conversion => 3,
            },
            at_us: event.at_us,
            decision: showing.decision,
            slot: showing.slot.into(),
            issued_at_ms: showing.issued_at_ms,
            price_nanos: showing.price_nanos,
            price_kind: match showing.price_kind {
                PriceKind::Free => 0,
                PriceKind::Impression => 1,
                PriceKind::Click => 2,
                PriceKind::Conversion => 3,
            },
            on_impression: showing.on_impression,
            visitor: showing.visitor.map(|hash| hash.to_be_bytes().to_vec()).unwrap_or_default(),
            account: showing.account.0,
            zone: showing.zone.0,
            ad: showing.ad.0,
            tag: event.tag.clone(),
            value_micros: event.value_micros,
            filtered_by: event.filtered_by.clone(),
        }
    }

    fn event(self) -> Option<Event> {
        let visitor = match &*self.visitor {
            [] => None,
            hash => Some(u128::from_be_bytes(hash.try_into().ok()?)),
        };
        let showing = Showing {
            decision: self.decision,
            slot: u16::try_from(self.slot).ok()?,
            issued_at_ms: self.issued_at_ms,
            price_nanos: self.price_nanos,
            price_kind: match self.price_kind {
                0 => PriceKind::Free,
                1 => PriceKind::Impression,
                2 => PriceKind::Click,
                3 => PriceKind::Conversion,
                _ => return None,
            },
            on_impression: self.on_impression,
            visitor,
            account: AccountSerial(self.account),
            zone: ZoneSerial(self.zone),
            ad: AdSerial(self.ad),
        };
        Some(Event {
            kind: match self.kind {
                1 => Kind::Impression,
                2 => Kind::Click,
                3 => Kind::Conversion,
                _ => return None,
            },
            showing,
            at_us: self.at_us,
            tag: self.tag,
            value_micros: self.value_micros,
            filtered_by: self.filtered_by,
        })
    }
}
