//! Certificates, keys and identities of a process: refused at the start, replaced while it runs.

use std::path::Path;
use std::time::{Duration, Instant};

use slotwise_proto::v1::ListCampaignsRequest;
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::child::{PATIENCE, Slotwise, command, refused, serve_command};
use crate::support::authority::{Authority, flags, setting};
use crate::support::channel;

/// Serves with `settings` from a directory of its own.
fn serve(dir: &Path, settings: &[(&'static str, String)]) -> (Slotwise, super::child::Doors) {
    let flags = flags(settings);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Slotwise::serve(&dir.join("data"), &flags)
}

/// Waits until the log holds `word` in a line after the first `after` bytes.
fn logged(slotwise: &Slotwise, after: usize, word: &str) -> String {
    let began = Instant::now();
    loop {
        let log = slotwise.stderr()[after..].to_owned();
        if let Some(line) = log.lines().find(|line| line.contains(word)) {
            return line.to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "{word:?} is not in {log}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

async fn health(channel: &Channel) -> Result<(), Status> {
    let ask = HealthCheckRequest::default();
    HealthClient::new(channel.clone()).check(ask).await.map(|_| ())
}

/// The code of a viewer's call with `token`.
async fn list(channel: &Channel, token: &str) -> Code {
    let mut ask = Request::new(ListCampaignsRequest::default());
    ask.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let answer = CatalogServiceClient::new(channel.clone()).list_campaigns(ask).await;
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[test]
fn a_bad_certificate_key_or_authority_stops_the_start_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let (one, other) = (authority.server(), authority.server());
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let (cert, key) = (file("cert.pem", &one.cert), file("key.pem", &one.key));
    let (empty, other_key) = (file("empty.pem", ""), file("other.pem", &other.key));
    let rubbish = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n";
    let rubbish = file("rubbish.pem", rubbish);
    let missing = dir.path().join("nowhere.pem").display().to_string();
    for door in ["decision", "event", "admin"] {
        let data_dir = dir.path().join("data");
        let refuses = |files: [&String; 2], ca: Option<&String>, named: [&str; 3]| {
            let keys = ["tls_cert", "tls_key"].map(|what| setting(door, what));
            let mut settings = vec![(keys[0], files[0].clone()), (keys[1], files[1].clone())];
            settings.extend(ca.map(|ca| (setting(door, "tls_client_ca"), ca.clone())));
            if door == "admin" && ca.is_some() {
                settings.push(("admin_identities", missing.clone()));
            }
            let flags = flags(&settings);
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let why = refused(serve_command(&data_dir, &flags));
            for word in named {
                assert!(why.contains(word), "{door}: {word:?} is not in {why}");
            }
            assert!(!why.contains("PRIVATE"), "{why}");
            assert!(!data_dir.exists(), "refused before anything is touched");
        };
        let [cert_key, key_key, ca_key] =
            ["tls_cert", "tls_key", "tls_client_ca"].map(|what| setting(door, what));
        refuses([&missing, &key], None, [cert_key, &missing, "No such file"]);
        refuses([&empty, &key], None, [cert_key, &empty, "holds no certificate"]);
        refuses([&key, &key], None, [cert_key, &key, "holds no certificate"]);
        refuses([&cert, &empty], None, [key_key, &empty, "holds no private key"]);
        refuses([&cert, &other_key], None, [key_key, &other_key, "will not do together"]);
        refuses([&cert, &key], Some(&rubbish), [ca_key, &rubbish, "holds what is no authority"]);
        refuses([&cert, &key], Some(&empty), [ca_key, &empty, "holds no certificate"]);
    }
}

#[test]
fn a_bad_file_of_identities_stops_the_start_and_is_named_with_line_and_entry() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("who.toml").display().to_string();
    for (text, expected) in [
        ("\n[[identity]]\nname = 'x'\nrole = 'boss'\n", "line 4: identity 1: role is none of"),
        ("[[identity]]\nname = 'x'\nrole = 'viewer'\n", "line 1: identity 1: has no token_sha256"),
        ("[[identity]\n", "line 1: "),
        ("", "there is no [[identity]]"),
    ] {
        std::fs::write(&path, text).unwrap();
        let data_dir = dir.path().join("data");
        let why = refused(serve_command(&data_dir, &["--admin-identities", &path]));
        for word in ["admin_identities", &path, expected] {
            assert!(why.contains(word), "{word:?} is not in {why}");
        }
        assert!(!data_dir.exists(), "refused before anything is touched");
    }
}

#[tokio::test]
async fn a_certificate_is_replaced_while_it_runs_and_a_bad_one_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let (first, second) = (before.server(), after.server());
    let (slotwise, doors) = serve(dir.path(), &first.settings(dir.path(), "decision"));
    let old = before.connect(doors.decisions, None).await.unwrap();
    health(&old).await.unwrap();

    // Cut short, as a copy that is under way.
    let cert = dir.path().join("cert.pem");
    std::fs::write(&cert, &second.cert[..second.cert.len() / 2]).unwrap();
    let line = logged(&slotwise, 0, "will not do");
    assert!(line.contains("decision_tls_cert"), "{line}");
    assert!(line.contains("cert.pem"), "{line}");
    let still = before.connect(doors.decisions, None).await.unwrap();
    health(&still).await.unwrap();

    second.write(dir.path());
    let began = Instant::now();
    let new = loop {
        match after.connect(doors.decisions, None).await {
            Ok(new) => break new,
            Err(_) => assert!(began.elapsed() < PATIENCE, "{}", slotwise.stderr()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    health(&new).await.unwrap();
    before.connect(doors.decisions, None).await.unwrap_err();
    for old in [&old, &still] {
        health(old).await.unwrap();
    }
    let log = slotwise.stop().stderr;
    assert!(!log.contains("PRIVATE"), "{log}");
}

#[tokio::test]
async fn identities_are_replaced_while_it_runs_and_a_bad_file_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("who.toml");
    let [(one, one_line), (two, two_line)] = [token(), token()];
    let entry = |name: &str, line: &str| {
        format!("[[identity]]\nname = '{name}'\nrole = 'viewer'\n{line}\n")
    };
    std::fs::write(&path, entry("one", &one_line)).unwrap();
    let settings = [
        ("admin_identities", path.display().to_string()),
        ("log", "info,slotwise_server=trace".to_owned()),
    ];
    let (slotwise, doors) = serve(dir.path(), &settings);
    let channel = channel(doors.admin).await;
    assert_eq!(list(&channel, &one).await, Code::Ok);
    assert_eq!(list(&channel, &two).await, Code::Unauthenticated);

    std::fs::write(&path, entry("two", "token_sha256 = 'short'")).unwrap();
    let line = logged(&slotwise, 0, "will not do");
    assert!(line.contains("admin_identities") && line.contains("who.toml"), "{line}");
    assert!(line.contains("line 4: identity 1: token_sha256"), "{line}");
    assert_eq!(list(&channel, &one).await, Code::Ok, "the old one stays in force");

    let seen = slotwise.stderr().len();
    std::fs::write(&path, entry("two", &two_line)).unwrap();
    logged(&slotwise, seen, "read anew");
    // On the connection that was there before, too.
    assert_eq!(list(&channel, &one).await, Code::Unauthenticated, "withdrawn");
    assert_eq!(list(&channel, &two).await, Code::Ok);
    let log = slotwise.stop().stderr;
    for token in [one, two] {
        assert!(!log.contains(&token), "a token is in the log");
    }
}

/// `slotwise token`: a token, and its line for the file.
fn token() -> (String, String) {
    let ended = Slotwise::spawn(command(&["token"])).ended();
    assert!(ended.status.success(), "{}", ended.stderr);
    let lines: Vec<_> = ended.stdout.lines().filter(|line| !line.is_empty()).collect();
    let [token, line] = lines[..] else { panic!("{}", ended.stdout) };
    assert!(line.starts_with("token_sha256 = "), "{line}");
    assert!(!ended.stderr.contains(token), "printed once");
    (token.to_owned(), line.to_owned())
}

/// The whole network, as far as this machine has one.
#[tokio::test]
async fn an_admin_door_with_identities_and_tls_opens_off_loopback() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let mut settings = authority.server().settings(dir.path(), "admin");
    let path = dir.path().join("who.toml");
    let (token, line) = token();
    std::fs::write(&path, format!("[[identity]]\nname = 'x'\nrole = 'viewer'\n{line}\n")).unwrap();
    settings.push(("admin_identities", path.display().to_string()));
    let mut arguments = flags(&settings);
    arguments.extend(["--admin-addr", "0.0.0.0:0"].map(str::to_owned));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (slotwise, doors) = Slotwise::serve(&dir.path().join("data"), &arguments);
    assert!(doors.admin.ip().is_unspecified(), "{}", doors.admin);
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], doors.admin.port()));
    let channel = authority.connect(here, None).await.unwrap();
    assert_eq!(list(&channel, &token).await, Code::Ok);
    assert_eq!(list(&channel, "another").await, Code::Unauthenticated);
    slotwise.stop();
}
