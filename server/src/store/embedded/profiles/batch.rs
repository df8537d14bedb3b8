//! What is known of visitors as bytes on disk: batches of entries, fixed little-endian fields
//! behind one byte of format.

use slotwise_core::model::{
    AccountSerial, AdSerial, AdvertiserId, CampaignSerial, Exposure, Segment, ZoneSerial,
};

use crate::ports::VisitorKey;

/// The first byte of every batch that is written: entries, each behind a tag.
const FORMAT: u8 = 2;
/// What came before: exposures without tags.
const FORMAT_UNTAGGED: u8 = 1;

/// Stands where an entry was that has been erased; one byte long.
const TAG_ERASED: u8 = 0;
/// One exposure.
const TAG_EXPOSURE: u8 = 1;
/// All segments of one visitor: what an earlier entry said of them is over.
const TAG_SEGMENTS: u8 = 2;

/// A place that is held until its impression; written as an exposure is.
const TAG_HELD: u8 = 3;
/// Such a place is free again; written as an exposure is.
const TAG_RELEASED: u8 = 4;

/// Bytes of a visitor's key, as it stands in every entry: account, then hash.
pub(super) const KEY_BYTES: usize = 20;

/// What there is to write of a visitor's exposures.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    /// It was shown, or its place is held.
    Shown(Exposure),
    /// The place that it held is free.
    Released(Exposure),
}

/// Why a batch cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BatchError {
    /// It must not be touched.
    #[error(
        "the visitors were written down by a newer slotwise (format {0}; this one knows {FORMAT})"
    )]
    Newer(u8),
    /// It is not one that we wrote.
    #[error("a batch of what is known of visitors is damaged")]
    Damaged,
}

/// Bytes of an exposure's entry before the advertiser's name: tag, key, fields, length of the name.
const HEAD_BYTES: usize = 1 + KEY_BYTES + 3 * size_of::<u64>() + 3 * size_of::<u32>() + 1;

/// A batch that is being written.
pub(super) struct Batch(Vec<u8>);

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// One with nothing in it yet.
    pub(super) fn new() -> Self {
        Self(vec![FORMAT])
    }

    /// What to write down.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    /// Takes out everything; its memory stays.
    pub(super) fn clear(&mut self) {
        self.0.truncate(1);
    }

    /// Adds all that is in `other`.
    pub(super) fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0[1..]);
    }

    /// Overwrites what is said of the visitor; returns whether there was anything.
    pub(super) fn erase(&mut self, visitor: VisitorKey) -> bool {
        // What was just written can be read.
        erase(&mut self.0, |of| of == visitor).unwrap_or(false)
    }

    /// Of whom it says something; a visitor may be named more than once.
    pub(super) fn visitors(&self) -> Vec<VisitorKey> {
        let entries = Entries::of(&self.0).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.0)).collect()
    }

    /// Adds one exposure.
    pub(super) fn add_exposure(
        &mut self,
        visitor: VisitorKey,
        advertiser: &AdvertiserId,
        shown: &Exposure,
    ) {
        let tag = if shown.is_held { TAG_HELD } else { TAG_EXPOSURE };
        self.add_showing(tag, visitor, advertiser, shown);
    }

    /// Adds what there is to write.
    pub(super) fn add_told(&mut self, visitor: VisitorKey, advertiser: &AdvertiserId, told: &Told) {
        match told {
            Told::Shown(shown) => self.add_exposure(visitor, advertiser, shown),
            Told::Released(shown) => self.add_showing(TAG_RELEASED, visitor, advertiser, shown),
        }
    }

    fn add_showing(
        &mut self,
        tag: u8,
        visitor: VisitorKey,
        advertiser: &AdvertiserId,
        shown: &Exposure,
    ) {
        let name = name_bytes(advertiser.as_str());
        let mut head = [0; HEAD_BYTES];
        let mut rest = head.as_mut_slice();
        let mut put = |bytes: &[u8]| {
            let (place, left) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            place.copy_from_slice(bytes);
            rest = left;
        };
        put(&[tag]);
        put(&key_bytes(visitor));
        put(&shown.at_us.to_le_bytes());
        put(&shown.life_us.to_le_bytes());
        put(&shown.decision.to_le_bytes());
        put(&shown.zone.0.to_le_bytes());
        put(&shown.campaign.0.to_le_bytes());
        put(&shown.ad.0.to_le_bytes());
        put(&[name.0]);
        self.0.reserve(HEAD_BYTES + name.1.len());
        self.0.extend_from_slice(&head);
        self.0.extend_from_slice(name.1);
    }

    /// Adds the visitor's segments, all of them; none: they are gone.
    pub(super) fn add_segments(&mut self, visitor: VisitorKey, segments: &[Segment]) {
        self.0.push(TAG_SEGMENTS);
        self.0.extend(key_bytes(visitor));
        // A profile has at most 256.
        let len = u16::try_from(segments.len()).unwrap_or(u16::MAX);
        self.0.extend(len.to_le_bytes());
        for segment in &segments[..usize::from(len)] {
            self.0.extend(segment.expires_us.to_le_bytes());
            self.add_name(&segment.name);
        }
    }

    fn add_name(&mut self, name: &str) {
        let (len, name) = name_bytes(name);
        self.0.push(len);
        self.0.extend_from_slice(name);
    }
}

