//! What is known of one visit, as targeting asks for it.

/// An ISO 3166-1 alpha-2 code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Country([u8; 2]);

impl Country {
    /// The country of this code; nothing unless it is two upper-case letters.
    pub fn new(code: &str) -> Option<Self> {
        let code: [u8; 2] = code.as_bytes().try_into().ok()?;
        code.iter().all(u8::is_ascii_uppercase).then_some(Self(code))
    }

    /// Its code.
    pub fn as_str(&self) -> &str {
        // Two letters of ASCII are always text.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// One of 64 bits: countries with different bits are different.
    pub(crate) fn bit(self) -> u64 {
        let [first, second] = self.0.map(|letter| u32::from(letter - b'A'));
        1 << ((first * 26 + second) % 64)
    }
}

/// What somebody sees the page on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceType {
    /// A phone.
    Phone,
    /// A tablet.
    Tablet,
    /// A computer.
    Desktop,
    /// A television.
    Tv,
    /// Something else.
    Other,
}

impl DeviceType {
    /// Every device type, with the contract's word for it.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Phone, "phone"),
        (Self::Tablet, "tablet"),
        (Self::Desktop, "desktop"),
        (Self::Tv, "tv"),
        (Self::Other, "other"),
    ];

    /// The one that is called so.
    pub fn new(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == word).map(|(device, _)| *device)
    }

    /// The contract's word for it.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(device, _)| *device == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Whether `code` is made like a region of ISO 3166-2 without its country: 1 to 3 upper-case
/// letters and digits.
pub fn is_region(code: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    (1..=3).contains(&code.len()) && code.bytes().all(is_part)
}

/// Whether `tag` is made like a tag of BCP 47: subtags of 1 to 8 letters and digits between
/// hyphens, the first of them letters alone.
pub fn is_language(tag: &str) -> bool {
    let is_subtag = |subtag: &str| {
        (1..=8).contains(&subtag.len()) && subtag.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let first = tag.split('-').next().unwrap_or_default();
    first.bytes().all(|byte| byte.is_ascii_alphabetic()) && tag.split('-').all(is_subtag)
}

/// What is known of one visit. Whatever is not is absent or empty, and no clause that asks for it
/// holds.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Where the visitor is.
    pub country: Option<Country>,
    /// ISO 3166-2 without the country.
    pub region: Box<str>,
    /// As the caller calls it.
    pub city: Box<str>,
    /// What the page is seen on.
    pub device: Option<DeviceType>,
    /// The operating system, as the caller calls it.
    pub os: Box<str>,
    /// The browser, as the caller calls it.
    pub browser: Box<str>,
    /// BCP 47, in lower case.
    pub language: Box<str>,
    /// Segments as the caller knows them.
    pub segments: Names,
    /// The page's own key-values, for expressions.
    pub values: Values,
}

/// A sorted set of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Box<[Box<str>]>);

impl Names {
    /// The set of `names`.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names: Vec<Box<str>> = names.into_iter().map(Box::from).collect();
        names.sort_unstable();
        names.dedup();
        Self(names.into())
    }

    /// Whether `name` is one of them.
    pub fn has(&self, name: &str) -> bool {
        self.0.binary_search_by(|other| (**other).cmp(name)).is_ok()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Values by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(Box<[(Box<str>, Box<str>)]>);

impl Values {
    /// These names and values; of a name that comes twice, the first.
    pub fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut values: Vec<(Box<str>, Box<str>)> =
            values.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        values.sort_by(|(left, _), (right, _)| left.cmp(right));
        values.dedup_by(|(later, _), (first, _)| later == first);
        Self(values.into())
    }

    /// The value of `name`, where it is known.
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_country_is_two_capitals() {
        assert_eq!(Country::new("AT").as_ref().map(Country::as_str), Some("AT"));
        for code in ["", "A", "at", "At", "AUT", "A1", "T1", "\u{c4}", "A "] {
            assert_eq!(Country::new(code), None, "{code:?}");
        }
    }

    #[test]
    fn countries_with_different_bits_are_different() {
        let letters = || 'A'..='Z';
        let codes = letters().flat_map(|a| letters().map(move |b| format!("{a}{b}")));
        let countries: Vec<_> = codes.map(|code| Country::new(&code).unwrap()).collect();
        assert_eq!(countries.len(), 676);
        let mut used = 0;
        for country in &countries {
            assert_eq!(country.bit().count_ones(), 1, "{country:?}");
            used |= country.bit();
        }
        assert_eq!(used, u64::MAX, "all 64 tell something apart");
    }

    #[test]
    fn a_device_type_has_its_word_and_a_bit_of_its_own() {
        let words = ["phone", "tablet", "desktop", "tv", "other"];
        let devices = words.map(|word| DeviceType::new(word).unwrap());
        assert_eq!(devices.map(DeviceType::word), words);
        let bits = devices.iter().fold(0, |bits, device| bits | device.bit());
        assert_eq!(bits.count_ones(), 5);
        for word in ["", "Phone", "mobile", "phone "] {
            assert_eq!(DeviceType::new(word), None, "{word:?}");
        }
    }

    #[test]
    fn regions_and_languages_are_told_from_what_is_none() {
        for region in ["CA", "9", "B", "NSW", "75C"] {
            assert!(is_region(region), "{region}");
        }
        for no_region in ["", "ca", "US-CA", "ABCD", "C A", "\u{d6}"] {
            assert!(!is_region(no_region), "{no_region}");
        }
        for tag in ["de", "de-AT", "zh-Hant-TW", "es-419", "x-private1", "sl-rozaj-biske"] {
            assert!(is_language(tag), "{tag}");
        }
        for no_tag in
            ["", "de_AT", "de-", "-de", "de--AT", "419", "deutsches", "*", "de, en", "d\u{e4}"]
        {
            assert!(!is_language(no_tag), "{no_tag}");
        }
    }

    #[test]
    fn names_are_a_set_in_order() {
        let names = Names::new(["b", "a", "b", "", "\u{e4}"]);
        assert_eq!(names.iter().collect::<Vec<_>>(), ["", "a", "b", "\u{e4}"]);
        assert!(names.has("a") && names.has("\u{e4}"));
        assert!(!names.has("A") && !names.has("ab"));
        assert!(Names::new([]).is_empty() && !names.is_empty());
    }

    #[test]
    fn of_a_name_that_comes_twice_the_first_value_counts() {
        let values = Values::new([("b", "1"), ("a", "2"), ("b", "3"), ("c", "")]);
        assert_eq!(values.get("a"), Some("2"));
        assert_eq!(values.get("b"), Some("1"));
        assert_eq!(values.get("c"), Some(""), "an empty value is known");
        assert_eq!(values.get("d"), None);
        assert_eq!(Values::default().get("a"), None);
    }
}
