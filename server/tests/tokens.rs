//! Tokens and what comes with them, through the decision door of a running server.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "tokens/holds.rs"]
mod holds;
#[path = "tokens/markup.rs"]
mod markup;
mod support;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use slotwise_proto::v1::{
    ChooseAdsRequest, ChooseAdsResponse, ChoosePageRequest, ChosenAd, Detail, Exposure, Placement,
};
use slotwise_server::app::App;
use slotwise_server::config::{Config, Effective};
use slotwise_server::testing::{ManualClock, Server};
use slotwise_server::tokens::{PriceKind, Showing, TokenKeys};
use support::{NOON_US, ad, ask, campaign, decisions, import, place};

/// A file of these keys, newest first; key n is 32 times the byte n.
fn write_keys(path: &Path, ids: &[u8]) {
    let key = |id: &u8| {
        let secret = base64::engine::general_purpose::STANDARD.encode([*id; 32]);
        format!("[[key]]\nid = {id}\nsecret = \"{secret}\"\n")
    };
    let text: String = ids.iter().map(key).collect();
    // As a whole, so that nobody reads half of it.
    let whole = path.with_extension("new");
    std::fs::write(&whole, text).unwrap();
    std::fs::rename(whole, path).unwrap();
}

fn opened(ad: &ChosenAd, ids: &[u8]) -> Option<Showing> {
    let keys: Vec<_> = ids.iter().map(|id| (*id, [*id; 32])).collect();
    TokenKeys::new(&keys).unwrap().open(ad.token.as_bytes()).ok()
}