/// A name with its length before it. Ids and names of segments have at most 128 bytes; what is
/// longer could not have come in.
fn name_bytes(name: &str) -> (u8, &[u8]) {
    let name = name.as_bytes();
    let len = u8::try_from(name.len()).unwrap_or(u8::MAX);
    (len, &name[..usize::from(len)])
}

/// The key as it stands in every entry.
pub(super) fn key_bytes(visitor: VisitorKey) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    let (account, hash) = bytes.split_at_mut(size_of::<u32>());
    account.copy_from_slice(&visitor.account.0.to_le_bytes());
    hash.copy_from_slice(&visitor.visitor.to_le_bytes());
    bytes
}

/// What an entry says of its visitor.
#[derive(Debug, PartialEq)]
pub(super) enum Entry<'b> {
    /// An ad of this advertiser was shown, or holds a place.
    Exposure(&'b str, Exposure),
    /// The place that it held is free.
    Released(&'b str, Exposure),
    /// These are the visitor's segments, and no others.
    Segments(Vec<Segment>),
}

/// Walks over the entries of a batch.
pub(super) struct Entries<'b> {
    rest: &'b [u8],
    /// Whether the batch is of the format that is written today.
    pub(super) is_tagged: bool,
}

impl<'b> Entries<'b> {
    /// The entries of `batch`.
    pub(super) fn of(batch: &'b [u8]) -> Result<Self, BatchError> {
        match batch.split_first() {
            Some((&format, rest)) if (FORMAT_UNTAGGED..=FORMAT).contains(&format) => {
                Ok(Self { rest, is_tagged: format == FORMAT })
            }
            Some((&format, _)) if format > FORMAT => Err(BatchError::Newer(format)),
            _ => Err(BatchError::Damaged),
        }
    }

    /// Bytes that are still to come.
    pub(super) fn rest_len(&self) -> usize {
        self.rest.len()
    }

    fn read(&mut self) -> Option<(VisitorKey, Entry<'b>)> {
        let tag = if self.is_tagged { u8::from_le_bytes(self.take()?) } else { TAG_EXPOSURE };
        let visitor = VisitorKey {
            account: AccountSerial(u32::from_le_bytes(self.take()?)),
            visitor: u128::from_le_bytes(self.take()?),
        };
        let entry = match tag {
            TAG_EXPOSURE | TAG_HELD => {
                let shown = self.read_exposure(tag == TAG_HELD)?;
                Entry::Exposure(self.read_name()?, shown)
            }
            TAG_RELEASED => {
                let shown = self.read_exposure(true)?;
                Entry::Released(self.read_name()?, shown)
            }
            TAG_SEGMENTS => {
                let len = u16::from_le_bytes(self.take()?);
                let segments = (0..len).map(|_| self.read_segment());
                Entry::Segments(segments.collect::<Option<_>>()?)
            }
            _ => return None,
        };
        Some((visitor, entry))
    }

