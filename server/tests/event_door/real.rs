//! The door of a whole server: its own catalogue, its own keys.

use std::collections::HashSet;
use std::sync::Arc;

use slotwise_core::index::Key;
use slotwise_core::model::{AccountSerial, AdSerial};
use slotwise_proto::v1::DeleteCampaignRequest;
use slotwise_server::events::batch::decode;
use slotwise_server::events::{Event, Kind, Partition};
use slotwise_server::ports::{Day, IncrementStore, PairEstimate, Position};
use slotwise_server::store::embedded::EmbeddedIncrements;
use slotwise_server::testing::{ManualClock, Server};
use slotwise_server::tokens::{Showing, TokenKeys};

use crate::bench::{Http1, showing};
use crate::support::{NOON_US, ad, ask, campaign, catalog, decisions, import, place, served};

/// A token of the ad `x:1` / `unit`, as the server would make it.
async fn token(server: &Server, unit: &str) -> String {
    let store = server.app().admin.catalog.store();
    let secret = store.secret("token-key").await.unwrap();
    let (_, rows) = store.get(&[Key::Ad("x:1".into(), unit.into())]).await.unwrap();
    let showing = Showing { ad: AdSerial(rows[0].serial), ..showing(1) };
    TokenKeys::new(&[(0, secret)]).unwrap().seal(&showing)
}

async fn lead(server: &Server, token: &str) -> Option<String> {
    let mut browser = Http1::connect(server.event_addr()).await;
    let reply = browser.ask("HEAD", &format!("/c/{token}"), &[], b"").await;
    reply.header("location").map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clicks_lead_where_the_catalogue_says_also_after_the_ad_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let start = async || Server::start_in(dir.path(), ManualClock::new(NOON_US), &[]).await;
    let server = start().await;
    let mut records = place(&["z"]);
    records.push(campaign("x:1", ""));
    records.push(
        ad("x:1", "a", &["z"], 1, "").replace("https://x.example/", "https://first.example/"),
    );
    import(&server, &records).await;
    let old = token(&server, "a").await;
    assert_eq!(lead(&server, &old).await.as_deref(), Some("https://first.example/"));

    // A landing page that moves takes the clicks that are to come with it.
    import(&server, &[ad("x:1", "a", &["z"], 1, "").replace("x.example/", "moved.example/")]).await;
    assert_eq!(lead(&server, &old).await.as_deref(), Some("https://moved.example/"));

    let delete = DeleteCampaignRequest { campaign_id: "x:1".into(), ..Default::default() };
    let gone = catalog(&server).await.delete_campaign(delete).await.unwrap().into_inner();
    served(&server, gone.catalog_version).await;
    assert_eq!(lead(&server, &old).await.as_deref(), Some("https://moved.example/"));

    // Made again under its id it is another one; and a process that never saw the first asks.
    import(&server, &[campaign("x:1", ""), ad("x:1", "a", &["z"], 1, "")]).await;
    let new = token(&server, "a").await;
    server.stop().await;
    let server = start().await;
    assert_eq!(lead(&server, &old).await.as_deref(), Some("https://moved.example/"));
    assert_eq!(lead(&server, &new).await.as_deref(), Some("https://x.example/"));
    server.stop().await;
}

