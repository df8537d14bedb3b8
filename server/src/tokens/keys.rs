//! The keys that tokens are sealed with: one for new ones, and those before it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::{BadToken, PAYLOAD, SEALED, Showing, TOKEN_CHARS, VERSION, file};

/// Why keys will not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKeys {
    /// There is none.
    #[error("there is no key")]
    None,
    /// Two have the same number.
    #[error("two keys have the number {0}")]
    Twice(u8),
}

/// A key, with the first block of both hashes done: a seal is one more block of each.
type Keyed = Hmac<Sha256>;

/// Seals and opens tokens. Prints no key.
#[derive(Clone)]
pub struct TokenKeys {
    /// The first seals; every one opens.
    keys: Vec<(u8, Keyed)>,
}

impl TokenKeys {
    /// Keys by their numbers, newest first: the first seals new tokens, and what any of them has
    /// sealed is accepted. A number names one key for ever.
    ///
    /// # Errors
    /// When there is no key, or one number for two.
    pub fn new(keys: &[(u8, [u8; 32])]) -> Result<Self, BadKeys> {
        for (at, (id, _)) in keys.iter().enumerate() {
            if keys[..at].iter().any(|(before, _)| before == id) {
                return Err(BadKeys::Twice(*id));
            }
        }
        if keys.is_empty() {
            return Err(BadKeys::None);
        }
        // Where the processor has instructions for SHA, which by now nearly all have, this takes
        // two thirds of ring's time; without them half as long again (BENCHMARKS.md).
        let keyed = |(id, secret): &(u8, [u8; 32])| {
            // An HMAC's key is a block, of which a shorter key fills the beginning.
            let mut block = [0; 64];
            block[..32].copy_from_slice(secret);
            (*id, Keyed::new(&block.into()))
        };
        Ok(Self { keys: keys.iter().map(keyed).collect() })
    }

    /// The keys that the file `contents` lists (see `tokens/file`), and after them the key that the
    /// store made, as number 0: what it has sealed is still accepted.
    ///
    /// # Errors
    /// What is wrong with the contents, in words and without a key.
    pub fn from_file(contents: &[u8], of_store: [u8; 32]) -> Result<Self, String> {
        let mut keys = file::parse(contents)?;
        keys.push((0, of_store));
        Self::new(&keys).map_err(|error| error.to_string())
    }

    /// The token of `showing`: [`TOKEN_CHARS`] characters that are safe in a URL.
    pub fn seal(&self, showing: &Showing) -> String {
        let (id, keyed) = &self.keys[0];
        let payload = showing.write(*id);
        let mut sealed = [0; SEALED];
        sealed[..PAYLOAD].copy_from_slice(&payload);
        sealed[PAYLOAD..].copy_from_slice(&mac(keyed, &payload));
        let mut token = String::with_capacity(TOKEN_CHARS);
        URL_SAFE_NO_PAD.encode_string(sealed, &mut token);
        token
    }

    /// What `token` says, if one of the keys has sealed it. Whether its life is over is the
    /// caller's question.
    ///
    /// # Errors
    /// [`BadToken`], and nothing that tells a forger how far he came.
    pub fn open(&self, token: &[u8]) -> Result<Showing, BadToken> {
        // Room for what the decoder estimates, which is a little more than it writes.
        let mut sealed = [0; SEALED + 3];
        if token.len() != TOKEN_CHARS {
            return Err(BadToken);
        }
        let length = URL_SAFE_NO_PAD.decode_slice(token, &mut sealed).map_err(|_| BadToken)?;
        let (payload, seal) = sealed[..length].split_first_chunk::<PAYLOAD>().ok_or(BadToken)?;
        let [VERSION, id, ..] = *payload else { return Err(BadToken) };
        let (_, keyed) = self.keys.iter().find(|(of, _)| *of == id).ok_or(BadToken)?;
        if !bool::from(mac(keyed, payload).ct_eq(seal)) {
            return Err(BadToken);
        }
        Ok(Showing::read(payload))
    }
}

