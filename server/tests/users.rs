//! Visitors through a real socket: what is told of them, their segments, and how they are
//! forgotten.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

mod support;

use std::path::Path;
use std::sync::Arc;

use prost_types::{Duration, Timestamp};
use rusqlite::Connection;
use slotwise_proto::v1::user_service_client::UserServiceClient;
use slotwise_proto::v1::*;
use slotwise_server::testing::{ManualClock, Server};
use slotwise_server::visitors::VisitorHash;
use support::{
    NOON_US, ad, ask, campaign, catalog, channel, decisions, import, place, refused_fields, served,
    try_import, users,
};
use tonic::transport::Channel;
use tonic::{Code, Status};

const SECOND_US: i64 = 1_000_000;
const DAY_S: i64 = 86_400;
/// Long and odd enough to be nowhere by chance.
const VISITOR: &str = "visitor-Zq7Xv2Kp9-cookie";
const CAP_2_A_DAY: &str =
    r#""caps":[{"level":"CAP_LEVEL_AD","impressionsMax":2,"window":"86400s"}]"#;

/// Zones `z1` with an ad of advertiser x, `z2` with one of y and `z3` with both, all capped at 2 a
/// day; and account `b` with nothing in it.
fn records() -> Vec<String> {
    let mut records = place(&["z1", "z2", "z3"]);
    records.push(r#"{"account":{"accountId":"b","currency":"EUR"}}"#.to_owned());
    records.extend([campaign("x:1", CAP_2_A_DAY), campaign("y:1", CAP_2_A_DAY)]);
    records
        .extend([ad("x:1", "top", &["z1", "z3"], 9, ""), ad("y:1", "box", &["z2", "z3"], 8, "")]);
    records
}

struct Running {
    server: Server,
    clock: Arc<ManualClock>,
    users: UserServiceClient<Channel>,
    dir: tempfile::TempDir,
}

impl Running {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(NOON_US);
        let server = Server::start_in(dir.path(), clock.clone(), &[]).await;
        import(&server, &records()).await;
        let users = users(&server).await;
        Self { server, clock, users, dir }
    }

    /// After a clean stop and another start on the same directory.
    async fn restarted(self) -> Self {
        let Self { server, clock, dir, .. } = self;
        server.stop().await;
        let server = Server::start_in(dir.path(), clock.clone(), &[]).await;
        let users = users(&server).await;
        Self { server, clock, users, dir }
    }

    /// Decides for `user` at so many seconds after noon; what is shown.
    async fn show(&self, at_s: i64, zone: &str, user: &str) -> Vec<String> {
        self.clock.set(NOON_US + at_s * SECOND_US);
        let answer = decisions(&self.server).await.choose_ads(ask(zone, user, 9)).await.unwrap();
        answer.into_inner().ads.into_iter().map(|ad| ad.campaign_id).collect()
    }

    async fn profile(&mut self, account: &str, user: &str) -> Result<Profile, Status> {
        let request = GetProfileRequest {
            account_id: account.into(),
            user_id: user.into(),
            advertiser_id: String::new(),
        };
        self.users.get_profile(request).await.map(tonic::Response::into_inner)
    }

    async fn forget(&mut self, account: &str, user: &str) -> Result<bool, Status> {
        let request = ForgetUserRequest { account_id: account.into(), user_id: user.into() };
        let answer = self.users.forget_user(request).await;
        answer.map(|answer| answer.into_inner().held_something)
    }

    async fn update(&mut self, request: UpdateSegmentsRequest) -> Result<Profile, Status> {
        self.users.update_segments(request).await.map(tonic::Response::into_inner)
    }

    /// Whether any file holds the visitor's hash, as what is kept of a visitor does.
    fn keeps(&self, user: &str) -> bool {
        let by_hand = Connection::open(self.dir.path().join("catalog.sqlite")).unwrap();
        let sql = "SELECT value FROM secrets WHERE name = 'visitor-hash'";
        let secret: [u8; 32] = by_hand.query_row(sql, [], |row| row.get(0)).unwrap();
        holds(self.dir.path(), &VisitorHash::new(&secret).of(user).to_le_bytes())
    }
}

fn holds(dir: &Path, needle: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(needle.len()).any(|part| part == needle)
    })
}

