//! What stands in Redis.

use slotwise_core::model::{AdvertiserId, Exposure, Profile, Segment};
use slotwise_server::ports::{ProfileStore, SegmentsChange};

use crate::node::{DAY_US, NOON_US, Node, PATIENCE, exposure, key, keys, record, visitor, x};
use crate::proxy::{Mode, Proxy};
use crate::redis_server::RedisServer;

const HISTORY_MS: i64 = 30 * 86_400_000;

fn lives(server: &RedisServer) -> Vec<(String, i64)> {
    let mut connection = server.connection();
    let life = |key: String| {
        let left = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        (key, left)
    };
    keys(server).into_iter().map(life).collect()
}

fn assert_all_end(server: &RedisServer) -> usize {
    let lives = lives(server);
    for (key, left_ms) in &lives {
        assert!(*left_ms > HISTORY_MS - 60_000, "{key}: {left_ms}");
    }
    lives.len()
}

/// Connections die at any byte of a reply, and under any command; nothing that was shown is lost
/// or doubled, and no key is ever there without an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_key_is_without_an_end_whatever_is_cut() {
    const ROUNDS: u64 = 40;
    const VISITORS: u64 = 7;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port);
    let node = Node::connected(&proxy.url()).await;
    let mut shown = vec![Vec::new(); VISITORS as usize];
    for round in 0..ROUNDS {
        match round % 4 {
            0 => proxy.set(Mode::CutAfter(round as usize * 9)),
            1 => server.run::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]),
            2 => proxy.set(Mode::Garbage),
            _ => proxy.cut(),
        }
        for of in 0..VISITORS {
            let (wait, decision) = (std::time::Duration::from_millis(5), round * VISITORS + of);
            // Withheld where the store is late, and nobody knows yet that it is away.
            if let Ok(is_shown) = node.try_show(of.into(), 1_000, decision, wait).await {
                assert!(is_shown, "the cap is far");
                shown[of as usize].push(decision);
            }
            assert_all_end(&server);
        }
        proxy.set(Mode::Pass);
        node.is_back().await;
        node.flush().await;
        let kept = shown.iter().filter(|shown| !shown.is_empty()).count();
        assert_eq!(assert_all_end(&server), kept);
    }
    assert!(proxy.connections() > ROUNDS / 2, "{} connections", proxy.connections());
    let fresh = Node::connected(&server.url()).await;
    for (of, shown) in (0..).zip(&shown) {
        assert!(shown.len() as u64 > ROUNDS / 8, "{} shown", shown.len());
        let mut stored = fresh.decisions(of).await;
        stored.sort_unstable();
        assert_eq!(stored, *shown, "visitor {of}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_a_bound() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let bytes = || server.run::<usize>(&["MEMORY", "USAGE", &key(1), "SAMPLES", "0"]);
    // 20,000 showings: what still counts is full at 200, and stays.
    for part in 0..200_u64 {
        let mut admit = |profile: &mut Profile| {
            for n in 0..100 {
                let _ = profile.record(&x(), exposure(NOON_US, part * 100 + n), NOON_US);
            }
        };
        node.store.admit(visitor(1), NOON_US, PATIENCE, &mut admit).await.unwrap();
    }
    node.flush().await;
    assert_eq!(node.decisions(1).await, (0..200).collect::<Vec<_>>());
    let one = bytes();
    assert!(one < 2 * 200 * 36, "{one} bytes");
    // Advertisers are bounded, too; those whose showings are over make room for others.
    for n in 0..400_u64 {
        let (advertiser, at_us) = (AdvertiserId::from(n.to_string().as_str()), NOON_US + n as i64);
        let shown = Exposure { life_us: 300, ..exposure(at_us, n) };
        let mut admit = |profile: &mut Profile| {
            let _ = profile.record(&advertiser, shown, at_us);
        };
        node.store.admit(visitor(1), at_us, PATIENCE, &mut admit).await.unwrap();
    }
    node.flush().await;
    let fields: Vec<String> = server.run(&["HKEYS", &key(1)]);
    let lists = fields.iter().filter(|field| field.starts_with("a:")).count();
    assert!(lists <= 256 && fields.len() <= lists + 1, "{lists} lists, and their name");
    let profile = node.known(1).await.profile;
    assert_eq!(profile.list(&x()).len(), 200, "the first one's list is as it was");
    // 255 at once beside the first: those of 0 to 254, and as 0 ended at 300, those from 300 on.
    for n in [120_u64, 254, 300, 399] {
        let list = profile.list(&AdvertiserId::from(n.to_string().as_str())).len();
        assert_eq!(list, 1, "of {n}");
    }
    assert_eq!(profile.list(&AdvertiserId::from("255")).len(), 0, "there was no room");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_lives_as_long_as_its_segments() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    let add = vec![Segment { name: "a/1".to_owned(), expires_us: NOON_US + 90 * DAY_US }];
    let change = SegmentsChange { add, remove: vec![] };
    node.store.update_segments(visitor(1), NOON_US, change).await.unwrap();
    assert!(node.show(1, 9, 1).await);
    node.flush().await;
    let [(_, left_ms)] = &lives(&server)[..] else { panic!("one key") };
    assert!((3 * HISTORY_MS - 60_000..=3 * HISTORY_MS).contains(left_ms), "{left_ms}");
}

/// Bytes in Redis are part of the contract: another version of ours reads them.
#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_written_as_its_contract_says() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    assert!(node.show(1, 9, 7).await);
    assert!(node.show(1, 9, 8).await);
    let add = ["b/2", "a/1"].map(|name| Segment { name: name.into(), expires_us: NOON_US + 5 });
    let change = SegmentsChange { add: add.to_vec(), remove: vec![] };
    node.store.update_segments(visitor(1), NOON_US, change).await.unwrap();
    node.flush().await;
    let list: Vec<u8> = server.run(&["HGET", &key(1), "a:x"]);
    let expected = [exposure(NOON_US, 7), exposure(NOON_US, 8)].map(|shown| record(&shown));
    assert_eq!(list, expected.concat());
    let segments: String = server.run(&["HGET", &key(1), "s"]);
    let mut lines: Vec<_> = segments.split_inclusive('\n').collect();
    lines.sort_unstable();
    assert_eq!(lines, [format!("{} a/1\n", NOON_US + 5), format!("{} b/2\n", NOON_US + 5)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_counts_as_empty_and_is_written_anew() {
    let server = RedisServer::start();
    let damages: [&[&str]; 5] = [
        &["SET", &key(0), "a string"],
        &["RPUSH", &key(1), "a", "list"],
        &["HSET", &key(2), "a:x", "no record", "s", "no segment", "f", "never", "z", "unknown"],
        &["HSET", &key(3), "a:x", "", "a:\u{fffd}", "x", "s", "", "f", ""],
        &["HSET", &key(4), "f", "99999999999999999999", "s", "99999999999999999999 a/1\n"],
    ];
    damages.iter().for_each(|damage| server.run::<()>(damage));
    let node = Node::connected(&server.url()).await;
    for of in 0..5 {
        assert_eq!(node.decisions(of).await, Vec::<u64>::new());
        assert!(node.show(of, 9, 1).await, "{:?}", damages[of as usize]);
        assert!(node.show_strictly(of, 9, 2).await);
        node.store.flush().await.unwrap();
        assert_eq!(node.decisions(of).await, [1, 2]);
        let list: Vec<u8> = server.run(&["HGET", &key(of), "a:x"]);
        let whole = [1, 2].map(|decision| record(&exposure(NOON_US, decision))).concat();
        assert_eq!(list, whole);
    }
    assert!(lives(&server).iter().all(|(_, left_ms)| *left_ms > 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_without_memory_keeps_what_it_has_and_is_told_later() {
    let server = RedisServer::start();
    let node = Node::connected(&server.url()).await;
    assert!(node.show(1, 9, 1).await);
    node.store.flush().await.unwrap();
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    for decision in 2..=9 {
        assert!(node.show(1, 9, decision).await, "decisions go on");
    }
    assert!(!node.show(1, 9, 10).await, "under what the node knows");
    assert!(!node.show_strictly(1, 99, 10).await, "and strict ones are withheld");
    let list: Vec<u8> = server.run(&["HGET", &key(1), "a:x"]);
    assert_eq!(list, record(&exposure(NOON_US, 1)), "nothing half done");
    assert!(node.is_degraded().await.contains("OOM"));
    let change = SegmentsChange { add: vec![], remove: vec!["a/1".into()] };
    assert!(node.store.update_segments(visitor(1), NOON_US, change).await.is_err());
    assert!(node.store.flush().await.is_err());
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    node.flush().await;
    assert_eq!(node.decisions(1).await, (1..=9).collect::<Vec<_>>());
    let mut degraded = node.store.degraded();
    crate::node::within_patience(degraded.wait_for(String::is_empty)).await.unwrap();
}
