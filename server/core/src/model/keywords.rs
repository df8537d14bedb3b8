//! Keywords in the one form in which both sides compare them.

use std::borrow::Cow;

use icu_casemap::CaseMapper;
use icu_normalizer::ComposingNormalizerBorrowed;

/// How many distinct keywords of one request can match; the score table is that long. More say
/// nothing new about a page, and each costs a look-up for each ad.
pub const KEYWORDS_USED_MAX: usize = 64;

/// `raw` trimmed, in NFC and case-folded; empty when nothing is left.
///
/// Folding can undo NFC (and the other way round), so the result is composed again: two strings
/// that are canonical caseless matches come out equal.
pub fn normalise_keyword(raw: &str) -> Cow<'_, str> {
    let trimmed = raw.trim();
    if trimmed.is_ascii() {
        return match trimmed.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(trimmed.to_ascii_lowercase()),
            false => Cow::Borrowed(trimmed),
        };
    }
    let nfc = ComposingNormalizerBorrowed::new_nfc();
    let composed = nfc.normalize(trimmed);
    let folded = CaseMapper::new().fold_string(&composed);
    Cow::Owned(nfc.normalize(&folded).into_owned())
}

/// A set of normalised keywords, sorted: one text and where each of them ends, as there are
/// millions of such sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keywords {
    text: Box<str>,
    ends: Box<[u32]>,
}

impl Keywords {
    /// Normalises `raw`; repeats and empty ones are dropped.
    pub fn new<'a>(raw: impl IntoIterator<Item = &'a str>) -> Self {
        let words: Vec<_> = raw.into_iter().map(normalise_keyword).collect();
        Self::from_normalised(words.iter().map(|word| &**word).collect())
    }

    /// The set of `words`, which are in their normal form; repeats and empty ones are dropped.
    pub fn from_normalised(mut words: Vec<&str>) -> Self {
        words.sort_unstable();
        words.dedup();
        words.retain(|word| !word.is_empty());
        let mut text = String::with_capacity(words.iter().map(|word| word.len()).sum());
        let mut ends = Vec::with_capacity(words.len());
        for word in words {
            text.push_str(word);
            // A message that holds the keywords has far less than 4 GiB.
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        Self { text: text.into(), ends: ends.into() }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.text[start as usize..end as usize])
    }

    /// The first keyword that both sets have.
    pub fn first_common<'k>(&'k self, other: &Self) -> Option<&'k str> {
        let (mut left, mut right) = (self.iter().peekable(), other.iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            match a.cmp(b) {
                std::cmp::Ordering::Less => drop(left.next()),
                std::cmp::Ordering::Greater => drop(right.next()),
                std::cmp::Ordering::Equal => return left.next(),
            }
        }
        None
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_spaces_and_repeats_do_not_matter() {
        let ours = Keywords::new(["  Car ", "car", "", " ", "STYLE"]);
        assert_eq!(ours.len(), 2);
        assert_eq!(ours.iter().collect::<Vec<_>>(), ["car", "style"]);
        assert_eq!(ours.first_common(&Keywords::new(["luxury", "style"])), Some("style"));
    }

    #[test]
    fn a_comma_inside_a_string_is_part_of_the_keyword() {
        assert_eq!(Keywords::new(["a, b"]), Keywords::new(["A, B"]));
        assert_eq!(Keywords::new(["a, b"]).first_common(&Keywords::new(["a", "b"])), None);
    }

    #[test]
    fn unicode_forms_meet() {
        // U+00E9 and e + U+0301 are the same letter; so are sharp s and "ss" when case is folded.
        assert_eq!(normalise_keyword("Caf\u{e9}"), normalise_keyword("cafe\u{301}"));
        assert_eq!(normalise_keyword("STRASSE"), normalise_keyword("Straße"));
        assert_eq!(normalise_keyword("ΣΊΣΥΦΟΣ"), normalise_keyword("σίσυφος"));
        assert_eq!(normalise_keyword("\u{a0}ÄRGER\u{3000}"), "ärger");
    }

    #[test]
    fn normalising_twice_changes_nothing() {
        for word in ["ǰ\u{323}", "İstanbul", "ŉ", "ﬀ", "\u{345}\u{301}α"] {
            let once = normalise_keyword(word).into_owned();
            assert_eq!(normalise_keyword(&once), once, "{word}");
        }
    }
}
