//! What a start prints and listens on, and what it refuses.

use super::catalogue::Clients;
use super::child::{Slotwise, refused, serve_command};
use super::doors::{health, services_v1, services_v1alpha};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

const EVENTS: &str = "slotwise.v1.EventService";
const DECISIONS: &str = "slotwise.v1.AdDecisionService";
const CATALOG: &str = "slotwise.v1.CatalogService";
const USERS: &str = "slotwise.v1.UserService";
const REPORTS: &str = "slotwise.v1.ReportService";
const REPLAYS: &str = "slotwise.v1.ReplayService";
const SAMPLE: &str = include_str!("../../demo/catalog.ndjson");

/// The commands to try: what is indented below the line that begins with `ready`.
fn commands(stdout: &str) -> Vec<&str> {
    stdout.lines().filter_map(|line| line.strip_prefix("  ")).collect()
}

#[tokio::test]
async fn the_demo_prints_one_ready_line_and_three_commands_and_serves_the_sample() {
    let dir = tempfile::tempdir().unwrap();
    let (slotwise, doors) = Slotwise::serve(dir.path(), &["--demo"]);
    for (addr, service) in
        [(doors.decisions, DECISIONS), (doors.admin, CATALOG), (doors.admin, USERS)]
    {
        for name in ["", service] {
            assert_eq!(health(addr, name).await, Ok(ServingStatus::Serving), "{name:?}");
        }
    }
    assert_eq!(health(doors.events, "").await, Ok(ServingStatus::Serving));
    assert_eq!(health(doors.decisions, CATALOG).await, Err(Code::NotFound), "another door's");
    assert_eq!(health(doors.admin, DECISIONS).await, Err(Code::NotFound), "another door's");

    let mut ask = crate::support::ask("home-top", "", 1);
    ask.site_id = "news".into();
    let mut clients = Clients::of(doors).await;
    let answer = clients.decisions.choose_ads(ask).await.unwrap().into_inner();
    assert_eq!(answer.ads.len(), 1, "{answer:?}");

    let stdout = slotwise.stop().stdout;
    let ready: Vec<_> = stdout.lines().filter(|line| line.starts_with("ready")).collect();
    let [ready] = ready[..] else { panic!("{stdout}") };
    assert!(stdout.starts_with("ready"), "{stdout}");
    let ads = SAMPLE.lines().filter(|line| line.starts_with(r#"{"ad":"#)).count();
    assert!(ready.contains(&format!("{ads} ads")), "{ready}");
    assert!(ready.contains(&dir.path().display().to_string()), "{ready}");
    let commands = commands(&stdout);
    assert_eq!(commands.len(), 3, "{stdout}");
    let [decisions, admin] = [doors.decisions, doors.admin].map(|addr| addr.to_string());
    for command in commands {
        assert!(command.contains(&decisions) && command.contains(&admin), "{command}");
    }
}

#[tokio::test]
async fn the_demo_leaves_a_catalogue_alone_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (slotwise, doors) = Slotwise::serve(dir.path(), &[]);
    Clients::of(doors).await.put(&crate::support::place(&["top"])).await;
    slotwise.stop();
    let (slotwise, _) = Slotwise::serve(dir.path(), &["--demo"]);
    let stdout = slotwise.stop().stdout;
    assert!(stdout.contains("0 ads"), "{stdout}");
}

#[test]
fn an_empty_directory_says_how_to_import() {
    let dir = tempfile::tempdir().unwrap();
    // Made where it is missing.
    let (slotwise, _) = Slotwise::serve(&dir.path().join("new"), &[]);
    let stdout = slotwise.stop().stdout;
    assert!(stdout.contains("0 ads"), "{stdout}");
    assert!(commands(&stdout).iter().any(|command| command.contains("import")), "{stdout}");
}

#[tokio::test]
async fn reflection_lists_the_services_of_each_door() {
    let dir = tempfile::tempdir().unwrap();
    let (_slotwise, doors) = Slotwise::serve(dir.path(), &[]);
    let expected: [(_, &[&str]); 3] = [
        (doors.decisions, &[DECISIONS]),
        (doors.events, &[EVENTS]),
        (doors.admin, &[CATALOG, REPLAYS, REPORTS, USERS]),
    ];
    for (addr, own) in expected {
        for listed in [services_v1(addr).await, services_v1alpha(addr).await] {
            let ours: Vec<_> = listed.iter().filter(|name| name.starts_with("slotwise")).collect();
            assert_eq!(ours, own, "{listed:?}");
            assert!(listed.iter().any(|name| name == "grpc.health.v1.Health"), "{listed:?}");
        }
    }
}

#[test]
fn a_second_process_on_one_directory_fails_and_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let (slotwise, _) = Slotwise::serve(dir.path(), &[]);
    let why = refused(serve_command(dir.path(), &[]));
    assert!(why.contains(&dir.path().display().to_string()), "{why}");
    assert!(why.contains("another slotwise"), "{why}");
    // The first is not disturbed, and the directory is free once it has ended, however it ends.
    slotwise.kill();
    let (slotwise, _) = Slotwise::serve(dir.path(), &[]);
    slotwise.stop();
}

#[test]
fn an_address_in_use_is_named_with_its_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    for (flag, key) in [
        ("--decision-addr", "decision_addr"),
        ("--event-addr", "event_addr"),
        ("--admin-addr", "admin_addr"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let why = refused(serve_command(dir.path(), &[flag, &addr]));
        assert!(why.contains(&addr) && why.contains(key), "{why}");
        assert!(why.contains("in use"), "{why}");
    }
}

/// Somebody could take it for a server.
#[test]
fn a_door_that_decides_nothing_is_refused_off_loopback() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--noop-bytes", "300", "--decision-addr", "0.0.0.0:0"];
    let why = refused(serve_command(dir.path(), &flags));
    assert!(why.contains("--noop-bytes") && why.contains("decision_addr"), "{why}");
}

#[test]
fn an_admin_door_off_loopback_is_refused_with_the_reason() {
    for addr in ["0.0.0.0:0", "[::]:0"] {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("data");
        let why = refused(serve_command(&data_dir, &["--admin-addr", addr]));
        assert!(why.contains("admin_addr") && why.contains(addr), "{why}");
        for what_to_do in ["loopback", "admin_identities", "admin_tls_cert", "admin_tls_key"] {
            assert!(why.contains(what_to_do), "{why}");
        }
        assert!(!data_dir.exists(), "refused before anything is touched");
    }
}