    fn read_exposure(&mut self, is_held: bool) -> Option<Exposure> {
        Some(Exposure {
            at_us: i64::from_le_bytes(self.take()?),
            life_us: i64::from_le_bytes(self.take()?),
            is_held,
            decision: u64::from_le_bytes(self.take()?),
            zone: ZoneSerial(u32::from_le_bytes(self.take()?)),
            campaign: CampaignSerial(u32::from_le_bytes(self.take()?)),
            ad: AdSerial(u32::from_le_bytes(self.take()?)),
        })
    }

    fn read_segment(&mut self) -> Option<Segment> {
        let expires_us = i64::from_le_bytes(self.take()?);
        Some(Segment { name: self.read_name()?.to_owned(), expires_us })
    }

    fn read_name(&mut self) -> Option<&'b str> {
        let [len] = self.take()?;
        let (name, tail) = self.rest.split_at_checked(usize::from(len))?;
        self.rest = tail;
        std::str::from_utf8(name).ok()
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>()?;
        self.rest = tail;
        Some(*head)
    }
}

impl<'b> Iterator for Entries<'b> {
    type Item = Result<(VisitorKey, Entry<'b>), BatchError>;

    /// After an error it is over.
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_tagged {
            let erased = self.rest.iter().take_while(|&&tag| tag == TAG_ERASED).count();
            self.rest = &self.rest[erased..];
        }
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read().ok_or(BatchError::Damaged);
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

/// Overwrites the entries of those visitors that `is_meant` in `batch`, which must be of today's
/// format and stays as long as it was. Returns whether there were any.
pub(super) fn erase(
    batch: &mut [u8],
    mut is_meant: impl FnMut(VisitorKey) -> bool,
) -> Result<bool, BatchError> {
    let len = batch.len();
    let mut found = Vec::new();
    let mut entries = Entries::of(batch)?;
    if !entries.is_tagged {
        return Err(BatchError::Damaged);
    }
    let mut start = len - entries.rest_len();
    while let Some(entry) = entries.next() {
        let end = len - entries.rest_len();
        if is_meant(entry?.0) {
            found.push(start..end);
        }
        start = end;
    }
    for range in &found {
        batch[range.clone()].fill(TAG_ERASED);
    }
    Ok(!found.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VISITOR: VisitorKey = VisitorKey { account: AccountSerial(7), visitor: u128::MAX - 1 };
    const OTHER: VisitorKey = VisitorKey { account: AccountSerial(8), visitor: u128::MAX - 1 };

    fn exposure() -> Exposure {
        Exposure {
            at_us: -5,
            life_us: i64::MAX,
            is_held: false,
            decision: 42,
            zone: ZoneSerial(1),
            campaign: CampaignSerial(2),
            ad: AdSerial(3),
        }
    }

    fn segments() -> Vec<Segment> {
        let segment = |name: &str| Segment { name: name.to_owned(), expires_us: i64::MIN };
        vec![segment("a/1"), segment("b/ü")]
    }

    /// An exposure of each visitor, segments of one, an exposure; with the place where each ends.
    fn batch() -> (Batch, [usize; 4]) {
        let (mut batch, advertiser) = (Batch::new(), AdvertiserId::from("müller"));
        let mut ends = [0; 4];
        batch.add_exposure(VISITOR, &advertiser, &exposure());
        ends[0] = batch.bytes().len();
        batch.add_exposure(OTHER, &advertiser, &exposure());
        ends[1] = batch.bytes().len();
        batch.add_segments(VISITOR, &segments());
        ends[2] = batch.bytes().len();
        batch.add_segments(OTHER, &[]);
        ends[3] = batch.bytes().len();
        (batch, ends)
    }

    fn read(batch: &[u8]) -> Result<Vec<(VisitorKey, Entry<'_>)>, BatchError> {
        Entries::of(batch)?.collect()
    }

    #[test]
    fn a_batch_reads_back_and_a_cut_one_says_so() {
        let (batch, ends) = batch();
        let shown = || Entry::Exposure("müller", exposure());
        let all = [
            (VISITOR, shown()),
            (OTHER, shown()),
            (VISITOR, Entry::Segments(segments())),
            (OTHER, Entry::Segments(Vec::new())),
        ];
        assert_eq!(read(batch.bytes()).unwrap(), all);
        assert_eq!(read(Batch::new().bytes()), Ok(Vec::new()));
        for cut in (0..batch.bytes().len()).filter(|cut| *cut != 1 && !ends.contains(cut)) {
            let cut_batch = &batch.bytes()[..cut];
            assert_eq!(read(cut_batch), Err(BatchError::Damaged), "cut at {cut}");
        }
    }

    #[test]
    fn holds_and_releases_read_back() {
        let (mut batch, x) = (Batch::new(), AdvertiserId::from("x"));
        let held = Exposure { is_held: true, ..exposure() };
        batch.add_exposure(VISITOR, &x, &held);
        batch.add_told(VISITOR, &x, &Told::Released(held));
        batch.add_told(OTHER, &x, &Told::Shown(exposure()));
        let all = [
            (VISITOR, Entry::Exposure("x", held)),
            (VISITOR, Entry::Released("x", held)),
            (OTHER, Entry::Exposure("x", exposure())),
        ];
        assert_eq!(read(batch.bytes()).unwrap(), all);
        let mut bytes = batch.bytes().to_vec();
        assert_eq!(erase(&mut bytes, |visitor| visitor == VISITOR), Ok(true));
        assert_eq!(read(&bytes).unwrap(), all[2..]);
    }

    /// As format 1 wrote it: an exposure of account 1 and visitor 2, at 3 for 4, decision 5, zone
    /// 6, campaign 7, ad 8, advertiser "ad".
    #[test]
    fn a_batch_of_format_1_is_read() {
        let mut bytes = vec![1];
        bytes.extend([1, 0, 0, 0]);
        bytes.extend(2_u128.to_le_bytes());
        for number in [3_u64, 4, 5] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([6, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 2, b'a', b'd']);
        let visitor = VisitorKey { account: AccountSerial(1), visitor: 2 };
        let exposure = Exposure {
            at_us: 3,
            life_us: 4,
            is_held: false,
            decision: 5,
            zone: ZoneSerial(6),
            campaign: CampaignSerial(7),
            ad: AdSerial(8),
        };
        assert_eq!(read(&bytes).unwrap(), [(visitor, Entry::Exposure("ad", exposure))]);
        assert!(!Entries::of(&bytes).unwrap().is_tagged);
    }

    #[test]
    fn a_newer_format_and_none_at_all_are_told_apart() {
        assert_eq!(read(&[3, 1, 2]), Err(BatchError::Newer(3)));
        assert_eq!(read(&[0, 1, 2]), Err(BatchError::Damaged));
        assert_eq!(read(&[]), Err(BatchError::Damaged));
        assert_eq!(read(&[2, 9, 9]), Err(BatchError::Damaged), "an entry that nobody wrote");
    }

    #[test]
    fn an_erased_visitor_is_nowhere_and_the_others_are_there() {
        let (batch, _) = batch();
        let mut bytes = batch.bytes().to_vec();
        assert_eq!(erase(&mut bytes, |_| false), Ok(false));
        assert_eq!(bytes, batch.bytes());
        assert_eq!(erase(&mut bytes, |visitor| visitor == VISITOR), Ok(true));
        assert_eq!(bytes.len(), batch.bytes().len());
        let holds = |key| bytes.windows(KEY_BYTES).any(|part| part == key_bytes(key));
        assert!(!holds(VISITOR) && holds(OTHER));
        assert!(!bytes.windows(3).any(|part| part == b"a/1"));
        let left =
            [(OTHER, Entry::Exposure("müller", exposure())), (OTHER, Entry::Segments(Vec::new()))];
        assert_eq!(read(&bytes).unwrap(), left);
        assert_eq!(erase(&mut bytes, |visitor| visitor == VISITOR), Ok(false), "gone already");
        assert_eq!(erase(&mut bytes, |_| true), Ok(true));
        assert!(bytes[1..].iter().all(|byte| *byte == 0));
        assert_eq!(read(&bytes), Ok(Vec::new()));
    }
}
