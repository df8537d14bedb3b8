//! One visitor, several nodes: caps, the commands that they cost, and forgetting.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use slotwise_proto::v1::user_service_client::UserServiceClient;
use slotwise_proto::v1::{ChooseAdsRequest, ForgetUserRequest, GetProfileRequest};
use slotwise_server::testing::Server;
use tokio::task::JoinSet;

use crate::nodes::three_that_ask;
use crate::redis_server::RedisServer;
use crate::support::{ad, ask, campaign, channel, decisions, import, place, served};
use crate::{rounds, three};

/// A campaign with a cap of 3 a day, strict or not, and none behind it.
async fn capped(nodes: &[Server], more: &str) {
    capped_at(nodes, 3, more).await;
}

/// The same with another cap.
pub(crate) async fn capped_at(nodes: &[Server], impressions_max: u32, more: &str) {
    let cap = format!(
        r#""caps":[{{"level":"CAP_LEVEL_CAMPAIGN","impressionsMax":{impressions_max},"window":"86400s"}}]"#
    );
    let mut records = place(&["z0", "free"]);
    records.push(campaign("x:1", &format!("{cap}{more}")));
    records.push(ad("x:1", "u", &["z0"], 9, ""));
    records.push(campaign("y:1", ""));
    records.push(ad("y:1", "u", &["free"], 9, ""));
    import(&nodes[0], &records).await;
    let version = nodes[0].app().admin.served.borrow().version;
    for node in nodes {
        served(node, version).await;
    }
}

