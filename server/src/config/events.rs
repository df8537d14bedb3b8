//! Settings of what becomes of chosen ads.

use std::str::FromStr;

use url::Url;

/// What makes a decision an exposure where the request does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultExposure {
    /// Choosing is showing.
    #[default]
    OnDecision,
    /// Only a reported impression counts; the decision holds its place until then.
    OnImpression,
}

impl FromStr for DefaultExposure {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "on-decision" => Ok(Self::OnDecision),
            "on-impression" => Ok(Self::OnImpression),
            _ => Err("is neither on-decision nor on-impression"),
        }
    }
}

/// What the addresses of events begin with, without a slash at the end; empty: nothing is said.
///
/// They are put into pages as they stand, so nothing is taken that HTML would read otherwise.
pub(super) fn base_url(text: &str) -> Result<Option<String>, &'static str> {
    const WANTS: &str = "is no address such as https://ads.example or https://ads.example/events";
    if text.is_empty() {
        return Ok(None);
    }
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"'<>&`{}\\@?#".contains(c);
    let is_web = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    let has_host = Url::parse(text).is_ok_and(|url| url.has_host());
    if !is_web || !has_host || !text.chars().all(is_plain) {
        return Err(WANTS);
    }
    Ok(Some(text.trim_end_matches('/').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_a_plain_web_address() {
        for (text, base) in [
            ("https://ads.example", "https://ads.example"),
            ("https://ads.example/", "https://ads.example"),
            ("http://10.0.0.1:7071/a/b/", "http://10.0.0.1:7071/a/b"),
            ("http://[2001:db8::1]:80", "http://[2001:db8::1]:80"),
        ] {
            assert_eq!(base_url(text), Ok(Some(base.to_owned())));
        }
        assert_eq!(base_url(""), Ok(None));
        for text in [
            "ads.example",
            "//ads.example",
            "ftp://ads.example",
            "javascript:alert(1)",
            "https://",
            "https:///",
            "https://ads.example/?a",
            "https://ads.example/#a",
            "https://me@ads.example/",
            "https://ads.example/\"x",
            "https://ads.example/a b",
            "https://ads.example/<",
            "https://ads.example:99999",
        ] {
            assert!(base_url(text).is_err(), "{text}");
        }
    }
}