fn mac(keyed: &Keyed, payload: &[u8; PAYLOAD]) -> [u8; SEALED - PAYLOAD] {
    let mac = keyed.clone().chain_update(payload).finalize().into_bytes();
    std::array::from_fn(|at| mac[at])
}

#[cfg(test)]
mod tests {
    use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};

    use super::super::PriceKind;
    use super::*;

    fn showing() -> Showing {
        Showing {
            decision: 0xfedc_ba98_7654_3210,
            slot: 6_399,
            issued_at_ms: 1_796_000_000_123,
            price_nanos: -1,
            price_kind: PriceKind::Click,
            on_impression: true,
            visitor: Some(u128::MAX - 5),
            account: AccountSerial(7),
            zone: ZoneSerial(u32::MAX),
            ad: AdSerial(0),
        }
    }

    fn keys(numbers: &[u8]) -> TokenKeys {
        let keys: Vec<_> = numbers.iter().map(|number| (*number, [*number; 32])).collect();
        TokenKeys::new(&keys).unwrap()
    }

    #[test]
    fn a_token_says_what_was_sealed() {
        let keys = keys(&[1]);
        for price_kind in
            [PriceKind::Free, PriceKind::Impression, PriceKind::Click, PriceKind::Conversion]
        {
            for visitor in [None, Some(0), Some(1)] {
                let showing = Showing { price_kind, visitor, ..showing() };
                let token = keys.seal(&showing);
                assert_eq!(token.len(), TOKEN_CHARS);
                let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                assert!(token.chars().all(is_safe), "{token}");
                assert_eq!(keys.open(token.as_bytes()), Ok(showing));
            }
        }
    }

    #[test]
    fn whatever_bit_is_flipped_and_whatever_is_missing_or_added_it_is_refused() {
        let keys = keys(&[1]);
        let token = keys.seal(&showing()).into_bytes();
        for at in 0..token.len() {
            for bit in 0..8 {
                let mut flipped = token.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(keys.open(&flipped), Err(BadToken), "bit {bit} of character {at}");
            }
            assert_eq!(keys.open(&token[..at]), Err(BadToken));
            assert_eq!(keys.open(&token[at + 1..]), Err(BadToken));
        }
        let mut longer = token.clone();
        longer.push(b'A');
        assert_eq!(keys.open(&longer), Err(BadToken));
        assert_eq!(keys.open(&[token.clone(), token].concat()), Err(BadToken));
    }

    #[test]
    fn keys_rotate() {
        let token = keys(&[1]).seal(&showing());
        assert!(keys(&[2, 1]).open(token.as_bytes()).is_ok(), "the key before is accepted");
        assert_eq!(keys(&[2]).open(token.as_bytes()), Err(BadToken), "an unknown key is not");
        let newer = keys(&[2, 1]).seal(&showing());
        assert_eq!(keys(&[1]).open(newer.as_bytes()), Err(BadToken), "the first key seals");
        // The number alone makes no key.
        let other = TokenKeys::new(&[(1, [9; 32])]).unwrap();
        assert_eq!(other.open(token.as_bytes()), Err(BadToken));
    }

    #[test]
    fn keys_that_will_not_do_are_refused() {
        assert_eq!(TokenKeys::new(&[]).err(), Some(BadKeys::None));
        let twice = TokenKeys::new(&[(1, [1; 32]), (2, [1; 32]), (1, [2; 32])]);
        assert_eq!(twice.err(), Some(BadKeys::Twice(1)));
    }

    /// Both by Python: the fields put together by hand, and `hmac.new(key, payload, sha256)`.
    #[test]
    fn the_seal_is_hmac_sha_256() {
        let token = keys(&[1]).seal(&showing());
        let bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let payload = "01010efedcba987654321018ff01a229f1287bffffffffffffffff\
                       fffffffffffffffffffffffffffffffa00000007ffffffff00000000";
        assert_eq!(hex[..2 * PAYLOAD], *payload);
        assert_eq!(hex[2 * PAYLOAD..], *"15aec143e2033e58fdaa93ce1ceb7b0618");
    }
}
