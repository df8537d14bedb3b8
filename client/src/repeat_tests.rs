//! Tests of `repeat.rs`: what is sent again, and when.

use super::*;

fn unavailable() -> Status {
    Status::unavailable("draining")
}

fn pushed_back(mut status: Status, ms: &'static str) -> Status {
    status.metadata_mut().insert("grpc-retry-pushback-ms", ms.parse().unwrap());
    status
}

#[test]
fn a_decision_that_may_be_recorded_is_not_repeated() {
    let recorded = ChooseAdsRequest { user_id: "u".into(), ..ChooseAdsRequest::default() };
    let unknown = ChooseAdsRequest::default();
    let dry = ChooseAdsRequest { dry_run: true, ..recorded.clone() };
    let limited = ChooseAdsRequest { limited: true, ..recorded.clone() };
    assert_eq!(recorded.repeat(), Repeat::OnlyUnread);
    for harmless in [&unknown, &dry, &limited] {
        assert_eq!(harmless.repeat(), Repeat::Freely);
    }
    let batch = |requests: &[&ChooseAdsRequest]| ChooseAdsBatchRequest {
        requests: requests.iter().copied().cloned().collect(),
    };
    assert_eq!(batch(&[&unknown, &dry, &limited]).repeat(), Repeat::Freely);
    assert_eq!(batch(&[&unknown, &recorded]).repeat(), Repeat::OnlyUnread);
    let page = ChoosePageRequest { user_id: "u".into(), ..ChoosePageRequest::default() };
    assert_eq!(page.repeat(), Repeat::OnlyUnread);
    assert_eq!(ChoosePageRequest { dry_run: true, ..page }.repeat(), Repeat::Freely);
}

#[test]
fn what_is_unclear_is_sent_again_only_where_that_is_harmless() {
    for (fate, freely, only_unread) in [
        (Fate::Unsent, true, true),
        (Fate::Unread, true, true),
        (Fate::Broken, true, false),
        (Fate::Answered, true, false),
        (Fate::Late, false, false),
    ] {
        let again = |repeat| Tries::new(repeat).again(fate, &unavailable()).is_some();
        assert_eq!(again(Repeat::Freely), freely, "{fate:?}");
        assert_eq!(again(Repeat::OnlyUnread), only_unread, "{fate:?}");
    }
}

#[test]
fn a_refusal_that_will_stay_is_not_repeated() {
    for status in [
        Status::invalid_argument("count"),
        Status::aborted("version"),
        Status::resource_exhausted("the disk is full"),
        Status::internal("bug"),
    ] {
        assert_eq!(Tries::new(Repeat::Freely).again(Fate::Answered, &status), None, "{status}");
    }
}

#[test]
fn attempts_are_bounded() {
    let mut tries = Tries::new(Repeat::Freely);
    let sent: Vec<bool> =
        (0..4).map(|_| tries.again(Fate::Broken, &unavailable()).is_some()).collect();
    assert_eq!(sent, [true, true, false, false], "sent three times in all");
    let mut tries = Tries::new(Repeat::OnlyUnread);
    let unsent = (0..100).filter(|_| tries.again(Fate::Unsent, &unavailable()).is_some()).count();
    assert_eq!(unsent, 15);
}

#[test]
fn the_server_says_when_and_whether() {
    let again = |status: Status| Tries::new(Repeat::Freely).again(Fate::Answered, &status);
    assert_eq!(again(pushed_back(unavailable(), "250")), Some(Duration::from_millis(250)));
    assert_eq!(again(pushed_back(unavailable(), "0")), Some(Duration::ZERO));
    assert_eq!(again(pushed_back(unavailable(), "-1")), None);
    assert_eq!(again(pushed_back(unavailable(), "soon")), None);
    assert_eq!(again(pushed_back(unavailable(), "18446744073709551615")), None);
    let busy = pushed_back(Status::resource_exhausted("busy"), "20");
    assert_eq!(again(busy), Some(Duration::from_millis(20)));
}
