//! What comes after a decision: an ad of it is seen, and sometimes clicked.

use std::collections::VecDeque;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::check::{self, TOKEN_CHARS};
use crate::limits::QUEUE_MAX;
use crate::workload::landing_url;

/// One showing of an ad, to be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Showing {
    pub(crate) token: [u8; TOKEN_CHARS],
    /// When it should be reported.
    pub(crate) due_ns: u64,
    /// Where a click on it must lead; empty where it is not clicked.
    pub(crate) landing_url: Vec<u8>,
}

/// Which ads are reported.
#[derive(Clone, Copy, Debug)]
enum Which {
    /// The first ad of so many of all answers is seen, and of so many clicked.
    Shares { seen: f64, clicked: f64 },
    /// Every ad is clicked, until there are so many.
    All { most: usize },
}

/// What is to be reported.
pub(crate) struct FollowUps {
    which: Which,
    rng: Xoshiro256PlusPlus,
    pub(crate) seen: VecDeque<Showing>,
    pub(crate) clicked: VecDeque<Showing>,
    /// Reports that nobody took in time.
    pub(crate) dropped: u64,
}

impl FollowUps {
    /// The first ad of a share of the answers is seen, and of another, smaller one clicked, too.
    pub(crate) fn shares(seen: f64, clicked: f64, seed: u64) -> Self {
        Self::new(Which::Shares { seen, clicked }, seed)
    }

    /// Every ad is clicked; the clicks are kept until there are so many.
    pub(crate) fn all(most: usize) -> Self {
        Self::new(Which::All { most }, 0)
    }

    fn new(which: Which, seed: u64) -> Self {
        Self {
            which,
            // Not the stream of numbers that the visitors are drawn from.
            rng: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x666f_6c6c_6f77),
            seen: VecDeque::new(),
            clicked: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Whether nothing waits to be reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.seen.is_empty() && self.clicked.is_empty()
    }

    /// Follows up a right answer, which came at `now_ns`.
    pub(crate) fn up(&mut self, answer: &[u8], now_ns: u64) {
        match self.which {
            Which::Shares { seen, clicked } => {
                let draw = (f64::from(self.rng.next_u32()) + 0.5) / f64::from(u32::MAX);
                if draw >= seen.max(clicked) {
                    return;
                }
                let Some(ad) = check::ads(answer).next() else { return };
                if draw < seen {
                    let report = Showing { landing_url: Vec::new(), ..showing(&ad, now_ns) };
                    push(&mut self.seen, report, QUEUE_MAX, &mut self.dropped);
                }
                if draw < clicked {
                    push(&mut self.clicked, showing(&ad, now_ns), QUEUE_MAX, &mut self.dropped);
                }
            }
            Which::All { most } => {
                for ad in check::ads(answer) {
                    if self.clicked.len() < most {
                        self.clicked.push_back(showing(&ad, now_ns));
                    }
                }
            }
        }
    }
}

fn push(queue: &mut VecDeque<Showing>, showing: Showing, most: usize, dropped: &mut u64) {
    if queue.len() < most {
        queue.push_back(showing);
    } else {
        *dropped += 1;
    }
}

fn showing(ad: &check::First<'_>, due_ns: u64) -> Showing {
    let text = String::from_utf8_lossy;
    let landing_url = landing_url(&text(ad.campaign), &text(ad.ad_unit), &text(ad.token));
    // It was found to have the right length.
    let token = ad.token.try_into().unwrap_or([0; TOKEN_CHARS]);
    Showing { token, due_ns, landing_url: landing_url.into_bytes() }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use slotwise_proto::v1::{ChooseAdsResponse, ChosenAd};

    use super::*;

    fn answer() -> Vec<u8> {
        let ads = ["A", "B"].map(|letter| ChosenAd {
            campaign_id: "adv0001:c00012".into(),
            ad_unit_id: format!("z1-{letter}"),
            score: 1.0,
            token: letter.repeat(TOKEN_CHARS),
            ..ChosenAd::default()
        });
        ChooseAdsResponse { ads: ads.into(), ..ChooseAdsResponse::default() }.encode_to_vec()
    }

    #[test]
    fn so_many_are_seen_and_some_of_these_clicked() {
        let mut follow = FollowUps::shares(0.3, 0.01, 1);
        (0..10_000).for_each(|_| follow.up(&answer(), 7));
        assert!((2_800..3_200).contains(&follow.seen.len()), "{}", follow.seen.len());
        assert!((60..140).contains(&follow.clicked.len()), "{}", follow.clicked.len());
        let click = follow.clicked.pop_front().unwrap();
        assert_eq!((click.token, click.due_ns), ([b'A'; TOKEN_CHARS], 7));
        let url = format!("https://landing.example/adv0001:c00012/z1-A?t={}", "A".repeat(96));
        assert_eq!(click.landing_url, url.as_bytes());
    }

    #[test]
    fn every_ad_is_kept_until_there_are_enough() {
        let mut follow = FollowUps::all(3);
        (0..2).for_each(|_| follow.up(&answer(), 7));
        let tokens: Vec<_> = follow.clicked.iter().map(|showing| showing.token[0]).collect();
        assert_eq!(tokens, *b"ABA");
    }
}
