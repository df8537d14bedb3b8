//! What is asked for one placement.

use std::borrow::Cow;

use slotwise_core::decide::Query;
use slotwise_core::model::{Keywords, Size, normalise_keyword};
use smallvec::SmallVec;

use super::checks::problem_of_name;
use super::{Refusal, check_len, over};
use crate::limits::{COUNT_MAX, KEYWORD_BYTES_MAX, KEYWORDS_USED_MAX, PRICE_MICROS_MAX, SIZES_MAX};

/// A checked placement.
pub(in crate::doors::grpc) struct Place<'r> {
    pub(in crate::doors::grpc) site_id: &'r str,
    pub(in crate::doors::grpc) zone_id: &'r str,
    pub(in crate::doors::grpc) query: Query,
    /// Keywords that were too long or too many.
    pub(super) ignored_keywords: usize,
}

/// A placement as it was asked for, but for its keywords.
pub(super) struct Wanted<'r> {
    pub(super) site_id: &'r str,
    pub(super) zone_id: &'r str,
    pub(super) count: u32,
    pub(super) floor_ecpm_micros: i64,
    pub(super) sizes: &'r [slotwise_proto::v1::Size],
}

impl<'r> Wanted<'r> {
    /// Checks it.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub(super) fn check(self, words: Words<'_>) -> Result<Place<'r>, Refusal> {
        for (field, id) in [("site_id", self.site_id), ("zone_id", self.zone_id)] {
            if let Some(problem) = problem_of_name(id) {
                return Err(Refusal::invalid(field, problem));
            }
        }
        if self.count > COUNT_MAX {
            return Err(over("count", self.count, COUNT_MAX));
        }
        let floor = self.floor_ecpm_micros;
        if !(0..=PRICE_MICROS_MAX).contains(&floor) {
            let problem = format!("is {floor}; 0 to {PRICE_MICROS_MAX} would do");
            return Err(Refusal::invalid("floor_ecpm_micros", problem));
        }
        let query = Query {
            count: self.count.max(1) as usize,
            keywords: words.keywords(),
            floor_ecpm_micros: floor,
            sizes: sizes(self.sizes)?,
        };
        let ignored_keywords = words.ignored;
        Ok(Place { site_id: self.site_id, zone_id: self.zone_id, query, ignored_keywords })
    }
}

fn sizes(raw: &[slotwise_proto::v1::Size]) -> Result<Vec<Size>, Refusal> {
    check_len("sizes", raw.len(), SIZES_MAX)?;
    let size = |(at, size): (usize, &slotwise_proto::v1::Size)| {
        if size.width == 0 || size.height == 0 {
            return Err(Refusal::invalid(&format!("sizes[{at}]"), "has a side of 0 pixels"));
        }
        Ok(Size { width: size.width, height: size.height })
    };
    raw.iter().enumerate().map(size).collect()
}

/// Keywords as they are used: normalised, none twice, not too many.
#[derive(Default)]
pub(super) struct Words<'r> {
    used: SmallVec<[Cow<'r, str>; 8]>,
    /// How many were too long or too many.
    pub(super) ignored: usize,
}

impl<'r> Words<'r> {
    pub(super) fn new(raw: &'r [String]) -> Self {
        let mut words = Self::default();
        for keyword in raw {
            // Trimmed first: outer spaces do not make a keyword long.
            if keyword.trim().len() > KEYWORD_BYTES_MAX {
                words.ignored += 1;
            } else {
                words.add(normalise_keyword(keyword));
            }
        }
        words
    }

    /// These, and of `others` what there is room for.
    pub(super) fn and(mut self, others: &'r Words<'_>) -> Self {
        others.used.iter().for_each(|word| self.add(Cow::Borrowed(word)));
        self
    }

    fn add(&mut self, word: Cow<'r, str>) {
        if word.is_empty() || self.used.contains(&word) {
            return;
        }
        if self.used.len() == KEYWORDS_USED_MAX {
            self.ignored += 1;
        } else {
            self.used.push(word);
        }
    }

    fn keywords(&self) -> Keywords {
        Keywords::from_normalised(self.used.iter().map(|word| &**word).collect())
    }
}
