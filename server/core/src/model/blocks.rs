//! What a site or a request will not show: sets that are asked for each candidate.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::AdvertiserId;

/// What a site or a request will not show.
#[derive(Clone, Debug, Default)]
pub struct Blocks(Option<Box<Sets>>);

#[derive(Clone, Debug, Default)]
struct Sets {
    advertisers: Set,
    categories: Set,
    domains: Set,
}

impl Blocks {
    /// Blocks these advertisers (whole; case matters), these IAB categories ("IAB2" blocks
    /// "IAB2-1" too) and these domains ("example.com" blocks "shop.example.com" too).
    pub fn new<'a>(
        advertisers: impl IntoIterator<Item = &'a str>,
        categories: impl IntoIterator<Item = &'a str>,
        domains: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let sets = Sets {
            advertisers: Set::new(advertisers, false),
            categories: Set::new(categories, true),
            domains: Set::new(domains, true),
        };
        let all = [&sets.advertisers, &sets.categories, &sets.domains];
        let is_empty = all.iter().all(|set| set.names.is_empty());
        Self((!is_empty).then(|| Box::new(sets)))
    }

    /// Whether nothing is blocked.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the advertiser is blocked.
    pub fn advertiser(&self, advertiser: &AdvertiserId) -> bool {
        self.0.as_ref().is_some_and(|sets| sets.advertisers.find(advertiser.as_str()).is_some())
    }

    /// The entry that blocks one of `categories`, itself or by what stands before a hyphen.
    pub fn category(&self, categories: &[String]) -> Option<&str> {
        let blocked = self.0.as_ref().map(|sets| &sets.categories).filter(|set| set.is_any())?;
        let under = |category: &String| {
            let heads = category.match_indices('-').map(|(at, _)| &category[..at]);
            heads.chain([category.as_str()]).find_map(|head| blocked.find(head))
        };
        categories.iter().find_map(under)
    }

    /// The entry that blocks one of `domains`, itself or by a domain that it lies under.
    pub fn domain(&self, domains: &[String]) -> Option<&str> {
        let blocked = self.0.as_ref().map(|sets| &sets.domains).filter(|set| set.is_any())?;
        let under = |domain: &String| {
            let tails = domain.match_indices('.').map(|(at, _)| &domain[at + 1..]);
            tails.chain([domain.as_str()]).find_map(|tail| blocked.find(tail))
        };
        domains.iter().find_map(under)
    }
}

/// Names, each in one spelling: the first.
#[derive(Clone, Default)]
struct Set {
    names: HashTable<Box<str>>,
    hasher: DefaultHashBuilder,
    /// Whether names that differ only in the case of their ASCII letters are one.
    folds: bool,
}

impl Set {
    fn new<'a>(names: impl IntoIterator<Item = &'a str>, folds: bool) -> Self {
        let mut set = Self { folds, ..Self::default() };
        for name in names {
            if set.find(name).is_none() {
                let Self { names, hasher, .. } = &mut set;
                let hash = hash(hasher, name, folds);
                names.insert_unique(hash, name.into(), |other| self::hash(hasher, other, folds));
            }
        }
        set
    }

    fn is_any(&self) -> bool {
        !self.names.is_empty()
    }

    fn find(&self, name: &str) -> Option<&str> {
        if self.names.is_empty() {
            return None;
        }
        let hash = hash(&self.hasher, name, self.folds);
        let found = self.names.find(hash, |other| match self.folds {
            true => other.eq_ignore_ascii_case(name),
            false => **other == *name,
        });
        found.map(|name| &**name)
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names.iter().collect::<BTreeSet<_>>()).finish()
    }
}

fn hash(hasher: &DefaultHashBuilder, name: &str, folds: bool) -> u64 {
    let mut state = hasher.build_hasher();
    match folds {
        true => name.bytes().for_each(|byte| state.write_u8(byte.to_ascii_lowercase())),
        false => state.write(name.as_bytes()),
    }
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::super::CampaignId;
    use super::*;

    fn strings(values: &[&str]) -> Vec<String> {
        values.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_category_blocks_what_lies_under_it() {
        let blocks = Blocks::new([], ["IAB2"], []);
        assert_eq!(blocks.category(&strings(&["IAB2"])), Some("IAB2"));
        assert_eq!(blocks.category(&strings(&["IAB1", "iab2-1"])), Some("IAB2"));
        assert_eq!(blocks.category(&strings(&["IAB25", "IAB", "IAB1-2"])), None);
    }

    #[test]
    fn a_domain_blocks_what_lies_under_it() {
        let blocks = Blocks::new([], [], ["Example.com"]);
        assert_eq!(blocks.domain(&strings(&["example.com"])), Some("Example.com"));
        assert_eq!(blocks.domain(&strings(&["a.shop.EXAMPLE.com"])), Some("Example.com"));
        assert_eq!(blocks.domain(&strings(&["badexample.com", "example.com.evil", "com"])), None);
    }

    #[test]
    fn excluding_advertiser_3_leaves_campaign_7_3_alone() {
        let of = |campaign: &str| CampaignId::from(campaign).advertiser();
        assert!(!Blocks::new(["3"], [], []).advertiser(&of("7:3")));
        assert!(Blocks::new(["7"], [], []).advertiser(&of("7:3")));
    }

    #[test]
    fn an_advertisers_case_matters() {
        let blocks = Blocks::new(["Acme", "ACME"], [], []);
        assert!(blocks.advertiser(&"ACME".into()) && blocks.advertiser(&"Acme".into()));
        assert!(!blocks.advertiser(&"acme".into()));
    }

    #[test]
    fn nothing_blocks_nothing() {
        assert!(Blocks::default().is_empty());
        assert!(!Blocks::new([], [], ["a.example"]).is_empty());
        assert_eq!(Blocks::new(["x"], [], []).domain(&strings(&["x"])), None);
    }
}