/// Seconds after noon.
fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: NOON_US / SECOND_US + seconds, nanos: 0 })
}

fn seen(campaign: &str, unit: &str, zone: &str, at_s: i64) -> SeenAd {
    let site_id = if zone.is_empty() { "" } else { "s" };
    SeenAd {
        campaign_id: campaign.into(),
        ad_unit_id: unit.into(),
        site_id: site_id.into(),
        zone_id: zone.into(),
        at: at(at_s),
        clicked: false,
    }
}

fn history(advertiser: &str, seen: Vec<SeenAd>) -> AdvertiserHistory {
    AdvertiserHistory { advertiser_id: advertiser.into(), seen }
}

fn adding(add: &[&str], remove: &[&str], time_to_live: Option<Duration>) -> UpdateSegmentsRequest {
    let strings = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    UpdateSegmentsRequest {
        account_id: "a".into(),
        user_id: VISITOR.into(),
        add: strings(add),
        remove: strings(remove),
        time_to_live,
    }
}

fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_tells_what_was_shown_newest_first_and_apart_by_advertiser() {
    let mut running = Running::start().await;
    assert_eq!(running.profile("a", VISITOR).await.unwrap(), Profile::default());
    assert_eq!(running.show(1, "z3", VISITOR).await, ["x:1", "y:1"]);
    assert_eq!(running.show(2, "z1", VISITOR).await, ["x:1"]);
    assert_eq!(running.show(3, "z1", VISITOR).await, [""; 0], "capped");
    assert_eq!(running.show(4, "z2", "somebody else").await, ["y:1"]);

    let of_x = history("x", vec![seen("x:1", "top", "z1", 2), seen("x:1", "top", "z3", 1)]);
    let of_y = history("y", vec![seen("y:1", "box", "z3", 1)]);
    let all = Profile { segments: vec![], histories: vec![of_x, of_y.clone()] };
    assert_eq!(running.profile("a", VISITOR).await.unwrap(), all);
    let only = |advertiser: &str| GetProfileRequest {
        account_id: "a".into(),
        user_id: VISITOR.into(),
        advertiser_id: advertiser.into(),
    };
    let y = running.users.get_profile(only("y")).await.unwrap().into_inner();
    assert_eq!(y.histories, [of_y]);
    let none = running.users.get_profile(only("z")).await.unwrap().into_inner();
    assert_eq!(none, Profile::default());

    assert_eq!(running.profile("b", VISITOR).await.unwrap(), Profile::default());
    let unknown = running.profile("nowhere", VISITOR).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(unknown.message().contains("account nowhere"), "{unknown}");
    running.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_left_the_catalogue_is_told_without_its_id() {
    let mut running = Running::start().await;
    running.show(1, "z3", VISITOR).await;
    // x's ad leaves the zone that it was shown in, and is there all the same.
    import(&running.server, &[ad("x:1", "top", &["z1"], 9, "")]).await;
    let delete = DeleteCampaignRequest { campaign_id: "y:1".into(), if_version: 0 };
    let change = catalog(&running.server).await.delete_campaign(delete).await.unwrap();
    served(&running.server, change.into_inner().catalog_version).await;
    let profile = running.profile("a", VISITOR).await.unwrap();
    let of_x = history("x", vec![seen("x:1", "top", "z3", 1)]);
    assert_eq!(profile.histories, [of_x, history("y", vec![seen("", "", "z3", 1)])]);

    // The same names again are another campaign.
    let again = [campaign("y:1", CAP_2_A_DAY), ad("y:1", "box", &["z2"], 8, "")];
    import(&running.server, &again).await;
    let profile = running.profile("a", VISITOR).await.unwrap();
    assert_eq!(profile.histories[1], history("y", vec![seen("", "", "z3", 1)]));

    let mut left = place(&["z1"]);
    left.extend([campaign("x:1", CAP_2_A_DAY), ad("x:1", "top", &["z1"], 9, "")]);
    let options = ImportOptions { replace: true, force: true, validate_only: false };
    let version = try_import(&running.server, options, &left).await.unwrap().catalog_version;
    served(&running.server, version).await;
    let profile = running.profile("a", VISITOR).await.unwrap();
    assert_eq!(profile.histories[0], history("x", vec![seen("x:1", "top", "", 1)]));
    running.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_come_and_go_and_outlive_the_process() {
    let mut running = Running::start().await;
    let segment = |name: &str, at_s: i64| Segment { name: name.to_owned(), expires_at: at(at_s) };
    let profile = running.update(adding(&["b/2", "a/1"], &[], None)).await.unwrap();
    let all = [segment("a/1", 30 * DAY_S), segment("b/2", 30 * DAY_S)];
    assert_eq!(profile.segments, all, "30 days, in order of their names");
    running.show(10, "z1", VISITOR).await;
    let profile = running.update(adding(&["b/2", "c/d/3"], &["a/1"], seconds(60))).await.unwrap();
    let all = [segment("b/2", 70), segment("c/d/3", 70)];
    assert_eq!(profile.segments, all, "10 s later for 60 s");
    assert_eq!(profile.histories, [history("x", vec![seen("x:1", "top", "z1", 10)])]);
    assert_eq!(running.profile("a", VISITOR).await.unwrap(), profile);
    assert_eq!(running.profile("b", VISITOR).await.unwrap().segments, [], "by account");

    let longest = running.update(adding(&["e/4"], &[], seconds(30 * DAY_S))).await.unwrap();
    assert_eq!(longest.segments[2], segment("e/4", 10 + 30 * DAY_S));
    running = running.restarted().await;
    assert_eq!(running.profile("a", VISITOR).await.unwrap(), longest);
    running.clock.set(NOON_US + 70 * SECOND_US);
    let profile = running.profile("a", VISITOR).await.unwrap();
    assert_eq!(profile.segments, [segment("e/4", 10 + 30 * DAY_S)], "the others have lapsed");
    running.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_segments_than_256_are_refused_whole() {
    let mut running = Running::start().await;
    let names: Vec<_> = (0..256).map(|n| format!("f/{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    running.update(adding(&names, &[], None)).await.unwrap();
    let full = running.update(adding(&["g/1"], &["h/1"], None)).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    assert!(full.message().contains("256"), "{full}");
    let swapped = running.update(adding(&["g/1"], &names, None)).await.unwrap();
    assert_eq!(swapped.segments.len(), 1);
    running.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_visitor_leaves_nothing_behind_and_begins_anew() {
    let mut running = Running::start().await;
    for at_s in 1..=2 {
        assert_eq!(running.show(at_s, "z1", VISITOR).await, ["x:1"]);
        assert_eq!(running.show(at_s, "z1", "somebody else").await, ["x:1"]);
    }
    assert_eq!(running.show(3, "z1", VISITOR).await, [""; 0], "capped");
    running.update(adding(&["auto/in-market"], &[], None)).await.unwrap();
    assert!(running.keeps(VISITOR), "looking finds what is there");

    assert!(running.forget("", VISITOR).await.unwrap());
    assert!(!running.keeps(VISITOR));
    assert!(running.keeps("somebody else"));
    assert!(!holds(running.dir.path(), VISITOR.as_bytes()));
    assert!(!holds(running.dir.path(), b"auto/in-market"));
    assert_eq!(running.profile("a", VISITOR).await.unwrap(), Profile::default());
    assert!(!running.forget("", VISITOR).await.unwrap(), "there is nothing any more");

    assert_eq!(running.show(4, "z1", VISITOR).await, ["x:1"], "the cap begins anew");
    let profile = running.profile("a", VISITOR).await.unwrap();
    assert_eq!(profile.histories, [history("x", vec![seen("x:1", "top", "z1", 4)])]);
    assert_eq!(running.show(5, "z1", "somebody else").await, [""; 0], "still capped");
    assert!(!running.forget("b", VISITOR).await.unwrap(), "another account holds nothing");
    assert!(running.forget("a", VISITOR).await.unwrap());
    running = running.restarted().await;
    assert!(!running.keeps(VISITOR), "nor does a stop write it down");
    assert_eq!(running.profile("a", VISITOR).await.unwrap(), Profile::default());
    let other = running.profile("a", "somebody else").await.unwrap();
    assert_eq!(other.histories[0].seen.len(), 2);
    running.server.stop().await;
}

/// A decision that began before the forget may end after it.
#[tokio::test(flavor = "multi_thread")]
async fn decisions_under_way_do_not_bring_a_forgotten_visitor_back() {
    let mut running = Running::start().await;
    let addr = running.server.decision_addr();
    // The clock stands still: all of them are of before or at the forget's instant.
    let ask_often = || async move {
        let client = channel(addr).await;
        let mut client = ad_decision_service_client::AdDecisionServiceClient::new(client);
        for _ in 0..50 {
            client.choose_ads(ask("z3", VISITOR, 2)).await.unwrap();
        }
    };
    let asking: Vec<_> = (0..4).map(|_| tokio::spawn(ask_often())).collect();
    for _ in 0..5 {
        running.forget("", VISITOR).await.unwrap();
        assert_eq!(running.profile("a", VISITOR).await.unwrap(), Profile::default());
    }
    for asking in asking {
        asking.await.unwrap();
    }
    assert_eq!(running.profile("a", VISITOR).await.unwrap(), Profile::default());
    assert!(!running.keeps(VISITOR));
    running.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_field_is_refused_by_name() {
    let mut running = Running::start().await;
    let long = "x".repeat(129);
    let (ids, long_name) = (["", long.as_str(), "a\nb"], format!("f/{}", "x".repeat(127)));
    let mut refusals: Vec<(&str, Status)> = Vec::new();
    for id in ids {
        refusals.push(("account_id", running.profile(id, "v").await.unwrap_err()));
        refusals.push(("user_id", running.profile("a", id).await.unwrap_err()));
        refusals.push(("user_id", running.forget("a", id).await.unwrap_err()));
        if !id.is_empty() {
            refusals.push(("account_id", running.forget(id, "v").await.unwrap_err()));
        }
        let request = UpdateSegmentsRequest { user_id: id.into(), ..adding(&["a/1"], &[], None) };
        refusals.push(("user_id", running.update(request).await.unwrap_err()));
        let request =
            UpdateSegmentsRequest { account_id: id.into(), ..adding(&["a/1"], &[], None) };
        refusals.push(("account_id", running.update(request).await.unwrap_err()));
    }
    for advertiser in [&long, "x:1", "a\nb"] {
        let request = GetProfileRequest {
            account_id: "a".into(),
            user_id: "v".into(),
            advertiser_id: advertiser.into(),
        };
        let status = running.users.get_profile(request).await.unwrap_err();
        refusals.push(("advertiser_id", status));
    }
    for name in ["", "auto", "/x", "x/", "/", "a/\u{7}", &long_name] {
        let add = running.update(adding(&["a/1", name], &[], None)).await.unwrap_err();
        refusals.push(("add[1]", add));
        let remove = running.update(adding(&[], &[name], None)).await.unwrap_err();
        refusals.push(("remove[0]", remove));
    }
    let both = running.update(adding(&["a/1"], &["b/2", "a/1"], None)).await.unwrap_err();
    refusals.push(("remove[1]", both));
    let many = vec!["a/1"; 257];
    refusals.push(("add", running.update(adding(&many, &[], None)).await.unwrap_err()));
    refusals.push(("remove", running.update(adding(&[], &many, None)).await.unwrap_err()));
    let lives = [(0, 0), (-1, 0), (30 * DAY_S, 1), (i64::MAX, 0), (0, -1), (0, 999)];
    for (seconds, nanos) in lives {
        let life = Some(Duration { seconds, nanos });
        let status = running.update(adding(&["a/1"], &[], life)).await.unwrap_err();
        refusals.push(("time_to_live", status));
    }
    for (field, status) in refusals {
        assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status}");
        assert_eq!(refused_fields(&status), [field], "{status}");
        assert!(!status.message().contains(&long), "no id is repeated: {status}");
    }
    assert_eq!(running.profile("a", VISITOR).await.unwrap(), Profile::default(), "nothing is kept");
    let unknown = UpdateSegmentsRequest { account_id: "c".into(), ..adding(&["a/1"], &[], None) };
    assert_eq!(running.update(unknown).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(running.forget("c", VISITOR).await.unwrap_err().code(), Code::NotFound);
    running.server.stop().await;
}
