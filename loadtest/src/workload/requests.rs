//! Requests, as bytes: a pool of what is asked for, made beforehand, and who asks, drawn for each.

use anyhow::Context;
use rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;
use slotwise_proto::v1::ChooseAdsRequest;

use super::catalogue::distinct;
use super::encode::{
    GRPC_PREFIX_BYTES, begin_message, end_message, put_bytes, put_varint, varint_len,
};
use super::{Asking, Shape, site, word, zone};
use crate::limits::POOL_REQUESTS;

/// What is asked for: zone, words, how many; all of a request but its visitor.
pub(crate) struct Pool {
    bytes: Vec<u8>,
    /// Where each begins; one more for the end of the last.
    starts: Vec<u32>,
    asked: Vec<Asked>,
    words: Vec<u16>,
    words_each: usize,
    request_bytes_max: usize,
}

/// What an answer is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) zone: u32,
    pub(crate) is_explained: bool,
}

/// Field 4, `user_id`.
const USER_TAG: u8 = 4 << 3 | 2;
/// Field 1 of a batch, `requests`.
const REQUESTS_TAG: u8 = 1 << 3 | 2;

impl Pool {
    /// The requests that these numbers give.
    ///
    /// # Errors
    /// When the numbers are too large to be reckoned with.
    pub(crate) fn new(shape: &Shape, asking: &Asking) -> anyhow::Result<Self> {
        use prost::Message as _;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(asking.seed);
        let zipf = Zipf::new(f64::from(shape.words), shape.word_zipf)?;
        let words_each = asking.keywords as usize;
        let mut pool = Self {
            bytes: Vec::new(),
            starts: vec![0],
            asked: Vec::with_capacity(POOL_REQUESTS),
            words: Vec::with_capacity(POOL_REQUESTS * words_each),
            words_each,
            request_bytes_max: 0,
        };
        for number in 0..POOL_REQUESTS {
            distinct(&mut rng, &zipf, words_each, &mut pool.words);
            let zone_number = below(&mut rng, shape.zones);
            let is_explained = happens(&mut rng, asking.explain);
            let words = &pool.words[number * words_each..];
            let request = ChooseAdsRequest {
                site_id: site(shape, zone_number),
                zone_id: zone(zone_number),
                keywords: words.iter().map(|number| word(u32::from(*number))).collect(),
                count: asking.count,
                explain: is_explained,
                ..ChooseAdsRequest::default()
            };
            let bytes = request.encode_to_vec();
            let bytes_max = bytes.len() + GRPC_PREFIX_BYTES;
            pool.request_bytes_max = pool.request_bytes_max.max(bytes_max);
            pool.bytes.extend_from_slice(&bytes);
            pool.starts
                .push(u32::try_from(pool.bytes.len()).context("the requests are too large")?);
            pool.asked.push(Asked { zone: zone_number, is_explained });
        }
        Ok(pool)
    }

    /// How many there are; after the last comes the first again.
    #[inline]
    pub(crate) fn wrap(&self, number: usize) -> usize {
        number & (POOL_REQUESTS - 1)
    }

    /// Bytes that no request is longer than, its visitor and the frame of its message apart.
    pub(crate) fn request_bytes_max(&self) -> usize {
        self.request_bytes_max
    }

    /// What one asks for.
    #[inline]
    pub(crate) fn asked(&self, number: usize) -> Asked {
        self.asked[self.wrap(number)]
    }

    /// The words of one.
    pub(crate) fn words(&self, number: usize) -> &[u16] {
        let at = self.wrap(number) * self.words_each;
        &self.words[at..at + self.words_each]
    }

    #[inline]
    fn request(&self, number: usize) -> &[u8] {
        let number = self.wrap(number);
        &self.bytes[self.starts[number] as usize..self.starts[number + 1] as usize]
    }

    /// Appends a gRPC message of one request, as `visitors` give the next visitor.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>, number: usize, visitors: &mut Visitors) {
        let at = begin_message(out);
        out.extend_from_slice(self.request(number));
        put_bytes(out, USER_TAG, visitors.next());
        end_message(out, at);
    }

    /// Appends a gRPC message of a batch of `count`, from `number` on.
    pub(crate) fn put_batch(
        &self,
        out: &mut Vec<u8>,
        number: usize,
        count: usize,
        visitors: &mut Visitors,
    ) {
        let at = begin_message(out);
        for number in number..number + count {
            let (request, visitor) = (self.request(number), visitors.next());
            out.push(REQUESTS_TAG);
            let visitor_len = 1 + varint_len(visitor.len()) + visitor.len();
            put_varint(out, request.len() + visitor_len);
            out.extend_from_slice(request);
            put_bytes(out, USER_TAG, visitor);
        }
        end_message(out, at);
    }
}

/// Who asks.
pub(crate) struct Visitors {
    rng: Xoshiro256PlusPlus,
    zipf: Zipf<f64>,
    /// Of 2^64: a draw below it is a newcomer.
    newcomers: u64,
    is_all_new: bool,
    /// What the names of newcomers begin with, another one in each run.
    run: String,
    come: u64,
    name: Vec<u8>,
}

