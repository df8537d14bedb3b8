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

    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What is known of one visit. Whatever is not is absent or empty, and no clause that asks for it
/// holds.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Where the visitor is.
    pub country: Option<Country>,
    /// ISO 3166-2 without the country.
    pub region: Box<str>,
    /// What the page is seen on.
    pub device: Option<DeviceType>,
    /// BCP 47, in lower case.
    pub language: Box<str>,
    /// Segments as the caller knows them.
    pub segments: Names,
    /// What an expression can ask for.
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
