//! Which ads of a zone have which keyword: for each keyword the positions of its ads, ascending.
//!
//! A rare keyword has a list of positions, four bytes for each; one that at least every 32nd ad
//! has is a row of bits, which is smaller then, and counted 64 ads at a time.

mod cursor;

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

pub(crate) use cursor::{Cursor, NO_POSITION};

use super::build::position;
use crate::model::Keywords;

/// A keyword is kept as bits from one ad in so many on: where both forms are of one size.
const DENSE_SHARE: usize = 32;

/// The keywords of a zone and the ads that have them.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    hasher: DefaultHashBuilder,
    table: HashTable<u32>,
    lists: Box<[List]>,
    text: Box<str>,
    positions: Box<[u32]>,
    bits: Box<[u64]>,
    /// Words of one row of bits.
    row: usize,
}

#[derive(Clone, Debug)]
struct List {
    /// Where its keyword stands in the text.
    word: Range<u32>,
    ads: Ads,
}

#[derive(Clone, Debug)]
enum Ads {
    /// A part of `positions`.
    Sparse(Range<u32>),
    /// A row of `bits`.
    Dense(u32),
}

impl Postings {
    /// Names the list of `word`, where any ad has it.
    pub(crate) fn find(&self, word: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(word);
        self.table.find(hash, |&list| self.word(list) == word).copied()
    }

    /// A cursor before the first ad of a list that [`Postings::find`] named.
    pub(crate) fn cursor(&self, list: u32) -> Cursor<'_> {
        match &self.lists[list as usize].ads {
            Ads::Sparse(range) => {
                Cursor::sparse(&self.positions[range.start as usize..range.end as usize])
            }
            Ads::Dense(row) => {
                let start = *row as usize * self.row;
                Cursor::dense(&self.bits[start..start + self.row])
            }
        }
    }

    /// Gives the ads of a list as rows of 64 bits: `add` gets the number of the row and bits of it,
    /// each ad once. Returns how many steps that took.
    pub(crate) fn each_row(&self, list: u32, mut add: impl FnMut(usize, u64)) -> usize {
        match &self.lists[list as usize].ads {
            Ads::Sparse(range) => {
                let positions = &self.positions[range.start as usize..range.end as usize];
                positions.iter().for_each(|ad| add(*ad as usize / 64, 1 << (ad % 64)));
                positions.len()
            }
            Ads::Dense(row) => {
                let start = *row as usize * self.row;
                let bits = &self.bits[start..start + self.row];
                bits.iter().enumerate().for_each(|(row, bits)| add(row, *bits));
                bits.len()
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lists)
            + size_of_val(&*self.positions)
            + size_of_val(&*self.bits)
            + self.text.len()
            + self.table.allocation_size()
    }

    /// The number of lists.
    pub(super) fn len(&self) -> u32 {
        position(self.lists.len())
    }

    pub(super) fn hasher(&self) -> DefaultHashBuilder {
        self.hasher.clone()
    }

    /// Gives each ad of a list, in order.
    pub(super) fn each(&self, list: u32, mut give: impl FnMut(u32)) {
        match &self.lists[list as usize].ads {
            Ads::Sparse(range) => {
                let positions = &self.positions[range.start as usize..range.end as usize];
                positions.iter().for_each(|ad| give(*ad));
            }
            Ads::Dense(row) => {
                let start = *row as usize * self.row;
                for (at, bits) in (0..).step_by(64).zip(&self.bits[start..start + self.row]) {
                    let mut left = *bits;
                    while left != 0 {
                        give(at + left.trailing_zeros());
                        left &= left - 1;
                    }
                }
            }
        }
    }

    /// The keyword of a list.
    pub(super) fn word(&self, list: u32) -> &str {
        let Range { start, end } = self.lists[list as usize].word;
        &self.text[start as usize..end as usize]
    }
}

/// Takes the ads' keywords before it is known in which order they will stand.
pub(super) struct PostingsBuilder {
    ads: usize,
    hasher: DefaultHashBuilder,
    table: HashTable<u32>,
    words: Vec<Range<u32>>,
    text: String,
    /// How many ads have the keyword.
    lens: Vec<u32>,
    /// For each ad its keywords' lists, one after another, and where its own end.
    lists: Vec<u32>,
    ends: Vec<u32>,
}

