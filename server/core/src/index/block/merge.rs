//! A block from the one before: what stays is taken over in order, so that a change of one ad
//! among a million is a walk over the numbers of the others, and not over their texts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use hashbrown::{HashMap, HashSet, HashTable};

use super::build::{Draft, Place, Rank, Rows, position};
use super::postings::Lists;
use super::{Entry, NO_POSITION, Newcomer, Postings, ZoneBlock};
use crate::model::{AdSerial, Keywords};

impl ZoneBlock {
    /// The block without the ads in `removed` and with `added`, in any order; no ad twice.
    pub(in super::super) fn changed(
        &self,
        place: Place,
        removed: &HashSet<AdSerial>,
        added: Vec<Newcomer>,
    ) -> Self {
        let mut rows = Rows::with_capacity(self.entries.len() + added.len());
        let mut moved = Vec::with_capacity(self.entries.len());
        let mut words = Additions::default();
        let mut added = added;
        added.sort_unstable_by_key(Newcomer::rank);
        let mut added = added.into_iter().peekable();
        let mut next = 0;
        let mut add = |rows: &mut Rows, next: &mut u32, newcomer: Newcomer| {
            words.push(&self.postings, *next, &newcomer.ad.keywords);
            rows.push(Draft::from(newcomer));
            *next += 1;
        };
        for entry in &self.entries {
            if removed.contains(&entry.serial) {
                moved.push(NO_POSITION);
                continue;
            }
            while let Some(before) = added.next_if(|new| new.rank() < self.rank(entry)) {
                add(&mut rows, &mut next, before);
            }
            rows.push_old(self, entry);
            moved.push(next);
            next += 1;
        }
        for newcomer in added {
            add(&mut rows, &mut next, newcomer);
        }
        let postings = self.postings.changed(&moved, next as usize, words);
        rows.finish(place, postings)
    }

    fn rank(&self, entry: &Entry) -> Rank {
        let level = &self.levels[entry.level as usize];
        (Reverse(level.tier), Reverse(level.ecpm_micros), entry.serial)
    }
}

/// What is added to the lists, in order of the positions.
#[derive(Default)]
struct Additions {
    /// To lists that are there.
    old: HashMap<u32, Vec<u32>>,
    new: BTreeMap<Box<str>, Vec<u32>>,
}

impl Additions {
    fn push(&mut self, postings: &Postings, position: u32, keywords: &Keywords) {
        for word in keywords.iter() {
            match postings.find(word) {
                Some(list) => self.old.entry(list).or_default().push(position),
                None => self.new.entry(word.into()).or_default().push(position),
            }
        }
    }
}

impl Postings {
    /// The postings after every ad has gone from its position to that in `moved`, of `ads` ads.
    fn changed(&self, moved: &[u32], ads: usize, additions: Additions) -> Self {
        let mut text = String::new();
        let (mut words, mut lens, mut from): (Vec<Range<u32>>, Vec<u32>, Vec<u32>) =
            Default::default();
        let mut keep = |word: &str, len: u32| {
            let start = position(text.len());
            text.push_str(word);
            words.push(start..position(text.len()));
            lens.push(len);
        };
        for list in 0..self.len() {
            let mut len = additions.old.get(&list).map_or(0, |more| position(more.len()));
            self.each(list, |ad| len += u32::from(moved[ad as usize] != NO_POSITION));
            if len > 0 {
                keep(self.word(list), len);
                from.push(list);
            }
        }
        for (word, more) in &additions.new {
            keep(word, position(more.len()));
        }
        let mut lists = Lists::new(ads, words, &lens);
        for (new, old) in (0..).zip(&from) {
            let mut more = additions.old.get(old).into_iter().flatten().peekable();
            self.each(*old, |ad| {
                let ad = moved[ad as usize];
                if ad != NO_POSITION {
                    while let Some(before) = more.next_if(|more| **more < ad) {
                        lists.push(new, *before);
                    }
                    lists.push(new, ad);
                }
            });
            more.for_each(|ad| lists.push(new, *ad));
        }
        for (new, more) in (position(from.len())..).zip(additions.new.values()) {
            more.iter().for_each(|ad| lists.push(new, *ad));
        }
        lists.finish(self.hasher(), HashTable::new(), text)
    }
}
