//! Requests as a file of the corpus writes them, and the tokens that they may name.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use slotwise_core::model::{AccountSerial, AdSerial, ZoneSerial};
use slotwise_server::tokens::{PriceKind, Showing, TokenKeys};

/// 2026-11-30T12:00:00Z: what the doors' clock says.
pub const NOON_US: i64 = 1_796_040_000_000_000;
/// The ad that the doors know.
pub const KNOWN: u32 = 7;
/// Where it leads.
pub const LANDING: &str = "https://shop.example/a%20b?x=1&t={click_token}&u={click_token}#frag";

const NOON_MS: i64 = NOON_US / 1_000;
const HOUR_MS: i64 = 3_600_000;

/// A token that a request may name by its word.
pub struct Token {
    word: &'static str,
    pub text: String,
    pub showing: Showing,
}

/// All of them.
pub struct Tokens {
    pub keys: TokenKeys,
    all: Vec<Token>,
    /// One that a stranger has sealed, under a number of ours.
    foreign: String,
}

impl Tokens {
    pub fn new() -> Self {
        let keys = |keys: &[(u8, u8)]| {
            let keys: Vec<_> = keys.iter().map(|(id, byte)| (*id, [*byte; 32])).collect();
            TokenKeys::new(&keys).unwrap()
        };
        let (ours, before) = (keys(&[(2, 2), (1, 1)]), keys(&[(1, 1)]));
        let good = showing(1, NOON_MS);
        let of = |word, showing: Showing| Token { word, text: ours.seal(&showing), showing };
        let held = Showing { on_impression: true, visitor: None, ..showing(2, NOON_MS) };
        let all = vec![
            of("{good}", good),
            of("{held}", held),
            // At its last moment for an impression, and just beyond it.
            of("{edge}", showing(3, NOON_MS - HOUR_MS)),
            of("{late}", Showing { on_impression: true, ..showing(4, NOON_MS - HOUR_MS - 1) }),
            // Beyond it for a click, and for everything.
            of("{old}", showing(5, NOON_MS - 24 * HOUR_MS - 1)),
            of("{ancient}", showing(6, NOON_MS - 30 * 24 * HOUR_MS - 1)),
            of("{ahead}", showing(7, NOON_MS + HOUR_MS)),
            of("{unheard}", Showing { ad: AdSerial(999), ..showing(8, NOON_MS) }),
            Token { word: "{before}", text: before.seal(&good), showing: good },
        ];
        let foreign = keys(&[(2, 9)]).seal(&good);
        Self { keys: ours, all, foreign }
    }

    /// The showing that `token` names, if it is ours.
    pub fn showing(&self, token: &[u8]) -> Option<Showing> {
        self.all.iter().find(|ours| ours.text.as_bytes() == token).map(|ours| ours.showing)
    }

    /// `data` with the words of tokens replaced by them.
    fn written_out(&self, data: &[u8]) -> Vec<u8> {
        let words = self.all.iter().map(|token| (token.word, token.text.as_str()));
        let words: Vec<_> = words.chain([("{foreign}", self.foreign.as_str())]).collect();
        let (mut written, mut rest) = (Vec::with_capacity(data.len()), data);
        while let Some((first, behind)) = rest.split_first() {
            let word = words.iter().find(|(word, _)| rest.starts_with(word.as_bytes()));
            match word {
                Some((word, token)) => {
                    written.extend(token.as_bytes());
                    rest = &rest[word.len()..];
                }
                None => {
                    written.push(*first);
                    rest = behind;
                }
            }
        }
        written
    }
}

fn showing(decision: u64, issued_at_ms: i64) -> Showing {
    Showing {
        decision,
        slot: 0,
        issued_at_ms,
        price_nanos: 1_500,
        price_kind: PriceKind::Impression,
        on_impression: false,
        visitor: Some(77),
        account: AccountSerial(1),
        zone: ZoneSerial(2),
        ad: AdSerial(KNOWN),
    }
}

/// A request as the transport would hand it over.
#[derive(Debug)]
pub struct Asked {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// Whether what it tells can be recorded nowhere.
    pub is_broken: bool,
}

impl Asked {
    /// The request that `data` writes; nothing where no transport would let it pass.
    pub fn read(data: &[u8], tokens: &Tokens) -> Option<Self> {
        let (is_broken, data) = match data {
            [b'!', data @ ..] => (true, data),
            _ => (false, data),
        };
        let data = tokens.written_out(data);
        let (head, mut rest) = line(&data)?;
        let space = head.iter().position(|byte| *byte == b' ')?;
        let method = Method::from_bytes(&head[..space]).ok()?;
        let uri = Uri::try_from(&head[space + 1..]).ok()?;
        let mut headers = HeaderMap::new();
        while let Some((header, behind)) = line(rest) {
            rest = behind;
            if header.is_empty() {
                break;
            }
            let colon = header.iter().position(|byte| *byte == b':')?;
            let name = HeaderName::from_bytes(&header[..colon]).ok()?;
            let value = HeaderValue::from_bytes(header[colon + 1..].trim_ascii()).ok()?;
            headers.append(name, value);
        }
        Some(Self { method, uri, headers, body: rest.to_vec(), is_broken })
    }
}

/// The first line, and what is behind it; nothing at the end.
fn line(data: &[u8]) -> Option<(&[u8], &[u8])> {
    if data.is_empty() {
        return None;
    }
    let end = data.iter().position(|byte| *byte == b'\n');
    Some(end.map_or((data, &[][..]), |end| (&data[..end], &data[end + 1..])))
}
