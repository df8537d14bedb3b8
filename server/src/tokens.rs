//! Tokens: each names one showing of one ad, and nobody but us can make one.
//!
//! A token is 96 characters of URL-safe base64: 55 bytes that say everything which counting an
//! event needs, so that no door and no counter has to look anything up, and 17 bytes of
//! HMAC-SHA-256 over them. 55 bytes are what SHA-256 takes in one block; 72 bytes in all leave no
//! bit of the last character unused, so that a token has one spelling.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | version of this layout: 1 |
//! | 1 | which key it was sealed with |
//! | 2 | flags: price kind (bits 0 and 1), exposure on impression (2), a visitor is known (3) |
//! | 3..11 | the decision's id |
//! | 11..13 | the slot: which ad of that decision |
//! | 13..19 | when it was issued, in milliseconds of Unix time |
//! | 19..27 | the price of one event, in nanos of the account's currency |
//! | 27..43 | the visitor's keyed hash; zeros where none is known |
//! | 43..47, 47..51, 51..55 | serials of account, zone and ad |
//! | 55..72 | the first 17 bytes of the HMAC |
//!
//! Numbers are big-endian.

mod current;
mod file;
mod keys;

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

pub use current::{CurrentKeys, KeysNow};
pub use keys::{BadKeys, TokenKeys};

/// Characters of a token.
pub const TOKEN_CHARS: usize = 96;
const SEALED: usize = TOKEN_CHARS / 4 * 3;
const PAYLOAD: usize = 55;
const VERSION: u8 = 1;
const HAS_VISITOR: u8 = 1 << 3;
const ON_IMPRESSION: u8 = 1 << 2;
const PRICE_KIND: u8 = 0b11;
/// The last millisecond that fits: in the year 10889.
const ISSUED_MS_MAX: i64 = (1 << 48) - 1;

/// What an advertiser pays for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PriceKind {
    /// Nothing: a house ad, or one that is paid for elsewhere.
    #[default]
    Free,
    /// Each impression.
    Impression,
    /// Each click.
    Click,
    /// Each conversion.
    Conversion,
}

/// One showing of one ad: what a token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Showing {
    /// The decision's id, drawn at random for each, never seeded.
    pub decision: u64,
    /// Which ad of that decision.
    pub slot: u16,
    /// When it was decided, in milliseconds of Unix time.
    pub issued_at_ms: i64,
    /// What one event of the price's kind costs, in nanos of the account's currency.
    pub price_nanos: i64,
    /// Which events cost that.
    pub price_kind: PriceKind,
    /// Whether only an impression makes it an exposure; else choosing it did.
    pub on_impression: bool,
    /// The visitor's keyed hash, where a visitor is known.
    pub visitor: Option<u128>,
    /// The account that all of it belongs to.
    pub account: AccountSerial,
    /// Where it is shown.
    pub zone: ZoneSerial,
    /// What is shown.
    pub ad: AdSerial,
}

/// Not a token of ours: damaged, forged, or sealed with a key that is no longer accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a token of this service")]
pub struct BadToken;

impl PriceKind {
    fn bits(self) -> u8 {
        match self {
            Self::Free => 0,
            Self::Impression => 1,
            Self::Click => 2,
            Self::Conversion => 3,
        }
    }

    fn of_bits(flags: u8) -> Self {
        match flags & PRICE_KIND {
            1 => Self::Impression,
            2 => Self::Click,
            3 => Self::Conversion,
            _ => Self::Free,
        }
    }
}

impl Showing {
    /// The layout above, without the key's number and what follows it.
    fn write(&self, key: u8) -> [u8; PAYLOAD] {
        let mut bytes = [0; PAYLOAD];
        let mut flags = self.price_kind.bits();
        flags |= if self.on_impression { ON_IMPRESSION } else { 0 };
        flags |= if self.visitor.is_some() { HAS_VISITOR } else { 0 };
        let issued_at_ms = self.issued_at_ms.clamp(0, ISSUED_MS_MAX);
        bytes[..3].copy_from_slice(&[VERSION, key, flags]);
        bytes[3..11].copy_from_slice(&self.decision.to_be_bytes());
        bytes[11..13].copy_from_slice(&self.slot.to_be_bytes());
        bytes[13..19].copy_from_slice(&issued_at_ms.to_be_bytes()[2..]);
        bytes[19..27].copy_from_slice(&self.price_nanos.to_be_bytes());
        bytes[27..43].copy_from_slice(&self.visitor.unwrap_or(0).to_be_bytes());
        bytes[43..47].copy_from_slice(&self.account.0.to_be_bytes());
        bytes[47..51].copy_from_slice(&self.zone.0.to_be_bytes());
        bytes[51..55].copy_from_slice(&self.ad.0.to_be_bytes());
        bytes
    }

    fn read(bytes: &[u8; PAYLOAD]) -> Self {
        let flags = bytes[2];
        let mut issued = [0; 8];
        issued[2..].copy_from_slice(&bytes[13..19]);
        Self {
            decision: u64::from_be_bytes(part(bytes, 3)),
            slot: u16::from_be_bytes(part(bytes, 11)),
            issued_at_ms: i64::from_be_bytes(issued),
            price_nanos: i64::from_be_bytes(part(bytes, 19)),
            price_kind: PriceKind::of_bits(flags),
            on_impression: flags & ON_IMPRESSION != 0,
            visitor: (flags & HAS_VISITOR != 0).then(|| u128::from_be_bytes(part(bytes, 27))),
            account: AccountSerial(u32::from_be_bytes(part(bytes, 43))),
            zone: ZoneSerial(u32::from_be_bytes(part(bytes, 47))),
            ad: AdSerial(u32::from_be_bytes(part(bytes, 51))),
        }
    }
}

/// The `N` bytes from `at` on.
fn part<const N: usize>(bytes: &[u8; PAYLOAD], at: usize) -> [u8; N] {
    std::array::from_fn(|offset| bytes[at + offset])
}
