//! All ads, as a few numbers each: what the server is given, and what its answers are held against.

use rand_core::SeedableRng;
use rand_distr::{Distribution, LogNormal, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Shape, is_capped};

/// So many ads of a campaign stand in a zone together.
const ADS_TOGETHER: u32 = 4;
/// The middle of the ads' eCPM, in micros; half of them are between half and twice of it.
const ECPM_MICROS_MEDIAN: f64 = 2e6;
const ECPM_SIGMA: f64 = 1.0;
/// What g(m) = ln(1.1 + m) adds to.
const MATCH_BASE: f64 = 1.1;

/// One ad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ad {
    pub(crate) campaign: u32,
    pub(crate) ecpm_micros: i64,
}

/// The ads of all zones.
pub(crate) struct Catalogue {
    pub(crate) shape: Shape,
    ads: Vec<Ad>,
    words: Vec<u16>,
}

impl Catalogue {
    /// The catalogue of this shape.
    ///
    /// # Errors
    /// When the numbers are too large to be reckoned with.
    pub(crate) fn new(shape: &Shape) -> anyhow::Result<Self> {
        let count = shape.zones as usize * shape.ads as usize;
        let each = shape.ad_keywords as usize;
        let mut ads = Vec::with_capacity(count);
        let mut words = Vec::with_capacity(count * each);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(shape.catalogue_seed);
        let ecpm = LogNormal::new(ECPM_MICROS_MEDIAN.ln(), ECPM_SIGMA)?;
        let zipf = Zipf::new(f64::from(shape.words), shape.word_zipf)?;
        for number in 0..count {
            let group = number / ADS_TOGETHER as usize;
            let campaign = u32::try_from(group % shape.campaigns as usize)?;
            #[allow(clippy::cast_possible_truncation, reason = "a price is far below 2^63")]
            let ecpm_micros = (ecpm.sample(&mut rng).round() as i64).clamp(1, 1_000_000_000);
            ads.push(Ad { campaign, ecpm_micros });
            distinct(&mut rng, &zipf, each, &mut words);
        }
        Ok(Self { shape: shape.clone(), ads, words })
    }

    fn at(&self, zone: u32, number: u32) -> Option<usize> {
        let is_there = zone < self.shape.zones && number < self.shape.ads;
        is_there.then_some(zone as usize * self.shape.ads as usize + number as usize)
    }

    /// One ad of a zone.
    pub(crate) fn ad(&self, zone: u32, number: u32) -> Option<Ad> {
        self.ads.get(self.at(zone, number)?).copied()
    }

    /// The words of one ad.
    pub(crate) fn words(&self, zone: u32, number: u32) -> &[u16] {
        let each = self.shape.ad_keywords as usize;
        let at = self.at(zone, number).unwrap_or_default() * each;
        self.words.get(at..at + each).unwrap_or_default()
    }

    /// How many of `asked` an ad has.
    pub(crate) fn matches(&self, zone: u32, number: u32, asked: &[u16]) -> u32 {
        let mut count = 0;
        for word in self.words(zone, number) {
            count += u32::from(asked.contains(word));
        }
        count
    }

    /// Ads that every request to any zone gets, however often its visitor was there: as many as it
    /// asks for, if each zone has so many without a cap.
    pub(crate) fn is_full(&self, count: u32) -> bool {
        (0..self.shape.zones).all(|zone| {
            let uncapped = (0..self.shape.ads)
                .filter(|number| self.ad(zone, *number).is_some_and(|ad| !is_capped(ad.campaign)));
            uncapped.take(count as usize).count() == count as usize
        })
    }
}

/// What an ad is worth to a request that it shares so many words with: the contract's formula.
pub(crate) fn score(ecpm_micros: i64, matched: u32) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "prices stay below 2^53")]
    let ecpm = ecpm_micros as f64 / 1e6;
    ecpm * (MATCH_BASE + f64::from(matched)).ln()
}

/// Appends `count` different words.
pub(crate) fn distinct(
    rng: &mut Xoshiro256PlusPlus,
    zipf: &Zipf<f64>,
    count: usize,
    into: &mut Vec<u16>,
) {
    let start = into.len();
    while into.len() < start + count {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank from 1 to the number of words, which a u16 holds"
        )]
        let word = zipf.sample(rng) as u16 - 1;
        if !into[start..].contains(&word) {
            into.push(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::shape;

    #[test]
    fn the_same_seed_gives_the_same_catalogue() {
        let (one, two) = (Catalogue::new(&shape()).unwrap(), Catalogue::new(&shape()).unwrap());
        assert_eq!((&one.ads, &one.words), (&two.ads, &two.words));
        let other = Catalogue::new(&Shape { catalogue_seed: 2, ..shape() }).unwrap();
        assert_ne!(one.ads, other.ads);
    }

    #[test]
    fn the_words_of_an_ad_are_all_different_and_the_first_is_the_most_frequent() {
        let catalogue = Catalogue::new(&shape()).unwrap();
        let mut counts = vec![0; shape().words as usize];
        for number in 0..shape().ads {
            let words = catalogue.words(3, number);
            assert_eq!(words.len(), 3);
            assert!(words[0] != words[1] && words[1] != words[2] && words[0] != words[2]);
            words.iter().for_each(|word| counts[usize::from(*word)] += 1);
        }
        assert_eq!(counts.iter().max(), Some(&counts[0]));
        assert_eq!(catalogue.matches(3, 7, catalogue.words(3, 7)), 3);
        assert_eq!(catalogue.matches(3, 7, &[]), 0);
    }

    #[test]
    fn half_of_the_ads_have_no_cap() {
        let catalogue = Catalogue::new(&shape()).unwrap();
        for zone in 0..shape().zones {
            let capped = (0..shape().ads)
                .filter(|number| is_capped(catalogue.ad(zone, *number).unwrap().campaign));
            assert_eq!(capped.count(), shape().ads as usize / 2);
        }
        assert!(catalogue.is_full(shape().ads / 2));
        assert!(!catalogue.is_full(shape().ads / 2 + 1));
    }

    /// The worked example of the contract: eCPM 250 with 0 to 3 matches.
    #[test]
    fn scores_are_those_of_the_contract() {
        for (matched, expected) in
            [23.827_545, 185.484_336, 282.850_528, 352.746_743].iter().enumerate()
        {
            let score = score(250_000_000, u32::try_from(matched).unwrap());
            assert!((score - expected).abs() < 1e-6, "{score}");
        }
    }
}
