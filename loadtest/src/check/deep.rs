//! An answer held against the catalogue: whether its ads are those that the rules give. What no
//! cap can withhold must be there if it is worth more than something that is.

use prost::Message as _;
use slotwise_proto::v1::{ChooseAdsResponse, ChosenAd};

use super::{Wrong, number, zone_of};
use crate::workload::catalogue::score;
use crate::workload::{Catalogue, campaign, is_capped};

/// Checks some of the answers whole.
pub(crate) struct Deep {
    catalogue: Catalogue,
    /// One of so many.
    every: u64,
    seen: u64,
    done: u64,
}

impl Deep {
    /// Checks one answer of `every`; 0: none.
    pub(crate) fn new(catalogue: Catalogue, every: u64) -> Self {
        Self { catalogue, every, seen: 0, done: 0 }
    }

    /// How many were checked.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Whether the next answer is one of those.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.seen += 1;
        self.every > 0 && self.seen.is_multiple_of(self.every)
    }

    /// Checks an answer of `zone` to a request for `words` and at most `count` ads.
    pub(crate) fn check(
        &mut self,
        message: &[u8],
        zone: u32,
        words: &[u16],
        count: usize,
    ) -> Result<(), Wrong> {
        self.done += 1;
        let answer = ChooseAdsResponse::decode(message).map_err(|_| "not a ChooseAdsResponse")?;
        let mut chosen = Vec::with_capacity(answer.ads.len());
        for ad in &answer.ads {
            chosen.push(self.chosen(ad, zone, words)?);
        }
        if answer.explanation.is_some_and(|explanation| {
            explanation.counts.iter().map(|verdict| verdict.count).sum::<u32>()
                != explanation.candidates
        }) {
            return Err("an explanation whose verdicts do not add up");
        }
        let worst = answer.ads.last().filter(|_| answer.ads.len() == count);
        let worst = worst.map_or(0.0, |ad| ad.score);
        // What could not be better with all words matched need not be matched.
        let all = u32::try_from(words.len()).unwrap_or(u32::MAX);
        let most = score(1_000_000, all);
        for number in 0..self.catalogue.shape.ads {
            let Some(ad) = self.catalogue.ad(zone, number) else { continue };
            #[allow(clippy::cast_precision_loss, reason = "prices stay below 2^53")]
            let is_hopeless = ad.ecpm_micros as f64 / 1e6 * most <= worst * (1.0 - SCORE_TOLERANCE);
            if is_hopeless || is_capped(ad.campaign) || chosen.contains(&number) {
                continue;
            }
            if score(ad.ecpm_micros, self.catalogue.matches(zone, number, words)) > worst {
                return Err("a better ad that no cap withholds was left out");
            }
        }
        Ok(())
    }

    /// The number of an ad in its zone, if it is what the catalogue says.
    fn chosen(&self, ad: &ChosenAd, zone: u32, words: &[u16]) -> Result<u32, Wrong> {
        let name = ad.ad_unit_id.as_bytes();
        let digits = name.rsplit(|byte| *byte == b'-').next().unwrap_or_default();
        let known = number(digits).filter(|_| zone_of(name) == Some(zone));
        let known = known.and_then(|number| Some((number, self.catalogue.ad(zone, number)?)));
        let (number, known) = known.ok_or("an ad that is not in the catalogue")?;
        if ad.campaign_id != campaign(known.campaign) || ad.ecpm_micros != known.ecpm_micros {
            return Err("an ad that is not as in the catalogue");
        }
        let matched = self.catalogue.matches(zone, number, words);
        if ad.matched_keywords != matched {
            return Err("keywords matched that did not, or the other way round");
        }
        let expected = score(known.ecpm_micros, matched);
        if (ad.score - expected).abs() > expected * SCORE_TOLERANCE {
            return Err("a score that is not eCPM x ln(1.1 + matched)");
        }
        Ok(number)
    }
}

/// Two ways to take a logarithm may differ in the last bits.
const SCORE_TOLERANCE: f64 = 1e-12;
