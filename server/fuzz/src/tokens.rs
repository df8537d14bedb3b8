//! Tokens: whatever is said to be one, held against a second reading of the layout, written from
//! its table and not from the code, and sealed by another library.

use ring::hmac;
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::tokens::{BadToken, PriceKind, Showing, TokenKeys};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const CHARS: usize = 96;
const PAYLOAD: usize = 55;
const SEAL: usize = 17;
/// The numbers of the keys that seal here, newest first; the secret of each is its number, 32
/// times.
const OURS: [u8; 2] = [2, 1];
/// What a stranger has under the same numbers.
const STRANGE: [u8; 2] = [9, 8];

/// Holds `data` against the rules of tokens in three ways: as a token, as what a token would say,
/// and as how a good token is damaged.
pub fn check(data: &[u8]) {
    let keys = Keys::new();
    keys.reads_like_the_table(data);
    keys.seals_what_is_said(data);
    keys.refuses_what_is_damaged(data);
}

/// The keys of here, each alone, and those of a stranger.
struct Keys {
    all: TokenKeys,
    alone: [TokenKeys; 2],
    strangers: TokenKeys,
}

impl Keys {
    fn new() -> Self {
        let set = |keys: &[(u8, u8)]| {
            let keys: Vec<_> = keys.iter().map(|(id, byte)| (*id, [*byte; 32])).collect();
            TokenKeys::new(&keys).unwrap()
        };
        Self {
            all: set(&OURS.map(|id| (id, id))),
            alone: OURS.map(|id| set(&[(id, id)])),
            strangers: set(&[(OURS[0], STRANGE[0]), (OURS[1], STRANGE[1])]),
        }
    }

    /// The set that has the key `id` alone, and the one that has the other.
    fn of(&self, id: u8) -> (&TokenKeys, &TokenKeys) {
        let [first, second] = &self.alone;
        if id == OURS[0] { (first, second) } else { (second, first) }
    }

    /// Opens it exactly where the table says so, and says what the table says.
    fn reads_like_the_table(&self, token: &[u8]) {
        let told = opened(token);
        assert_eq!(self.all.open(token).ok(), told.map(|payload| read(&payload)));
        let Some(payload) = told else { return };
        assert_eq!(self.strangers.open(token), Err(BadToken), "a number makes no key");
        let (own, other) = self.of(payload[1]);
        let showing = own.open(token).unwrap();
        assert_eq!(other.open(token), Err(BadToken), "only its own key opens it");
        let again = own.seal(&showing);
        assert_eq!(own.open(again.as_bytes()), Ok(showing));
        if is_as_written(&payload) {
            assert_eq!(again.as_bytes(), token, "a token has one spelling");
        }
    }

    /// Takes `data` for a payload and for the fields of a showing.
    fn seals_what_is_said(&self, data: &[u8]) {
        let payload: [u8; PAYLOAD] = std::array::from_fn(|at| data.get(at).copied().unwrap_or(0));
        self.reads_like_the_table(&sealed(&payload, payload[1]));
        // Without luck the first bytes are no version and no key of ours.
        let mut sound = payload;
        sound[..2].copy_from_slice(&[1, OURS[usize::from(payload[1]) % 2]]);
        let token = sealed(&sound, sound[1]);
        assert!(opened(&token).is_some());
        self.reads_like_the_table(&token);

        let mut issued = [0; 8];
        issued.copy_from_slice(&payload[11..19]);
        let showing = Showing { issued_at_ms: i64::from_be_bytes(issued), ..read(&payload) };
        let token = self.all.seal(&showing);
        self.reads_like_the_table(token.as_bytes());
        // Six bytes hold no time before 1970.
        let kept =
            Showing { issued_at_ms: showing.issued_at_ms.clamp(0, (1 << 48) - 1), ..showing };
        assert_eq!(self.all.open(token.as_bytes()), Ok(kept));
    }

