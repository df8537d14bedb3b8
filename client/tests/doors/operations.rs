//! `slotwisectl nodes`, `user`, tokens and TLS.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use slotwise_proto::v1::*;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use crate::doors;
use crate::fake::{self, Fake, FakeUsers};
use crate::pki::Authority;
use crate::run::{self, Ran};

fn node(node_id: &str, seen_s_ago: u64) -> Node {
    let seen = SystemTime::now() - Duration::from_secs(seen_s_ago);
    let since = seen.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seconds = i64::try_from(since.as_secs()).unwrap();
    Node {
        node_id: node_id.into(),
        catalog_version: 41,
        seen_at: Some(prost_types::Timestamp { seconds, nanos: 0 }),
        ..Node::default()
    }
}

/// The cells of the row that begins with `first`.
fn row<'a>(table: &'a str, first: &str) -> Vec<&'a str> {
    let line = table.lines().find(|line| line.starts_with(first)).unwrap();
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_well_exit_with_0() {
    let doors = doors(Fake { nodes: vec![node("ams-1", 0), node("ams-2", 1)], ..Fake::default() });
    let doors = doors.await;
    let table = doors.run(&["nodes"]).await.ok();
    let cells = row(&table, "ams-1");
    assert_eq!((cells[1], cells[3]), ("41", "ok"), "{table}");
    assert!(cells[2].ends_with("s ago"), "{table}");
    let json = doors.run(&["nodes", "--json"]).await.ok();
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((&first["nodeId"], &first["catalogVersion"]), (&"ams-1".into(), &"41".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_degraded_or_silent_exits_with_3_and_is_named() {
    let degraded = Node {
        degraded: true,
        degraded_reason: "the store is away".into(),
        quarantined_rows: 2,
        ..node("ams-2", 0)
    };
    let nodes = vec![node("ams-1", 0), degraded, node("ams-3", 180)];
    let doors = doors(Fake { nodes, ..Fake::default() }).await;
    let ran = doors.run(&["nodes"]).await;
    assert_eq!(row(&ran.stdout, "ams-2")[3..], ["degraded: the store is away", "2 rows"]);
    assert_eq!(row(&ran.stdout, "ams-3")[2..], ["3m ago", "silent"], "{ran:?}");
    assert_eq!(ran.failed(3), "slotwisectl: 2 of 3 nodes not well: ams-2, ams-3\n");
    // A program is told by the exit code as well.
    assert_eq!(doors.run(&["nodes", "--json"]).await.code, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_is_shown_with_what_they_saw() {
    let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let seen = SeenAd {
        campaign_id: "alpina:roadster".into(),
        ad_unit_id: "banner".into(),
        site_id: "news".into(),
        zone_id: "home-top".into(),
        at: at(1_446_350_400),
        clicked: true,
    };
    let profile = Profile {
        segments: vec![Segment { name: "auto/in-market".into(), expires_at: at(1_450_000_000) }],
        histories: vec![AdvertiserHistory { advertiser_id: "alpina".into(), seen: vec![seen] }],
    };
    let users = FakeUsers { profile, ..FakeUsers::default() };
    let asked = users.asked.clone();
    let doors = doors(Fake { users, ..Fake::default() }).await;
    let shown = doors.run(&["user", "show", "demo", "v-1", "--advertiser", "alpina"]).await.ok();
    assert_eq!(row(&shown, "auto/in-market"), ["auto/in-market", "2015-12-13T09:46:40Z"]);
    assert_eq!(
        row(&shown, "alpina"),
        ["alpina", "alpina:roadster", "banner", "news", "home-top", "2015-11-01T04:00:00Z", "yes"]
    );
    let request = asked.lock().unwrap().pop().unwrap();
    let parts = (request.account_id, request.user_id, request.advertiser_id);
    assert_eq!(parts, ("demo".into(), "v-1".into(), "alpina".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_visitor_is_said_to_be_one() {
    let doors = doors(Fake::default()).await;
    let said = doors.run(&["user", "show", "demo", "nobody"]).await.ok();
    assert_eq!(said, "nothing is held under this visitor\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_are_added_and_removed_as_named() {
    let users = FakeUsers::default();
    let updates = users.updates.clone();
    let doors = doors(Fake { users, ..Fake::default() }).await;
    let segments = ["user", "segments", "demo", "v-1"];
    let flags = ["--add", "auto/new", "--add", "auto/suv", "--remove", "auto/old", "--ttl", "30d"];
    doors.run(&[&segments[..], &flags[..]].concat()).await.ok();
    let update = updates.lock().unwrap().pop().unwrap();
    assert_eq!(update.add, ["auto/new", "auto/suv"]);
    assert_eq!(update.remove, ["auto/old"]);
    assert_eq!(update.time_to_live.unwrap().seconds, 2_592_000);
    doors.run(&[&segments[..], &["--remove", "auto/old"]].concat()).await.ok();
    assert_eq!(updates.lock().unwrap().pop().unwrap().time_to_live, None);
    // Nothing named, or a life of nothing.
    doors.run(&segments).await.failed(2);
    doors.run(&[&segments[..], &["--remove", "auto/old", "--ttl", "1d"]].concat()).await.failed(2);
    assert!(updates.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_says_whether_something_was_held() {
    let users = FakeUsers { held_something: true, ..FakeUsers::default() };
    let forgotten = users.forgotten.clone();
    let held = doors(Fake { users, ..Fake::default() }).await;
    let said = held.run(&["user", "forget", "v-1"]).await.ok();
    assert_eq!(said, "forgotten: what was held under this visitor is gone\n");
    let request = forgotten.lock().unwrap().pop().unwrap();
    assert_eq!((request.account_id.as_str(), request.user_id.as_str()), ("", "v-1"));
    let unknown = doors(Fake::default()).await;
    let said = unknown.run(&["user", "forget", "v-1", "--account", "demo"]).await.ok();
    assert!(said.starts_with("nothing was held under this visitor in account demo"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_comes_from_a_file_the_environment_or_a_flag() {
    let fake = Fake::default();
    let tokens = fake.tokens.clone();
    let doors = doors(fake).await;
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("token");
    std::fs::write(&file, "from-file\n").unwrap();
    let file = file.to_str().unwrap();
    let heard = || tokens.lock().unwrap().pop().unwrap();

    doors.run(&["nodes"]).await.ok();
    assert_eq!(heard(), None);
    doors.run(&["nodes", "--token", "from-flag"]).await.ok();
    assert_eq!(heard().unwrap(), "Bearer from-flag");
    doors.run(&["nodes", "--token-file", file]).await.ok();
    assert_eq!(heard().unwrap(), "Bearer from-file");
    let mut command = doors.command(&["nodes"]);
    assert!(command.env("SLOTWISE_TOKEN", "from-env").output().await.unwrap().status.success());
    assert_eq!(heard().unwrap(), "Bearer from-env");

    std::fs::write(file, "two words").unwrap();
    let said = doors.run(&["nodes", "--token-file", file]).await.failed(1);
    assert!(said.contains(file) && !said.contains("two words"), "{said}");
    let help = doors.command(&["nodes", "--help"]).env("SLOTWISE_TOKEN", "s3cret").output();
    let help = String::from_utf8(help.await.unwrap().stdout).unwrap();
    assert!(help.contains("SLOTWISE_TOKEN") && !help.contains("s3cret"), "{help}");
}

/// Runs `slotwisectl` with another admin address than [`Doors`] gives.
async fn ctl(admin: &str, args: &[&str]) -> Ran {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_slotwisectl"));
    command.env_remove("SLOTWISE_TOKEN").arg("--admin-addr").arg(admin).args(args);
    run::ran(command.stdin(Stdio::null()).output().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_does_not_go_in_clear_over_a_network() {
    // 192.0.2.0/24 is nobody's: refused before anything is dialled.
    let said = ctl("192.0.2.1:7072", &["nodes", "--token", "s3cret"]).await.failed(2);
    assert!(said.contains("192.0.2.1:7072") && said.contains("https://"), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
}

struct Secured {
    address: SocketAddr,
    files: tempfile::TempDir,
}

impl Secured {
    /// A door with TLS that asks for certificates of its own authority.
    async fn start(fake: Fake) -> Self {
        let authority = Authority::new();
        let (own, client) = (authority.sign("127.0.0.1"), authority.sign("operator"));
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(own.certificate, own.key))
            .client_ca_root(Certificate::from_pem(&authority.certificate));
        let address = fake::serve_on(Server::builder().tls_config(tls).unwrap(), fake).await;
        let secured = Secured { address, files: tempfile::tempdir().unwrap() };
        std::fs::write(secured.file("ca.pem"), &authority.certificate).unwrap();
        std::fs::write(secured.file("strange.pem"), Authority::new().certificate).unwrap();
        std::fs::write(secured.file("client.pem"), client.certificate).unwrap();
        std::fs::write(secured.file("client.key"), client.key).unwrap();
        secured
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// `nodes`, with flags and the files that they name.
    async fn nodes(&self, flags: &[(&str, &str)]) -> Ran {
        let mut args = vec!["nodes".to_owned()];
        for (flag, file) in flags {
            args.extend([(*flag).to_owned(), self.file(file).display().to_string()]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        ctl(&format!("https://{}", self.address), &args).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_door_with_tls_is_reached_by_whom_it_knows() {
    let nodes = vec![node("ams-1", 0)];
    let secured = Secured::start(Fake { nodes, ..Fake::default() }).await;
    let own = [("--tls-cert", "client.pem"), ("--tls-key", "client.key")];
    let table = secured.nodes(&[&[("--tls-ca", "ca.pem")], &own[..]].concat()).await.ok();
    assert!(table.contains("ams-1"), "{table}");

    let said = secured.nodes(&[("--tls-ca", "ca.pem")]).await.failed(4);
    let is_told = said.contains("alert") || said.contains("client certificate");
    assert!(is_told, "{said}");
    let said = secured.nodes(&[&[("--tls-ca", "strange.pem")], &own[..]].concat()).await.failed(4);
    assert!(said.contains("certificate"), "{said}");
    // A certificate needs its key; a key is no certificate; a missing file is named.
    secured.nodes(&[("--tls-cert", "client.pem")]).await.failed(2);
    let said = secured.nodes(&[("--tls-ca", "client.key")]).await.failed(1);
    assert!(said.contains("client.key") && said.contains("no certificate"), "{said}");
    let said = secured.nodes(&[("--tls-ca", "none.pem")]).await.failed(1);
    assert!(said.contains("none.pem"), "{said}");
}