/// How often the visitor is shown the capped ad, asking 64 times at once over all nodes.
async fn showings(nodes: &[Server], user: &str) -> usize {
    let mut asking = JoinSet::new();
    for n in 0..64 {
        let mut client = decisions(&nodes[n % nodes.len()]).await;
        // Nobody is turned away for want of time: it is the cap that is tried.
        let request = ChooseAdsRequest { timeout_ms: 30_000, ..ask("z0", user, 1) };
        asking
            .spawn(async move { client.choose_ads(request).await.unwrap().into_inner().ads.len() });
    }
    asking.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cap_of_three_is_shown_five_times_at_most() {
    let redis = RedisServer::start();
    let nodes = three(&redis).await;
    capped(&nodes, "").await;
    let mut most = 0;
    for round in 0..rounds(100) {
        let shown = showings(&nodes, &format!("visitor-{round}")).await;
        assert!((3..=5).contains(&shown), "{shown} in round {round}");
        most = most.max(shown);
    }
    println!("cap 3, 64 at once over three nodes: {most} showings at most");
}

/// One after another, as from behind a balancer: the bound is the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cap_of_three_is_shown_five_times_at_most_in_turns() {
    let redis = RedisServer::start();
    for nodes in [three(&redis).await, three_that_ask(&redis).await] {
        capped(&nodes, "").await;
        for round in 0..rounds(20) {
            let mut shown = 0;
            for node in nodes.iter().cycle().take(12) {
                let request = ChooseAdsRequest {
                    timeout_ms: 30_000,
                    ..ask("z0", &format!("turns-{}-{round}", nodes[0].admin_addr()), 1)
                };
                let answer = decisions(node).await.choose_ads(request).await.unwrap();
                shown += answer.into_inner().ads.len();
            }
            assert!((3..=5).contains(&shown), "{shown} in round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_strict_cap_of_three_is_shown_three_times() {
    let redis = RedisServer::start();
    let nodes = three(&redis).await;
    capped(&nodes, r#","strictCaps":true"#).await;
    for round in 0..rounds(100) {
        let shown = showings(&nodes, &format!("visitor-{round}")).await;
        assert_eq!(shown, 3, "round {round}");
    }
    println!("strict cap 3, 64 at once over three nodes: 3 showings each time");
}

/// What is done to visitors' keys from now on.
struct Monitor(BufReader<TcpStream>);

impl Monitor {
    fn start(redis: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", redis.port)).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        let mut ok = String::new();
        lines.read_line(&mut ok).unwrap();
        assert_eq!(ok, "+OK\r\n");
        Self(lines)
    }

    /// The commands on visitors' keys up to now; what scripts do inside is no command.
    fn commands(&mut self, redis: &RedisServer) -> Vec<String> {
        redis.run::<String>(&["ECHO", "until here"]);
        let mut commands = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if line.contains("until here") {
                return commands;
            }
            if line.contains("\"{slotwise:") && !line.contains(" lua]") {
                let command = line.split('"').nth(1).unwrap().to_uppercase();
                // A script, one key, the key, and what the reader knows of it.
                let is_read = command == "EVALSHA" && line.matches('"').count() == 10;
                commands.push(if is_read { "HGETALL".to_owned() } else { command });
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_decision_costs_one_read_at_most_and_none_without_a_cap() {
    let redis = RedisServer::start();
    let nodes = three_that_ask(&redis).await;
    capped(&nodes, "").await;
    let mut monitor = Monitor::start(&redis);
    let choose = async |node: usize, zone: &str, user: &str| {
        let request = ChooseAdsRequest { timeout_ms: 30_000, ..ask(zone, user, 1) };
        decisions(&nodes[node]).await.choose_ads(request).await.unwrap();
        nodes[node].app().flush().await.unwrap();
    };
    for node in 0..3 {
        choose(node, "free", "somebody").await;
        choose(node, "z0", "").await;
    }
    assert_eq!(monitor.commands(&redis), [""; 0], "nothing asks for the profile");
    choose(0, "z0", "somebody").await;
    assert_eq!(monitor.commands(&redis), ["HGETALL", "EVALSHA"], "one read, and one add");
    choose(1, "z0", "somebody").await;
    choose(1, "z0", "somebody").await;
    choose(1, "z0", "somebody").await;
    let commands = monitor.commands(&redis);
    let reads = commands.iter().filter(|command| *command == "HGETALL").count();
    assert!(reads <= 3, "{commands:?}");
    assert_eq!(commands.len() - reads, 2, "two more showings, and the third is over the cap");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_is_forgotten_is_forgotten_by_every_node() {
    let redis = RedisServer::start();
    let nodes = three_that_ask(&redis).await;
    capped(&nodes, "").await;
    let show = async |node: &Server| {
        let request = ChooseAdsRequest { timeout_ms: 30_000, ..ask("z0", "somebody", 1) };
        decisions(node).await.choose_ads(request).await.unwrap().into_inner().ads.len()
    };
    let mut shown = 0;
    for node in nodes.iter().cycle().take(9) {
        shown += show(node).await;
        node.app().flush().await.unwrap();
    }
    assert_eq!(shown, 3);
    let mut users = UserServiceClient::new(channel(nodes[1].admin_addr()).await);
    let request = ForgetUserRequest { account_id: String::new(), user_id: "somebody".into() };
    let began = std::time::Instant::now();
    let forgotten = users.forget_user(request.clone()).await.unwrap().into_inner();
    println!("forgotten by three nodes in {:?}", began.elapsed());
    assert!(forgotten.held_something);
    for node in &nodes {
        let mut users = UserServiceClient::new(channel(node.admin_addr()).await);
        let get = GetProfileRequest {
            account_id: "a".into(),
            user_id: "somebody".into(),
            advertiser_id: String::new(),
        };
        let profile = users.get_profile(get).await.unwrap().into_inner();
        assert_eq!((profile.histories.len(), profile.segments.len()), (0, 0));
    }
    assert!(!users.forget_user(request).await.unwrap().into_inner().held_something);
    // What is seen from now on is another visit.
    for node in &nodes {
        assert_eq!(show(node).await, 1);
        node.app().flush().await.unwrap();
    }
    assert_eq!(show(&nodes[0]).await, 0);
}