    /// Damages a good token as `data` says: a bit, a character, or its length.
    fn refuses_what_is_damaged(&self, data: &[u8]) {
        let [how, at, with, ..] = *data else { return };
        let good = sealed(&[1; PAYLOAD], 1);
        assert!(self.all.open(&good).is_ok());
        let (mut bad, at) = (good.clone(), usize::from(at) % CHARS);
        match how % 5 {
            0 => bad[at] ^= 1 << (with % 8),
            1 => bad[at] = with,
            2 => bad.truncate(at),
            3 => bad.insert(at, with),
            _ => drop(bad.remove(at)),
        }
        assert_eq!(self.all.open(&bad).is_ok(), bad == good, "{}", bad.escape_ascii());
    }
}

/// The payload of `token`, where a key of ours has sealed it.
fn opened(token: &[u8]) -> Option<[u8; PAYLOAD]> {
    if token.len() != CHARS {
        return None;
    }
    let mut bytes = Vec::with_capacity(CHARS / 4 * 3);
    for four in token.chunks(4) {
        let bits = four.iter().try_fold(0_u32, |bits, char| {
            let value = ALPHABET.iter().position(|own| own == char)?;
            Some(bits << 6 | u32::try_from(value).ok()?)
        })?;
        bytes.extend(&bits.to_be_bytes()[1..]);
    }
    let (payload, seal) = bytes.split_first_chunk::<PAYLOAD>()?;
    let is_ours = payload[0] == 1 && OURS.contains(&payload[1]);
    (is_ours && *seal == mac(payload, payload[1])).then_some(*payload)
}

/// `payload` under the seal of the key `id`, whatever it says itself.
fn sealed(payload: &[u8; PAYLOAD], id: u8) -> Vec<u8> {
    let bytes = [&payload[..], &mac(payload, id)].concat();
    let char = |bits: u32| ALPHABET[bits as usize & 63];
    let four = |three: &[u8]| {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        [char(bits >> 18), char(bits >> 12), char(bits >> 6), char(bits)]
    };
    bytes.chunks(3).flat_map(four).collect()
}

fn mac(payload: &[u8; PAYLOAD], id: u8) -> [u8; SEAL] {
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[id; 32]), payload);
    std::array::from_fn(|at| mac.as_ref()[at])
}

/// The fields where the table has them.
fn read(payload: &[u8; PAYLOAD]) -> Showing {
    fn number<const N: usize>(payload: &[u8; PAYLOAD], end: usize) -> [u8; N] {
        std::array::from_fn(|at| payload[end - N + at])
    }
    let [flags, issued] = [payload[2..3].to_vec(), payload[13..19].to_vec()];
    let issued = issued.iter().fold(0_i64, |ms, byte| ms << 8 | i64::from(*byte));
    let kinds = [PriceKind::Free, PriceKind::Impression, PriceKind::Click, PriceKind::Conversion];
    let visitor = u128::from_be_bytes(number(payload, 43));
    Showing {
        decision: u64::from_be_bytes(number(payload, 11)),
        slot: u16::from_be_bytes(number(payload, 13)),
        issued_at_ms: issued,
        price_nanos: i64::from_be_bytes(number(payload, 27)),
        price_kind: kinds[usize::from(flags[0] & 3)],
        on_impression: flags[0] & 4 != 0,
        visitor: (flags[0] & 8 != 0).then_some(visitor),
        account: AccountSerial(u32::from_be_bytes(number(payload, 47))),
        zone: ZoneSerial(u32::from_be_bytes(number(payload, 51))),
        ad: AdSerial(u32::from_be_bytes(number(payload, 55))),
    }
}

/// Whether it says nothing but what the table knows: we seal nothing else.
fn is_as_written(payload: &[u8; PAYLOAD]) -> bool {
    let has_visitor = payload[2] & 8 != 0;
    payload[2] & 0xf0 == 0 && (has_visitor || payload[27..43].iter().all(|byte| *byte == 0))
}