/// Everything that the log holds.
async fn logged(server: &Server) -> Vec<Event> {
    let log = &server.app().ledger.recording.log;
    let mut events = Vec::new();
    for partition in Partition::all() {
        let mut after = Position::default();
        loop {
            let batches = log.read(partition, after, 1 << 20).await.unwrap();
            let Some(last) = batches.last() else { break };
            after = last.position;
            for batch in batches {
                events.extend(decode(&batch.bytes).unwrap());
            }
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_answered_is_in_the_log_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = async || Server::start_in(dir.path(), ManualClock::new(NOON_US), &[]).await;
    let server = start().await;
    let mut records = place(&["z"]);
    records.extend([campaign("x:1", ""), ad("x:1", "a", &["z"], 1, "")]);
    import(&server, &records).await;
    let token = token(&server, "a").await;
    let mut browser = Http1::connect(server.event_addr()).await;
    for (url, status) in [("c", 302), ("i", 200), ("v", 200)] {
        let reply = browser.ask("GET", &format!("/{url}/{token}"), &[], b"").await;
        assert_eq!(reply.status, status);
    }
    let kinds = |events: &[Event]| -> HashSet<Kind> { events.iter().map(|e| e.kind).collect() };
    let all = HashSet::from([Kind::Click, Kind::Impression, Kind::Conversion]);
    let events = logged(&server).await;
    assert_eq!((events.len(), kinds(&events)), (3, all.clone()));
    assert!(events.iter().all(|event| event.at_us == NOON_US && event.showing.decision == 1));
    server.stop().await;
    let server = start().await;
    let events = logged(&server).await;
    assert_eq!((events.len(), kinds(&events)), (3, all));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lives_are_what_the_settings_say() {
    let clock = ManualClock::new(NOON_US);
    let server = Server::start_with(Arc::clone(&clock) as _, &[("click_life_s", "10")]).await;
    let mut records = place(&["z"]);
    records.extend([campaign("x:1", ""), ad("x:1", "a", &["z"], 1, "")]);
    import(&server, &records).await;
    let token = token(&server, "a").await;
    clock.set(NOON_US + 10_000_000);
    assert!(lead(&server, &token).await.is_some());
    clock.set(NOON_US + 11_000_000);
    assert_eq!(lead(&server, &token).await, None);
    server.stop().await;
}

/// As they come: repeats are not told apart, known bots are left out, no bill is made of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn estimates_add_up_what_the_door_took() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_in(dir.path(), ManualClock::new(NOON_US), &[]).await;
    let mut records = place(&["z"]);
    records.extend([campaign("x:1", ""), ad("x:1", "a", &["z"], 1, "")]);
    import(&server, &records).await;
    let answer = decisions(&server).await.choose_ads(ask("z", "v", 1)).await.unwrap();
    let token = answer.into_inner().ads.remove(0).token;
    let secret = server.app().admin.catalog.store().secret("token-key").await.unwrap();
    let shown = TokenKeys::new(&[(0, secret)]).unwrap().open(token.as_bytes()).unwrap();
    let mut browser = Http1::connect(server.event_addr()).await;
    for url in ["i", "i", "c", "v"] {
        browser.ask("GET", &format!("/{url}/{token}"), &[], b"").await;
    }
    let bot: [(&str, &[u8]); 1] = [("user-agent", b"Googlebot/2.1")];
    browser.ask("GET", &format!("/c/{token}"), &bot, b"").await;
    // What is summed in the process is written when it stops, at the latest.
    server.stop().await;

    let store = EmbeddedIncrements::open(dir.path()).unwrap();
    let (zone, ad) = (shown.zone, shown.ad);
    let days = i32::try_from(NOON_US / 86_400_000_000).unwrap();
    let found = store.document(shown.account, Day(days)).await.unwrap();
    assert_eq!(found, [PairEstimate { zone, ad, impressions: 2, clicks: 1 }]);
    let elsewhere = AccountSerial(shown.account.0 + 1);
    assert_eq!(store.document(elsewhere, Day(days)).await.unwrap(), []);
}

/// Clicks fill no cap, and an impression that is told again fills it no further.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_view_and_one_click_leave_a_place_under_a_cap_of_two() {
    let clock = ManualClock::new(NOON_US);
    let settings = [("default_exposure", "on-impression")];
    let server = Server::start_with(Arc::clone(&clock) as _, &settings).await;
    let caps = r#""caps":[{"level":"CAP_LEVEL_CAMPAIGN","impressionsMax":2,"window":"86400s"}]"#;
    let mut records = place(&["z"]);
    records.extend([campaign("x:1", caps), ad("x:1", "a", &["z"], 1, "")]);
    import(&server, &records).await;
    let mut decisions = decisions(&server).await;
    let mut browser = Http1::connect(server.event_addr()).await;
    let mut chosen = async || {
        let answer = decisions.choose_ads(ask("z", "v", 1)).await.unwrap().into_inner();
        answer.ads.first().map(|ad| ad.token.clone())
    };
    for minute in [0, 10] {
        clock.set(NOON_US + minute * 60_000_000);
        let token = chosen().await.expect("there is room");
        for url in ["i", "c", "i", "c"] {
            browser.ask("GET", &format!("/{url}/{token}"), &[], b"").await;
        }
    }
    clock.set(NOON_US + 20 * 60_000_000);
    assert_eq!(chosen().await, None, "it was seen twice");
    server.stop().await;
}
