//! Caps that only a reported impression fills.

use std::sync::Arc;

use slotwise_proto::v1::{ChooseAdsRequest, ChosenAd, Exposure, ForgetUserRequest};
use slotwise_server::events::Settling as _;
use slotwise_server::testing::{ManualClock, Server};
use slotwise_server::tokens::Showing;
use tokio::task::JoinSet;

use crate::support::{ad, ask, campaign, decisions, import, place, users};
use crate::{NOON_US, opened, server};

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

/// One ad that a visitor may see so often a day.
async fn capped(server: &Server, impressions_max: u32) {
    let cap = format!(
        r#""caps":[{{"level":"CAP_LEVEL_CAMPAIGN","impressionsMax":{impressions_max},"window":"86400s"}}]"#
    );
    let mut records = place(&["z"]);
    records.push(campaign("x:1", &cap));
    records.push(ad("x:1", "u", &["z"], 9, ""));
    import(server, &records).await;
}

/// A showing held for its impression; nothing: the ad is capped.
async fn asked(server: &Server) -> Option<Showing> {
    let request = ChooseAdsRequest { exposure: Exposure::OnImpression.into(), ..ask("z", "v", 1) };
    let answer = decisions(server).await.choose_ads(request).await.unwrap().into_inner();
    answer.ads.first().map(|ad: &ChosenAd| opened(ad, &[1]).unwrap())
}

struct Night {
    server: Server,
    clock: Arc<ManualClock>,
    _dir: tempfile::TempDir,
}

impl Night {
    async fn of_cap(impressions_max: u32) -> Self {
        let (server, clock, dir) = server(&[]).await;
        capped(&server, impressions_max).await;
        Self { server, clock, _dir: dir }
    }

    fn at(&self, since_noon_us: i64) {
        self.clock.set(NOON_US + since_noon_us);
    }

    async fn seen(&self, showing: &Showing, since_noon_us: i64) {
        self.server.app().showings.exposures.seen(showing, NOON_US + since_noon_us).await;
    }

    async fn lost(&self, showing: &Showing, since_noon_us: i64) {
        self.server.app().showings.exposures.lost(showing, NOON_US + since_noon_us).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_holds_its_place_for_a_minute() {
    let night = Night::of_cap(1).await;
    assert!(asked(&night.server).await.is_some());
    night.at(60 * SECOND_US - 1);
    assert!(asked(&night.server).await.is_none(), "the place is held");
    night.at(60 * SECOND_US);
    assert!(asked(&night.server).await.is_some(), "nobody has reported an impression");
    night.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_frees_the_place_and_after_an_impression_changes_nothing() {
    let night = Night::of_cap(1).await;
    let lost = asked(&night.server).await.unwrap();
    night.lost(&lost, 1).await;
    let shown = asked(&night.server).await.expect("the place is free again");
    night.lost(&lost, 2).await;
    assert!(asked(&night.server).await.is_none(), "it was another showing's loss");
    night.seen(&shown, 3).await;
    night.lost(&shown, 4).await;
    for at in [4, 61 * SECOND_US, DAY_US - 1] {
        night.at(at);
        assert!(asked(&night.server).await.is_none(), "seen once of once a day");
    }
    night.at(DAY_US);
    assert!(asked(&night.server).await.is_some());
    night.server.stop().await;
}

/// The same impression reported twice fills a cap once.
#[tokio::test(flavor = "multi_thread")]
async fn repeats_of_an_impression_fill_a_cap_once() {
    let night = Night::of_cap(2).await;
    let shown = asked(&night.server).await.unwrap();
    for at in [1, 2, 61 * SECOND_US, 62 * SECOND_US] {
        night.seen(&shown, at).await;
    }
    night.at(61 * SECOND_US);
    assert!(asked(&night.server).await.is_some(), "seen once of twice");
    assert!(asked(&night.server).await.is_none(), "the second place is held");
    night.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_impression_after_the_hold_adds_what_was_seen() {
    let night = Night::of_cap(1).await;
    let shown = asked(&night.server).await.unwrap();
    night.at(61 * SECOND_US);
    night.seen(&shown, 61 * SECOND_US).await;
    assert!(asked(&night.server).await.is_none());
    night.at(DAY_US - 1);
    assert!(asked(&night.server).await.is_none());
    night.at(DAY_US);
    assert!(asked(&night.server).await.is_some());
    night.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_ask_at_once_no_place_is_held_twice() {
    let night = Night::of_cap(3).await;
    let mut asking = JoinSet::new();
    for _ in 0..40 {
        let mut client = decisions(&night.server).await;
        let request =
            ChooseAdsRequest { exposure: Exposure::OnImpression.into(), ..ask("z", "v", 1) };
        asking.spawn(async move { client.choose_ads(request).await.unwrap().into_inner().ads });
    }
    let ads: Vec<_> = asking.join_all().await.into_iter().flatten().collect();
    assert_eq!(ads.len(), 3);
    for (ad, wins) in ads.iter().zip([true, false, false]) {
        let showing = opened(ad, &[1]).unwrap();
        if wins {
            night.seen(&showing, 1).await;
        } else {
            night.lost(&showing, 1).await;
        }
    }
    assert!(asked(&night.server).await.is_some() && asked(&night.server).await.is_some());
    assert!(asked(&night.server).await.is_none());
    night.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_forgotten_stays_so_whatever_is_reported_late() {
    let night = Night::of_cap(1).await;
    let shown = asked(&night.server).await.unwrap();
    night.at(SECOND_US);
    let forget = ForgetUserRequest { user_id: "v".into(), ..ForgetUserRequest::default() };
    users(&night.server).await.forget_user(forget).await.unwrap();
    night.seen(&shown, 2 * SECOND_US).await;
    night.at(2 * SECOND_US);
    let again = asked(&night.server).await.expect("a visitor nobody knows");
    night.seen(&again, 3 * SECOND_US).await;
    assert!(asked(&night.server).await.is_none());
    night.server.stop().await;
}

/// A dry run counts what is held, and holds nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_holds_no_place() {
    let night = Night::of_cap(1).await;
    let dry = ChooseAdsRequest {
        exposure: Exposure::OnImpression.into(),
        dry_run: true,
        ..ask("z", "v", 1)
    };
    let mut client = decisions(&night.server).await;
    for _ in 0..2 {
        let answer = client.choose_ads(dry.clone()).await.unwrap().into_inner();
        assert_eq!(answer.ads.len(), 1);
    }
    assert!(asked(&night.server).await.is_some());
    let answer = client.choose_ads(dry).await.unwrap().into_inner();
    assert_eq!(answer.ads.len(), 0);
    night.server.stop().await;
}
