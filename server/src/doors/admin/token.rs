//! Bearer tokens: how one is made, and what is kept of it.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Random bytes in a token. Nobody guesses so many, which is why a plain hash of it can be kept.
const TOKEN_BYTES: usize = 32;

/// What a token begins with, so that those who search for leaked secrets know it when they see it.
const TOKEN_PREFIX: &str = "slotwise_";

/// A new token.
pub struct Token {
    /// What its holder sends.
    pub text: String,
    /// What the file of identities has of it.
    pub sha256: String,
}

impl Token {
    /// A random one.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes)?;
        let text = format!("{TOKEN_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
        let TokenHash(hash) = TokenHash::of(text.as_bytes());
        let sha256 = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { text, sha256 })
    }
}

/// The SHA-256 of a token.
#[derive(Clone)]
pub(super) struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of what a caller has sent.
    pub(super) fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// The hash that `hex` writes, if it is 64 digits.
    pub(super) fn from_hex(hex: &str) -> Option<Self> {
        let digits: Option<Vec<u8>> =
            hex.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        let bytes: Vec<u8> =
            digits?.chunks(2).map(|pair| pair.iter().fold(0, |n, d| n << 4 | d)).collect();
        (hex.len() == 64).then_some(())?;
        bytes.try_into().ok().map(Self)
    }

    /// Whether both are the same, in a time that does not tell how much of them is.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_sha_256_in_hex() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(TokenHash::from_hex(abc).unwrap().is(&TokenHash::of(b"abc")));
        assert!(TokenHash::from_hex(&abc.to_uppercase()).unwrap().is(&TokenHash::of(b"abc")));
        assert!(!TokenHash::from_hex(abc).unwrap().is(&TokenHash::of(b"abd")));
        let (short, wrong) = (&abc[..62], abc.replace('b', "g"));
        for bad in ["", "abc", short, &format!("{abc}00"), &wrong, &format!("{abc} ")] {
            assert!(TokenHash::from_hex(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn tokens_differ_and_are_known_by_their_hash() {
        let [one, two] = [Token::random().unwrap(), Token::random().unwrap()];
        assert_ne!(one.text, two.text);
        assert!(one.text.len() >= TOKEN_PREFIX.len() + 43, "256 bits in base64: {}", one.text);
        for token in [one, two] {
            let kept = TokenHash::from_hex(&token.sha256).unwrap();
            assert!(kept.is(&TokenHash::of(token.text.as_bytes())));
        }
    }
}