/// A server with key 1, and the directory in which its file is.
async fn server(more: &[(&'static str, &str)]) -> (Server, Arc<ManualClock>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys.toml");
    write_keys(&path, &[1]);
    let path = path.display().to_string();
    let clock = ManualClock::new(NOON_US);
    let settings = [&[("token_keys", path.as_str())], more].concat();
    let server = Server::start_with(clock.clone(), &settings).await;
    (server, clock, dir)
}

/// Ads in zones z and z2: free, per thousand, per click (but per conversion in z2), capped.
async fn market(server: &Server) {
    let mut records = place(&["z", "z2"]);
    records.push(campaign("f:1", ""));
    records.push(campaign("t:1", r#""price":{"thousandImpressionsMicros":"20000000"}"#));
    records.push(campaign("c:1", r#""price":{"clickMicros":"450000"}"#));
    records.push(ad("f:1", "u", &["z"], 4, ""));
    records.push(ad("t:1", "u", &["z"], 3, ""));
    records.push(
        r#"{"ad":{"campaignId":"c:1","adUnitId":"u","ecpmMicros":"2000000",
            "zones":[{"siteId":"s","zoneId":"z2","price":{"conversionMicros":"7"}},
                     {"siteId":"s","zoneId":"z"}],
            "landingUrl":"https://x.example/"}}"#
            .to_owned(),
    );
    import(server, &records).await;
}

async fn choose(server: &Server, request: ChooseAdsRequest) -> ChooseAdsResponse {
    decisions(server).await.choose_ads(request).await.unwrap().into_inner()
}

/// What the index calls the ad.
fn serial(server: &Server, zone: &str, ad: &ChosenAd) -> u32 {
    let block = server.app().admin.index.zone("s", zone).unwrap();
    let is_it = |entry: &&slotwise_core::index::Entry| {
        entry.ad.campaign.as_str() == ad.campaign_id && entry.ad.unit.as_str() == ad.ad_unit_id
    };
    block.entries.iter().find(is_it).unwrap().ad.serial.0
}

#[tokio::test(flavor = "multi_thread")]
async fn token_i_says_what_was_decided_of_ad_i() {
    let (server, ..) = server(&[]).await;
    market(&server).await;
    let answer = choose(&server, ask("z", "v", 3)).await;
    let campaigns: Vec<_> = answer.ads.iter().map(|ad| ad.campaign_id.as_str()).collect();
    assert_eq!(campaigns, ["f:1", "t:1", "c:1"]);
    let block = server.app().admin.index.zone("s", "z").unwrap();
    let prices = [
        (PriceKind::Free, 0),
        // 20 a thousand are 0.02 each, and 0.45 a click are 0.45, in nanos.
        (PriceKind::Impression, 20_000_000),
        (PriceKind::Click, 450_000_000),
    ];
    let first = opened(&answer.ads[0], &[1]).unwrap();
    assert!(first.visitor.is_some());
    for (at, (ad, (price_kind, price_nanos))) in answer.ads.iter().zip(prices).enumerate() {
        let showing = opened(ad, &[1]).unwrap();
        assert_eq!(showing.ad.0, serial(&server, "z", ad), "{}", ad.campaign_id);
        assert_eq!(usize::from(showing.slot), at);
        assert_eq!((showing.price_kind, showing.price_nanos), (price_kind, price_nanos));
        assert_eq!(showing.issued_at_ms, NOON_US / 1_000);
        assert_eq!((showing.account, showing.zone), (block.account.serial, block.zone.serial));
        assert_eq!((showing.decision, showing.visitor), (first.decision, first.visitor));
        assert!(!showing.on_impression);
    }
    let elsewhere = choose(&server, ask("z2", "w", 1)).await;
    let showing = opened(&elsewhere.ads[0], &[1]).unwrap();
    assert_eq!((showing.price_kind, showing.price_nanos), (PriceKind::Conversion, 7_000));
    assert_ne!(showing.visitor, first.visitor);
    assert_ne!(showing.zone, first.zone);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_showings_are_two_also_under_one_seed() {
    let (server, ..) = server(&[]).await;
    market(&server).await;
    let mut ids = HashSet::new();
    for _ in 0..50 {
        let request = ChooseAdsRequest { seed: Some(7), ..ask("z", "v", 1) };
        let answer = choose(&server, request).await;
        assert!(ids.insert(opened(&answer.ads[0], &[1]).unwrap().decision));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_are_counted_over_the_whole_page() {
    let (server, ..) = server(&[]).await;
    market(&server).await;
    let placement = |id: &str, zone: &str, count| Placement {
        placement_id: id.into(),
        site_id: "s".into(),
        zone_id: zone.into(),
        count,
        ..Placement::default()
    };
    let placements = vec![placement("1", "z", 2), placement("2", "z2", 1)];
    let request = ChoosePageRequest { placements, ..ChoosePageRequest::default() };
    let page = decisions(&server).await.choose_page(request).await.unwrap().into_inner();
    let mut slots = Vec::new();
    let mut ids = HashSet::new();
    for (placement, zone) in page.placements.iter().zip(["z", "z2"]) {
        for ad in &placement.ads {
            let showing = opened(ad, &[1]).unwrap();
            assert_eq!(showing.ad.0, serial(&server, zone, ad));
            slots.push(showing.slot);
            ids.insert(showing.decision);
        }
    }
    slots.sort_unstable();
    assert_eq!((slots, ids.len()), (vec![0, 1, 2], 1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_named_where_nobody_is_known_and_a_dry_run_names_no_showing() {
    let (server, ..) = server(&[]).await;
    market(&server).await;
    let limited = ChooseAdsRequest { limited: true, ..ask("z", "v", 3) };
    for request in [ask("z", "", 3), limited] {
        for ad in choose(&server, request).await.ads {
            assert_eq!(opened(&ad, &[1]).unwrap().visitor, None);
        }
    }
    for detail in [Detail::Unspecified, Detail::Facts, Detail::Markup] {
        let dry = ChooseAdsRequest {
            dry_run: true,
            seed: Some(3),
            detail: detail.into(),
            ..ask("z", "v", 3)
        };
        let answer = choose(&server, dry.clone()).await;
        assert_eq!(answer.ads.len(), 3);
        for ad in &answer.ads {
            assert_eq!(ad.token, "");
            let creative = ad.creative.clone().unwrap_or_default();
            assert_eq!((&*creative.click_url, &*creative.impression_url), ("", ""));
        }
        assert_eq!(choose(&server, dry).await, answer);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_says_what_makes_the_exposure() {
    for (default, expected) in [("on-decision", false), ("on-impression", true)] {
        let (server, ..) = server(&[("default_exposure", default)]).await;
        market(&server).await;
        for (exposure, expected) in [
            (Exposure::Unspecified, expected),
            (Exposure::OnDecision, false),
            (Exposure::OnImpression, true),
        ] {
            let request = ChooseAdsRequest { exposure: exposure.into(), ..ask("z", "v", 1) };
            let answer = choose(&server, request).await;
            assert_eq!(opened(&answer.ads[0], &[1]).unwrap().on_impression, expected);
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_say_where_events_are_reported() {
    for base in ["", "https://ads.example/events/"] {
        let (server, ..) = server(&[("event_base_url", base)]).await;
        market(&server).await;
        let request = ChooseAdsRequest { detail: Detail::Facts.into(), ..ask("z", "v", 1) };
        let answer = choose(&server, request).await;
        let (token, creative) = (&answer.ads[0].token, answer.ads[0].creative.clone().unwrap());
        let begins = match base {
            "" => format!("http://{}", server.event_addr()),
            _ => "https://ads.example/events".to_owned(),
        };
        assert_eq!(creative.impression_url, format!("{begins}/i/{token}"));
        assert_eq!(creative.click_url, format!("{begins}/c/{token}"));
        assert_eq!(creative.markup, "");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_change_while_the_server_runs_and_a_bad_file_leaves_them() {
    let (server, _, dir) = server(&[]).await;
    market(&server).await;
    let path = dir.path().join("keys.toml");
    let sealed_with = async |id: u8, what: &str| {
        let began = Instant::now();
        loop {
            let answer = choose(&server, ask("z", "", 1)).await;
            if opened(&answer.ads[0], &[id]).is_some() {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    sealed_with(1, "the first key").await;
    write_keys(&path, &[2, 1]);
    sealed_with(2, "a new key seals").await;
    std::fs::write(&path, "[[key]]\nid = 3\n").unwrap();
    // Longer than a look at the file takes to come.
    tokio::time::sleep(Duration::from_secs(3)).await;
    sealed_with(2, "a bad file changes nothing").await;
    write_keys(&path, &[3, 2]);
    sealed_with(3, "a good one is taken").await;
    server.stop().await;
}

/// What the store's own key has sealed is still accepted once a file names keys, and it is the
/// same after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn the_stores_own_key_outlives_restarts_and_files() {
    let data = tempfile::tempdir().unwrap();
    let keys = data.path().join("keys.toml");
    write_keys(&keys, &[9]);
    let clock = || ManualClock::new(NOON_US);
    let server = Server::start_in(data.path(), clock(), &[]).await;
    market(&server).await;
    let before = choose(&server, ask("z", "", 1)).await;
    server.stop().await;
    let keys = keys.display().to_string();
    for settings in [&[][..], &[("token_keys", keys.as_str())]] {
        let server = Server::start_in(data.path(), clock(), settings).await;
        let keys = server.app().showings.token_keys.current();
        assert!(keys.open(before.ads[0].token.as_bytes()).is_ok());
        let now = choose(&server, ask("z", "", 1)).await;
        assert!(keys.open(now.ads[0].token.as_bytes()).is_ok());
        assert_eq!(opened(&now.ads[0], &[9]).is_some(), !settings.is_empty());
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_of_keys_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys.toml");
    std::fs::write(&path, "[[key]]\nid = 1\nsecret = \"c2hvcnQ=\"\n").unwrap();
    let flags = [
        ("decision_addr", "127.0.0.1:0".to_owned()),
        ("event_addr", "127.0.0.1:0".to_owned()),
        ("admin_addr", "127.0.0.1:0".to_owned()),
        ("data_dir", dir.path().display().to_string()),
        ("token_keys", path.display().to_string()),
    ];
    let effective = Effective::new(None, |_| None, flags.into()).unwrap();
    let started = App::start(&Config::new(&effective).unwrap(), ManualClock::new(NOON_US)).await;
    let problem = format!("{:#}", started.err().expect("it must not start"));
    for word in ["token_keys", "keys.toml", "line 3", "base64 of 32 bytes"] {
        assert!(problem.contains(word), "{problem}");
    }
    assert!(!problem.contains("c2hvcnQ="), "{problem}");
}