impl PostingsBuilder {
    pub(super) fn new(ads: usize) -> Self {
        Self {
            ads,
            hasher: DefaultHashBuilder::default(),
            table: HashTable::new(),
            words: Vec::new(),
            text: String::new(),
            lens: Vec::new(),
            lists: Vec::new(),
            ends: Vec::with_capacity(ads),
        }
    }

    /// The keywords of one more ad.
    pub(super) fn push(&mut self, keywords: &Keywords) {
        for word in keywords.iter() {
            let list = self.list(word);
            self.lens[list as usize] += 1;
            self.lists.push(list);
        }
        self.ends.push(position(self.lists.len()));
    }

    /// The postings of the ads in the order of their positions: `order` has, for each of these,
    /// how many ads were taken before that one.
    pub(super) fn finish(self, order: &[u32]) -> Postings {
        let mut lists = Lists::new(self.ads, self.words, &self.lens);
        for (position, at) in (0..).zip(order) {
            let at = *at as usize;
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            for list in &self.lists[start as usize..self.ends[at] as usize] {
                lists.push(*list, position);
            }
        }
        lists.finish(self.hasher, self.table, self.text)
    }

    fn list(&mut self, word: &str) -> u32 {
        let hash = self.hasher.hash_one(word);
        let (words, text) = (&self.words, &self.text);
        let word_of = |list: u32| {
            let Range { start, end } = words[list as usize];
            &text[start as usize..end as usize]
        };
        if let Some(list) = self.table.find(hash, |&list| word_of(list) == word) {
            return *list;
        }
        let new = position(self.words.len());
        self.table.insert_unique(hash, new, |&list| self.hasher.hash_one(word_of(list)));
        let start = position(self.text.len());
        self.text.push_str(word);
        self.words.push(start..position(self.text.len()));
        self.lens.push(0);
        new
    }
}

/// Lists whose lengths are known, on their way to being filled.
pub(super) struct Lists {
    lists: Vec<List>,
    positions: Vec<u32>,
    bits: Vec<u64>,
    row: usize,
    /// Where the next ad of a sparse list goes.
    next: Vec<u32>,
}

impl Lists {
    pub(super) fn new(ads: usize, words: Vec<Range<u32>>, lens: &[u32]) -> Self {
        let (mut sparse, mut dense) = (0, 0);
        let lists: Vec<List> = words
            .into_iter()
            .zip(lens)
            .map(|(word, len)| {
                let is_dense = *len as usize * DENSE_SHARE >= ads.max(1);
                let ads = if is_dense {
                    dense += 1;
                    Ads::Dense(dense - 1)
                } else {
                    sparse += len;
                    Ads::Sparse(sparse - len..sparse)
                };
                List { word, ads }
            })
            .collect();
        let next = lists.iter().map(|list| match &list.ads {
            Ads::Sparse(range) => range.start,
            Ads::Dense(_) => 0,
        });
        let row = ads.div_ceil(64);
        Self {
            next: next.collect(),
            positions: vec![0; sparse as usize],
            bits: vec![0; dense as usize * row],
            row,
            lists,
        }
    }

    /// The next ad of `list`; ads come in order.
    pub(super) fn push(&mut self, list: u32, ad: u32) {
        match self.lists[list as usize].ads {
            Ads::Sparse(_) => {
                let next = &mut self.next[list as usize];
                self.positions[*next as usize] = ad;
                *next += 1;
            }
            Ads::Dense(row) => {
                let word = row as usize * self.row + ad as usize / 64;
                self.bits[word] |= 1 << (ad % 64);
            }
        }
    }

    /// The postings; `table` finds the lists by their keywords under `hasher`, or is empty.
    pub(super) fn finish(
        self,
        hasher: DefaultHashBuilder,
        mut table: HashTable<u32>,
        text: String,
    ) -> Postings {
        let postings = Postings {
            hasher,
            table: HashTable::new(),
            lists: self.lists.into(),
            text: text.into(),
            positions: self.positions.into(),
            bits: self.bits.into(),
            row: self.row,
        };
        let hash = |list: &u32| postings.hasher.hash_one(postings.word(*list));
        if table.is_empty() {
            for list in 0..postings.len() {
                table.insert_unique(hash(&list), list, hash);
            }
        }
        table.shrink_to_fit(hash);
        Postings { table, ..postings }
    }
}
