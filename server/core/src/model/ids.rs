//! Ids as types, so that an advertiser's never stands where a campaign's should.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &*self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! serial {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
    };
}

id!(
    /// One tenant: owns sites and campaigns, which meet only inside it.
    AccountId
);
id!(
    /// A site of an account.
    SiteId
);
id!(
    /// A slot on a site; unique on its site only.
    ZoneId
);
id!(
    /// `<advertiser>:<campaign>`.
    CampaignId
);
id!(
    /// An ad's own name; unique in its campaign only.
    AdUnitId
);
/// What stands before the first colon of a campaign's id.
///
/// It is held against every advertiser that a visitor has seen, at each decision: two that differ
/// are told apart by their hashes, without a look at the names. Their order says nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdvertiserId {
    /// FNV-1a of the name (Fowler, Noll and Vo). It stands first, as it is compared first; of two
    /// names with one hash the names decide.
    hash: u64,
    name: Arc<str>,
}

impl AdvertiserId {
    /// The id as it was written.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// What tells it from nearly every other.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    #[cfg(test)]
    pub(super) fn with_one_hash<const N: usize>(names: [&str; N]) -> [Self; N] {
        names.map(|name| Self { hash: 0, name: name.into() })
    }
}

impl From<&str> for AdvertiserId {
    fn from(id: &str) -> Self {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        Self { hash: id.bytes().fold(OFFSET, step), name: id.into() }
    }
}

impl fmt::Debug for AdvertiserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdvertiserId({:?})", self.as_str())
    }
}

impl fmt::Display for AdvertiserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl CampaignId {
    /// Whose campaign it is.
    pub fn advertiser(&self) -> AdvertiserId {
        let (advertiser, _) = self.0.split_once(':').unwrap_or((&self.0, ""));
        advertiser.into()
    }
}

serial!(
    /// An account's number: given once by the catalogue, never reused.
    AccountSerial
);
serial!(
    /// A zone's number: given once by the catalogue, never reused.
    ZoneSerial
);
serial!(
    /// A campaign's number: given once by the catalogue, never reused. A campaign that is made
    /// again under an old id is another one.
    CampaignSerial
);
serial!(
    /// An ad's number: given once by the catalogue, never reused.
    AdSerial
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advertiser_ends_at_the_first_colon() {
        let advertiser = |id: &str| CampaignId::from(id).advertiser();
        assert_eq!(advertiser("7:3").as_str(), "7");
        assert_eq!(advertiser("mercedes:sclass:4").as_str(), "mercedes");
    }
}
