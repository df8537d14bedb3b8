//! What the headers of a request say of who is there: a browser that only looks ahead, a bot.
//!
//! Nothing here reads an address, neither the peer's nor one in `X-Forwarded-For`: no event holds
//! one, and none decides anything.

use http::{HeaderMap, HeaderName, Method, header};

use crate::bots::Bots;

/// How a browser says that nobody has asked for the page yet.
const PREFETCHES: [(HeaderName, &str); 3] = [
    (HeaderName::from_static("sec-purpose"), "prefetch"),
    (HeaderName::from_static("purpose"), "prefetch"),
    (HeaderName::from_static("x-moz"), "prefetch"),
];

/// Who asks for an event's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    /// Answered as ever, and not counted: nobody has done anything yet.
    pub(super) is_uncounted: bool,
    /// The list by which it is a bot.
    pub(super) filtered_by: Option<String>,
}

impl Visit {
    /// Who sends these headers.
    pub(super) fn of(method: &Method, headers: &HeaderMap, bots: &Bots) -> Self {
        let looks_ahead =
            PREFETCHES.iter().any(|(name, purpose)| begins_with(headers, name, purpose));
        Self {
            is_uncounted: *method == Method::HEAD || looks_ahead,
            filtered_by: filtered_by(headers, bots),
        }
    }
}

/// The list by which the sender is a known bot.
pub(super) fn filtered_by(headers: &HeaderMap, bots: &Bots) -> Option<String> {
    let agent = headers.get(header::USER_AGENT)?;
    bots.named(agent.as_bytes()).map(str::to_owned)
}

/// `Sec-Purpose` may say more behind its first word, such as `prefetch;prerender`.
fn begins_with(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let mut values = headers.get_all(name).iter();
    values.any(|value| {
        let value = value.as_bytes().trim_ascii_start();
        value.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn who_only_looks_ahead_is_not_counted() {
        let bots = Bots::known().unwrap();
        let visit = |method, name: &'static str, value: &'static str| {
            let name = HeaderName::from_static(name);
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            Visit::of(&method, &headers, &bots)
        };
        for (name, value) in [
            ("sec-purpose", "prefetch"),
            ("sec-purpose", "prefetch;prerender"),
            ("sec-purpose", "prefetch;anonymous-client-ip"),
            ("purpose", "Prefetch"),
            ("x-moz", "prefetch"),
        ] {
            assert!(visit(Method::GET, name, value).is_uncounted, "{name}: {value}");
        }
        for (name, value) in [("accept", "*/*"), ("sec-purpose", ""), ("purpose", "navigate")] {
            assert!(!visit(Method::GET, name, value).is_uncounted, "{name}: {value}");
            assert!(visit(Method::HEAD, name, value).is_uncounted);
        }
    }
}
