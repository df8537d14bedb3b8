//! What the store admits: caps at each level, in order, and to their very edges.

use slotwise_core::decide::StrictCandidate;
use slotwise_core::model::{AdSerial, CampaignSerial, Cap, CapLevel, Exposure, Profile};
use slotwise_server::ports::ProfileStore;

use crate::node::{DAY_US, NOON_US, Node, PATIENCE, exposure, visitor, x};
use crate::redis_server::RedisServer;

const HOUR_US: i64 = 3_600_000_000;

fn cap(level: CapLevel, impressions_max: u32, window_us: i64) -> Cap {
    Cap { level, impressions_max, window_us }
}

/// An ad of a campaign of advertiser x, decided on at noon.
fn candidate(campaign: u32, ad: u32, decision: u64, caps: &[Cap]) -> StrictCandidate {
    let (campaign, ad) = (CampaignSerial(campaign), AdSerial(ad));
    let exposure = Exposure { campaign, ad, ..exposure(NOON_US, decision) };
    StrictCandidate { advertiser: x(), exposure, caps: caps.into(), taken_before: 0 }
}

async fn ads(node: &Node, of: u128, count: usize, candidates: &[StrictCandidate]) -> Vec<u32> {
    let admitted = node.ask(of, count, candidates.to_vec()).await;
    admitted.into_iter().map(|AdSerial(ad)| ad).collect()
}

/// Records that these were shown.
async fn shown(node: &Node, of: u128, all: &[Exposure]) {
    let mut admit = |profile: &mut Profile| {
        all.iter().for_each(|shown| profile.record(&x(), *shown, NOON_US).unwrap());
    };
    node.store.admit(visitor(of), NOON_US, PATIENCE, &mut admit).await.unwrap();
    node.flush().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_level_counts_what_is_its_own() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    // Ad 1 and ad 2 of campaign 1, and ad 3 of campaign 2, once each.
    let seen = [(1, 1), (1, 2), (2, 3)].map(|(campaign, ad)| Exposure {
        campaign: CampaignSerial(campaign),
        ad: AdSerial(ad),
        ..exposure(NOON_US - 1, ad.into())
    });
    let expected = [
        (CapLevel::Ad, 1, vec![]),
        (CapLevel::Ad, 2, vec![1]),
        (CapLevel::Campaign, 2, vec![]),
        (CapLevel::Campaign, 3, vec![1]),
        (CapLevel::Advertiser, 3, vec![]),
        (CapLevel::Advertiser, 4, vec![1]),
    ];
    for (of, (level, max, admitted)) in (0..).zip(expected) {
        shown(&node, of, &seen).await;
        let caps = [cap(level, max, DAY_US)];
        assert_eq!(ads(&node, of, 9, &[candidate(1, 1, 77, &caps)]).await, admitted, "{caps:?}");
        let all = 3 + admitted.len();
        assert_eq!(node.decisions(of).await.len(), all, "just what is admitted is recorded");
    }
    shown(&node, 50, &seen).await;
    let both = [cap(CapLevel::Ad, 2, DAY_US), cap(CapLevel::Advertiser, 3, DAY_US)];
    assert!(ads(&node, 50, 9, &[candidate(1, 1, 77, &both)]).await.is_empty(), "all must hold");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_ends_at_its_very_microsecond() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let caps = [cap(CapLevel::Ad, 1, HOUR_US)];
    let ask = candidate(2, 3, 77, &caps);
    shown(&node, 1, &[exposure(NOON_US - HOUR_US + 1, 1)]).await;
    assert!(ads(&node, 1, 9, std::slice::from_ref(&ask)).await.is_empty());
    shown(&node, 2, &[exposure(NOON_US - HOUR_US, 1)]).await;
    assert_eq!(ads(&node, 2, 9, &[ask]).await, [3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_are_admitted_until_the_answer_is_full() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let caps = [cap(CapLevel::Ad, 1, DAY_US)];
    let of = |ad, taken_before| StrictCandidate { taken_before, ..candidate(ad, ad, 1, &caps) };
    assert_eq!(ads(&node, 1, 2, &[of(1, 0), of(2, 0), of(3, 0)]).await, [1, 2]);
    assert_eq!(node.decisions(1).await.len(), 2, "the third is not recorded");
    // One of three places is taken before the second and another one before the third.
    assert_eq!(ads(&node, 2, 3, &[of(1, 0), of(2, 1), of(3, 2)]).await, [1, 2]);
    // The second does not fit its cap: its place goes to the third.
    shown(&node, 3, &[candidate(2, 2, 9, &caps).exposure]).await;
    assert_eq!(ads(&node, 3, 2, &[of(1, 0), of(2, 0), of(3, 0)]).await, [1, 3]);
    // One answer counts against its own caps.
    let shared = [cap(CapLevel::Advertiser, 2, DAY_US)];
    let of = |ad| candidate(ad, ad, 1, &shared);
    assert_eq!(ads(&node, 4, 9, &[of(1), of(2), of(3)]).await, [1, 2]);
}

/// The very same ask again, as after a reply that was lost, neither counts nor shows it twice.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_admitted_stays_so() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let ask = [candidate(1, 1, 5, &[cap(CapLevel::Ad, 1, DAY_US)])];
    assert_eq!(ads(&node, 1, 1, &ask).await, [1]);
    assert_eq!(ads(&node, 1, 1, &ask).await, [1]);
    assert_eq!(node.decisions(1).await, [5]);
}

/// Two decisions of 64 bits that a floating-point number takes for one.
#[tokio::test(flavor = "multi_thread")]
async fn large_numbers_of_decisions_are_told_apart() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let twins = [u64::MAX, u64::MAX - 1, 1 << 53, (1 << 53) + 1];
    shown(&node, 1, &twins.map(|decision| exposure(NOON_US, decision))).await;
    assert_eq!(node.decisions(1).await, twins);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_list_admits_nothing() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let full: Vec<_> = (0..200).map(|decision| exposure(NOON_US - HOUR_US, decision)).collect();
    shown(&node, 1, &full).await;
    let ask = [candidate(9, 9, 300, &[cap(CapLevel::Ad, 1, DAY_US)])];
    assert!(ads(&node, 1, 1, &ask).await.is_empty(), "nothing that still counts is evicted");
    shown(&node, 2, &full[1..]).await;
    assert_eq!(ads(&node, 2, 1, &ask).await, [9]);
    assert_eq!(node.decisions(2).await.len(), 200);
}
