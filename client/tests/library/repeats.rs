//! What is sent again and what is not, against a server that breaks below gRPC.

use std::time::Duration;

use slotwise_client::stubs::{CatalogServiceClient, UserServiceClient};
use slotwise_client::v1::*;
use slotwise_client::{Catalog, Code, Decisions, Error, Options, Users};

use crate::scripted::{Scripted, Turn};

/// Ample for a loaded machine; nothing here waits for it.
const DEADLINE: Duration = Duration::from_secs(20);

fn options(server: &Scripted) -> Options {
    Options::new([server.address.into()]).connections(1).deadline(DEADLINE)
}

async fn decisions(turns: &[Turn]) -> (Scripted, Decisions) {
    let server = Scripted::start(turns).await;
    let decisions = Decisions::connect(&options(&server)).await.unwrap();
    (server, decisions)
}

/// A decision that may record an exposure.
fn recorded() -> ChooseAdsRequest {
    ChooseAdsRequest { user_id: "visitor-1".into(), ..ChooseAdsRequest::default() }
}

fn dry_run() -> ChooseAdsRequest {
    ChooseAdsRequest { dry_run: true, ..recorded() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_stream_was_not_read_so_it_is_sent_again() {
    let (server, decisions) = decisions(&[Turn::Refuse, Turn::Refuse]).await;
    decisions.choose_ads(recorded()).await.unwrap();
    assert_eq!(server.came_and_read(), (3, 1));

    let (server, decisions) = self::decisions(&[Turn::Refuse; 4]).await;
    let refused = decisions.choose_ads(recorded()).await.unwrap_err();
    assert!(matches!(&refused, Error::Unreachable(why) if why.contains("unread")), "{refused}");
    assert_eq!(server.came_and_read(), (3, 0), "attempts are bounded");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_goodbye_excludes_was_not_read_so_it_is_sent_again() {
    let (server, decisions) = decisions(&[Turn::GoAway]).await;
    decisions.choose_ads(recorded()).await.unwrap();
    assert_eq!(server.came_and_read(), (2, 1), "the second on a new connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_before_the_cut_is_sent_again_only_where_that_is_harmless() {
    let (server, decisions) = decisions(&[Turn::Cut]).await;
    let broken = decisions.choose_ads(recorded()).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");
    assert_eq!(server.came_and_read(), (1, 1), "the exposure counts once at most");

    let (server, decisions) = self::decisions(&[Turn::Cut]).await;
    decisions.choose_ads(dry_run()).await.unwrap();
    assert_eq!(server.came_and_read(), (2, 2));

    let (server, decisions) = self::decisions(&[Turn::Cut; 5]).await;
    decisions.choose_ads(dry_run()).await.unwrap_err();
    assert_eq!(server.came_and_read(), (3, 3), "attempts are bounded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_reset_is_unclear() {
    let (server, decisions) = decisions(&[Turn::Reset]).await;
    let broken = decisions.choose_ads(recorded()).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");
    assert_eq!(server.came_and_read(), (1, 1));

    let (server, decisions) = self::decisions(&[Turn::Reset]).await;
    decisions.choose_ads(dry_run()).await.unwrap();
    assert_eq!(server.came_and_read(), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_obeyed_about_when_and_whether() {
    let unavailable = Turn::Unavailable(None);
    let (server, decisions) = decisions(&[unavailable]).await;
    let refused = decisions.choose_ads(recorded()).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::Unavailable));
    assert_eq!(server.came_and_read(), (1, 1), "it may have been done before it was refused");

    let (server, decisions) = self::decisions(&[unavailable, Turn::Unavailable(Some("0"))]).await;
    decisions.choose_ads(dry_run()).await.unwrap();
    assert_eq!(server.came_and_read(), (3, 3));

    // Not at all; and in an hour, when the deadline will be over.
    for ms in ["-1", "3600000"] {
        let (server, decisions) = self::decisions(&[Turn::Unavailable(Some(ms))]).await;
        let refused = decisions.choose_ads(dry_run()).await.unwrap_err();
        assert_eq!(refused.code(), Some(Code::Unavailable));
        assert_eq!(server.came_and_read(), (1, 1), "{ms}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_is_told_what_is_left_of_the_deadline() {
    let (server, decisions) = decisions(&[Turn::Unavailable(Some("50")), Turn::Cut]).await;
    decisions.choose_ads(dry_run()).await.unwrap();
    let timeouts = server.script.lock().unwrap().timeouts.clone();
    assert_eq!(timeouts.len(), 3);
    assert!(timeouts[0] <= DEADLINE, "{timeouts:?}");
    assert!(timeouts[1] + Duration::from_millis(50) <= timeouts[0], "{timeouts:?}");
    assert!(timeouts[2] < timeouts[1], "{timeouts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_sent_again_as_the_table_has_it() {
    let server = Scripted::start(&[Turn::Cut]).await;
    let catalog = Catalog::connect(&options(&server)).await.unwrap();
    let put = PutCampaignRequest { if_version: 3, ..PutCampaignRequest::default() };
    let broken = catalog.call(put.clone(), CatalogServiceClient::put_campaign).await.unwrap_err();
    assert!(matches!(broken, Error::Broken(_)), "{broken:?}");
    assert_eq!(server.came_and_read(), (1, 1));

    let server = Scripted::start(&[Turn::Refuse]).await;
    let catalog = Catalog::connect(&options(&server)).await.unwrap();
    catalog.call(put, CatalogServiceClient::put_campaign).await.unwrap();
    assert_eq!(server.came_and_read(), (2, 1));

    let server = Scripted::start(&[Turn::Cut]).await;
    let catalog = Catalog::connect(&options(&server)).await.unwrap();
    let pause = SetCampaignStatusRequest {
        status: CampaignStatus::Paused.into(),
        ..SetCampaignStatusRequest::default()
    };
    catalog.call(pause, CatalogServiceClient::set_campaign_status).await.unwrap();
    assert_eq!(server.came_and_read(), (2, 2), "asked again, it waits again");

    let server = Scripted::start(&[Turn::Cut]).await;
    let catalog = Catalog::connect(&options(&server)).await.unwrap();
    let activate = SetCampaignStatusRequest {
        status: CampaignStatus::Active.into(),
        ..SetCampaignStatusRequest::default()
    };
    let broken = catalog.call(activate, CatalogServiceClient::set_campaign_status).await;
    assert!(matches!(broken, Err(Error::Broken(_))), "{broken:?}");
    assert_eq!(server.came_and_read(), (1, 1), "somebody may have paused it in between");

    let server = Scripted::start(&[Turn::Cut]).await;
    let users = Users::connect(&options(&server)).await.unwrap();
    let forget = ForgetUserRequest { user_id: "visitor-1".into(), ..ForgetUserRequest::default() };
    users.call(forget, UserServiceClient::forget_user).await.unwrap();
    assert_eq!(server.came_and_read(), (2, 2));
}
