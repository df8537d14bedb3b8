//! An ad's markup with its macros replaced. `docs/creatives.md` is what their users read.
//!
//! A macro is `{name}`, or `{name:enc}` for its value URL-encoded. What is no macro stays as it
//! is, braces and all: markup is full of them. The text is read once, from front to back, and what
//! was put in is not read again.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but the characters that mean nothing anywhere in a URL (RFC 3986, unreserved).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What would end an attribute or a string of HTML in which a URL stands. Encoded it leads to the
/// same place.
const UNSAFE_IN_HTML: &AsciiSet = &CONTROLS.add(b'"').add(b'\'').add(b'<').add(b'>').add(b'`');
/// Stands in a landing URL for the click's own token.
const CLICK_TOKEN: &str = "{click_token}";
/// Behind a macro's name where its value is to be URL-encoded.
const ENCODE: &str = ":enc";

/// What the macros stand for.
pub(super) struct Macros<'a> {
    /// Where a click goes through us.
    pub(super) click_url: &'a str,
    /// What to load when the ad is seen.
    pub(super) impression_url: &'a str,
    /// Where a click leads in the end, as it was written.
    pub(super) landing_url: &'a str,
    /// The token; empty: there is none.
    pub(super) token: &'a str,
    /// Different in each answer.
    pub(super) cachebuster: &'a str,
    /// The request's id: whatever its caller wrote.
    pub(super) request_id: &'a str,
}

impl Macros<'_> {
    /// `markup` with its macros replaced.
    pub(super) fn fill(&self, markup: &str) -> String {
        let mut filled = String::with_capacity(markup.len() + 512);
        let mut rest = markup;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let named = rest[1..].split_once('}').and_then(|(name, after)| {
                let plain = name.strip_suffix(ENCODE);
                Some((self.value(plain.unwrap_or(name), plain.is_some())?, after))
            });
            match named {
                Some((value, after)) => {
                    filled.push_str(&value);
                    rest = after;
                }
                None => {
                    filled.push('{');
                    rest = &rest[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    fn value(&self, name: &str, is_encoded: bool) -> Option<Cow<'_, str>> {
        let raw = match name {
            // Ours: nothing in them means anything to HTML.
            "click_url" => Cow::Borrowed(self.click_url),
            "impression_url" => Cow::Borrowed(self.impression_url),
            "cachebuster" => Cow::Borrowed(self.cachebuster),
            // Not ours, and anything may stand in it: never but encoded.
            "request_id" => return Some(encoded(self.request_id, ENCODED)),
            "landing_url" => {
                let url = self.landing_url.replace(CLICK_TOKEN, self.token);
                let set = if is_encoded { ENCODED } else { UNSAFE_IN_HTML };
                return Some(Cow::Owned(encoded(&url, set).into_owned()));
            }
            _ => return None,
        };
        Some(match (is_encoded, raw) {
            (true, Cow::Borrowed(raw)) => encoded(raw, ENCODED),
            (_, raw) => raw,
        })
    }
}

fn encoded<'t>(text: &'t str, set: &'static AsciiSet) -> Cow<'t, str> {
    utf8_percent_encode(text, set).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACROS: Macros<'_> = Macros {
        click_url: "https://e.example/c/T-_1",
        impression_url: "https://e.example/i/T-_1",
        landing_url: "https://shop.example/?a=1&t={click_token}&q='\"><x",
        token: "T-_1",
        cachebuster: "00ff",
        request_id: "a b\"><script>'é&~._-",
    };

    #[test]
    fn every_macro_has_its_value_plain_and_encoded() {
        for (markup, expected) in [
            ("{click_url}", "https://e.example/c/T-_1"),
            ("{click_url:enc}", "https%3A%2F%2Fe.example%2Fc%2FT-_1"),
            ("{impression_url}", "https://e.example/i/T-_1"),
            ("{impression_url:enc}", "https%3A%2F%2Fe.example%2Fi%2FT-_1"),
            ("{landing_url}", "https://shop.example/?a=1&t=T-_1&q=%27%22%3E%3Cx"),
            (
                "{landing_url:enc}",
                "https%3A%2F%2Fshop.example%2F%3Fa%3D1%26t%3DT-_1%26q%3D%27%22%3E%3Cx",
            ),
            ("{cachebuster}", "00ff"),
            ("{cachebuster:enc}", "00ff"),
            ("{request_id}", "a%20b%22%3E%3Cscript%3E%27%C3%A9%26~._-"),
            ("{request_id:enc}", "a%20b%22%3E%3Cscript%3E%27%C3%A9%26~._-"),
        ] {
            assert_eq!(MACROS.fill(markup), expected, "{markup}");
            let among = format!("<a b=\"{markup}\">é{markup}");
            assert_eq!(MACROS.fill(&among), format!("<a b=\"{expected}\">é{expected}"));
        }
    }

    #[test]
    fn what_is_no_macro_stays_as_it_is() {
        for markup in [
            "",
            "{",
            "}",
            "{}",
            "{{}}",
            "{unknown}",
            "{unknown:enc}",
            "{CLICK_URL}",
            "{ click_url }",
            "{click_url:raw}",
            "{click_url:enc:enc}",
            "{click_url",
            "click_url}",
            "{click_token}",
            "<style>a{color:red}b{é}</style><script>function f(){return {x:{y:1}}}</script>",
        ] {
            assert_eq!(MACROS.fill(markup), markup);
        }
    }

    #[test]
    fn macros_are_found_among_braces_and_values_are_not_read_again() {
        assert_eq!(MACROS.fill("{{cachebuster}}"), "{00ff}");
        assert_eq!(MACROS.fill("{a{cachebuster}{"), "{a00ff{");
        let tricky = Macros { click_url: "{cachebuster}", ..MACROS };
        assert_eq!(tricky.fill("{click_url}"), "{cachebuster}");
    }
}
