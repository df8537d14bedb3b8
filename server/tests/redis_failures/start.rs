//! Starts: without Redis, over its other doors, with settings of Redis's that will not do, and
//! beside a damaged snapshot.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::SanType;
use slotwise_proto::v1::CampaignStatus::{Active, Paused};
use slotwise_server::app::SystemClock;
use slotwise_server::testing::Server;

use super::put;
use crate::child::{Slotwise, serve_command};
use crate::nodes::{PATIENCE, best, degraded, fill, node, node_at, node_in, says, set, well};
use crate::redis_server::{RedisServer, free_port};
use crate::support::authority::Authority;

/// Waits until the process has written this to its log.
fn wait_for(slotwise: &Slotwise, words: &str) {
    let began = Instant::now();
    while !slotwise.stderr().contains(words) {
        assert!(began.elapsed() < PATIENCE, "no {words:?} in:\n{}", slotwise.stderr());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_first_start_waits_for_redis_and_says_so() {
    let mut redis = RedisServer::start();
    redis.kill();
    let (dir, door) = (tempfile::tempdir().unwrap(), format!("127.0.0.1:{}", free_port()));
    let url = redis.url();
    let command = serve_command(dir.path(), &["--store", &url, "--decision-addr", &door]);
    let slotwise = Slotwise::spawn(command);
    wait_for(&slotwise, "the store is away at the start");
    assert_eq!(slotwise.stdout(), "", "it is not ready");
    assert!(std::net::TcpStream::connect(&door).is_err(), "no door is open");
    redis.restart();
    let began = Instant::now();
    while !slotwise.stdout().contains("ready") {
        assert!(began.elapsed() < PATIENCE, "{}", slotwise.stderr());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(std::net::TcpStream::connect(&door).is_ok());
    slotwise.stop();
}

#[test]
fn a_redis_that_may_throw_data_away_is_told_once() {
    for (policy, wanted) in [("allkeys-lru", 1), ("noeviction", 0)] {
        let redis = RedisServer::start_with(&["--maxmemory-policy", policy]);
        let dir = tempfile::tempdir().unwrap();
        let (slotwise, _) = Slotwise::serve(dir.path(), &["--store", &redis.url()]);
        let told = slotwise.stop().stderr;
        let lines = told.lines().filter(|line| line.contains("maxmemory-policy")).count();
        assert_eq!(lines, wanted, "{policy}:\n{told}");
    }
}

async fn works(node: &Server) {
    fill(std::slice::from_ref(node), 2).await;
    set(node, "x:1", Paused).await;
    assert_eq!(best(node).await, "x:2");
    set(node, "x:1", Active).await;
    assert_eq!(best(node).await, "x:1");
    assert_eq!(degraded(node).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_works_over_a_unix_socket() {
    let redis = RedisServer::start();
    works(&node_at(&format!("unix://{}", redis.socket()), "a", &[]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_works_as_a_user_with_a_password() {
    let redis = RedisServer::start();
    redis.run::<()>(&["ACL", "SETUSER", "ann", "on", ">p@ss/:w", "~{slotwise*", "&*", "+@all"]);
    redis.run::<()>(&["ACL", "SETUSER", "default", "-@all", "+ping", "+auth"]);
    let url = redis.url().replace("//", "//ann:p%40ss%2F:w@");
    works(&node_at(&url, "a", &[]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_works_over_tls() {
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let authority = Authority::new("redis");
    let name = SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
    authority.issue("redis", &[name]).write(dir.path());
    let file = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(file("ca.pem"), authority.pem()).unwrap();
    std::fs::write(file("other.pem"), Authority::new("another").pem()).unwrap();
    let (tls_port, cert, key, ca) =
        (port.to_string(), file("cert.pem"), file("key.pem"), file("ca.pem"));
    let options = ["--tls-port", &tls_port, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let more = ["--tls-ca-cert-file", &ca, "--tls-auth-clients", "no"];
    let redis = RedisServer::start_with(&[&options[..], &more].concat());
    let url = format!("rediss://127.0.0.1:{port}");
    let node = node_at(&url, "a", &[("redis_ca", ca.as_str())]).await;
    works(&node).await;
    // Another authority's word is not taken: such a node has nothing to serve, and waits.
    let other = file("other.pem");
    let settings = [("redis_ca", other.as_str())];
    let mut wary = Box::pin(node_at(&url, "b", &settings));
    assert!(tokio::time::timeout(Duration::from_secs(4), &mut wary).await.is_err());
    let names: Vec<String> = redis.run(&["HKEYS", &super::key("nodes")]);
    assert_eq!(names, ["a"]);
}

/// Damages the snapshot in `dir`.
fn damage(dir: &Path, how: &str) {
    let path = dir.join("catalog.snapshot");
    let mut bytes = std::fs::read(&path).unwrap();
    match how {
        "a directory" => {
            std::fs::remove_file(&path).unwrap();
            std::fs::create_dir(&path).unwrap();
            return;
        }
        "cut short" => bytes.truncate(bytes.len() / 3),
        "flipped" => bytes.iter_mut().skip(10).step_by(50).for_each(|byte| *byte ^= 0x55),
        "empty" => bytes.clear(),
        _ => panic!("{how}"),
    }
    std::fs::write(&path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_damaged_snapshot_is_told_and_the_store_is_served() {
    let redis = RedisServer::start();
    fill(&[node(&redis, "filler").await], 2).await;
    for how in ["cut short", "flipped", "empty", "a directory"] {
        let dir = tempfile::tempdir().unwrap();
        let first = node_in(&redis, "a", dir.path()).await;
        first.stop().await;
        damage(dir.path(), how);
        let (slotwise, _) = Slotwise::serve(dir.path(), &["--store", &redis.url()]);
        wait_for(&slotwise, "the snapshot cannot be read");
        slotwise.stop();
        let again = node_in(&redis, "a", dir.path()).await;
        assert_eq!(best(&again).await, "x:1", "{how}");
        let said = degraded(&again).await;
        if how == "a directory" {
            assert!(said.contains("the snapshot is not written"), "{said}");
        } else {
            assert_eq!(said, "", "{how}: it is written anew");
        }
        again.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_disk_keeps_nobody_from_serving() {
    let redis = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let fresh = dir.path().join("catalog.new");
    // Every write there finds no space.
    std::os::unix::fs::symlink("/dev/full", &fresh).unwrap();
    let settings = [("store", redis.url()), ("node_id", "a".to_owned())];
    let settings = settings.each_ref().map(|(key, value)| (*key, value.as_str()));
    let node = Server::start_in(dir.path(), Arc::new(SystemClock), &settings).await;
    fill(std::slice::from_ref(&node), 2).await;
    says(&node, "No space left").await;
    put(&node, "x:9", "").await.unwrap();
    assert_eq!(best(&node).await, "x:1");
    std::fs::remove_file(&fresh).unwrap();
    well(&node).await;
    let len = std::fs::metadata(dir.path().join("catalog.snapshot")).unwrap().len();
    assert!(len > 100, "it is written now: {len} bytes");
}