impl Visitors {
    /// Visitors as `asking` says; `run` tells this run's newcomers from those of others.
    ///
    /// # Errors
    /// When the numbers make no distribution.
    pub(crate) fn new(asking: &Asking, run: u64) -> anyhow::Result<Self> {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of 2^64"
        )]
        let newcomers = (asking.newcomers * u64::MAX as f64) as u64;
        Ok(Self {
            // Not the stream of numbers that the pool is drawn from.
            rng: Xoshiro256PlusPlus::seed_from_u64(asking.seed ^ 0x7669_7369_746f_7273),
            zipf: Zipf::new(f64::from(asking.visitors), asking.visitor_zipf)?,
            newcomers,
            is_all_new: asking.newcomers >= 1.0,
            run: format!("n{run:x}-"),
            come: 0,
            name: Vec::with_capacity(32),
        })
    }

    /// The next visitor's id.
    #[inline]
    pub(crate) fn next(&mut self) -> &[u8] {
        self.name.clear();
        if self.is_all_new || self.rng.next_u64() < self.newcomers {
            self.come += 1;
            self.name.extend_from_slice(self.run.as_bytes());
            put_decimal(&mut self.name, self.come);
        } else {
            self.name.push(b'v');
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rank from 1 to the number of visitors"
            )]
            let rank = self.zipf.sample(&mut self.rng) as u64;
            put_decimal(&mut self.name, rank);
        }
        &self.name
    }
}

/// Appends a number's digits.
#[inline]
fn put_decimal(out: &mut Vec<u8>, mut number: u64) {
    let start = out.len();
    loop {
        #[allow(clippy::cast_possible_truncation, reason = "one digit")]
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out[start..].reverse();
}

/// A number below `bound`, all alike.
pub(crate) fn below(rng: &mut impl Rng, bound: u32) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "the upper half is below `bound`")]
    let number = ((u64::from(rng.next_u32()) * u64::from(bound)) >> 32) as u32;
    number
}

/// Whether what happens in so many of all cases happens now.
#[inline]
pub(crate) fn happens(rng: &mut impl Rng, share: f64) -> bool {
    (f64::from(rng.next_u32()) + 0.5) / f64::from(u32::MAX) < share
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use prost::Message as _;
    use slotwise_proto::v1::ChooseAdsBatchRequest;

    use super::*;
    use crate::workload::tests::{asking, shape};

    #[test]
    fn a_request_is_what_the_pool_says_that_it_asks_for() {
        let asking = Asking { explain: 0.5, ..asking() };
        let pool = Pool::new(&shape(), &asking).unwrap();
        let mut visitors = Visitors::new(&asking, 7).unwrap();
        let mut explained = 0;
        for number in (0..100).map(|number| number + POOL_REQUESTS - 50) {
            let mut out = Vec::new();
            pool.put(&mut out, number, &mut visitors);
            let len = u32::from_be_bytes(out[1..5].try_into().unwrap());
            assert_eq!((out[0], len as usize), (0, out.len() - 5));
            let request = ChooseAdsRequest::decode(&out[5..]).unwrap();
            let asked = pool.asked(number);
            assert_eq!(request.zone_id, zone(asked.zone));
            assert_eq!(request.site_id, site(&shape(), asked.zone));
            let words: Vec<_> = pool.words(number).iter().map(|w| word(u32::from(*w))).collect();
            assert_eq!((request.keywords, request.count), (words, 3));
            assert_eq!(request.explain, asked.is_explained);
            assert!(request.user_id.starts_with(['v', 'n']));
            explained += u32::from(request.explain);
        }
        assert!((20..=80).contains(&explained), "about half: {explained}");
    }

    #[test]
    fn a_batch_holds_the_same_requests() {
        let pool = Pool::new(&shape(), &asking()).unwrap();
        let (mut batch, mut single) = (Vec::new(), Vec::new());
        pool.put_batch(&mut batch, 9, 3, &mut Visitors::new(&asking(), 7).unwrap());
        let batch = ChooseAdsBatchRequest::decode(&batch[5..]).unwrap();
        let mut visitors = Visitors::new(&asking(), 7).unwrap();
        for (number, request) in batch.requests.iter().enumerate() {
            single.clear();
            pool.put(&mut single, 9 + number, &mut visitors);
            assert_eq!(&ChooseAdsRequest::decode(&single[5..]).unwrap(), request);
        }
        assert_eq!(batch.requests.len(), 3);
    }

    #[test]
    fn few_visitors_come_often_and_newcomers_once() {
        let mut visitors = Visitors::new(&asking(), 255).unwrap();
        let mut counts = HashMap::<String, u32>::new();
        for _ in 0..10_000 {
            *counts.entry(String::from_utf8(visitors.next().to_vec()).unwrap()).or_default() += 1;
        }
        let newcomers = counts.iter().filter(|(name, _)| name.starts_with("nff-"));
        let (kinds, times) = newcomers.fold((0, 0), |(k, t), (_, count)| (k + 1, t + count));
        assert_eq!(kinds, times, "each comes once");
        assert!((800..1_200).contains(&times), "one in ten: {times}");
        let most = counts.iter().max_by_key(|(_, count)| **count).unwrap();
        assert_eq!(most.0, "v1");
    }
}
