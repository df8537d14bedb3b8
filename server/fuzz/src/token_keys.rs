//! Files of token keys: what is refused is never repeated, and what is taken seals.

use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::tokens::{PriceKind, Showing, TokenKeys};

/// So many characters of base64 on end may be a secret, or a good part of one.
const SECRET_CHARS: usize = 20;

/// Holds `data` against the rules of such files.
pub fn check(data: &[u8]) {
    let of_store = [7; 32];
    match TokenKeys::from_file(data, of_store) {
        Ok(keys) => {
            let token = keys.seal(&SHOWING);
            assert_eq!(keys.open(token.as_bytes()), Ok(SHOWING));
            let before = TokenKeys::new(&[(0, of_store)]).unwrap();
            assert_eq!(keys.open(before.seal(&SHOWING).as_bytes()), Ok(SHOWING));
            assert!(before.open(token.as_bytes()).is_err(), "the file's first key seals");
            let text = std::str::from_utf8(data).unwrap();
            assert!(text.contains("key") && text.contains("secret") && text.contains("id"));
        }
        Err(problem) => {
            assert!(!problem.is_empty());
            let is_secret = |char: &u8| char.is_ascii_alphanumeric() || b"+/".contains(char);
            for run in data.split(|char| !is_secret(char)) {
                for part in run.windows(SECRET_CHARS) {
                    let part = std::str::from_utf8(part).unwrap();
                    assert!(!problem.contains(part), "{problem} repeats {part}");
                }
            }
        }
    }
}

const SHOWING: Showing = Showing {
    decision: 5,
    slot: 1,
    issued_at_ms: 1_796_040_000_000,
    price_nanos: 7,
    price_kind: PriceKind::Click,
    on_impression: true,
    visitor: Some(3),
    account: AccountSerial(1),
    zone: ZoneSerial(2),
    ad: AdSerial(3),
};
