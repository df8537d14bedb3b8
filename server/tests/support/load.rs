//! A load of ChooseAds on every node, that watches what is shown.

#![allow(dead_code, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use slotwise_proto::v1::ChooseAdsRequest;
use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_server::testing::Server;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

/// Nothing here takes so long, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Callers, two for each node, each asking one thing after another.
pub struct Load {
    state: Arc<State>,
    callers: Vec<JoinHandle<u64>>,
}

struct State {
    stop: AtomicBool,
    /// What no decision that begins now may hold.
    forbidden: watch::Sender<Option<String>>,
    /// Decisions that each caller has begun and ended since the last word.
    ended: Vec<AtomicU64>,
    /// Of these, how many held what is looked for.
    seen: Vec<AtomicU64>,
    wanted: watch::Sender<String>,
}

impl Load {
    /// Asks every zone of `zones` on every node, until it is stopped.
    pub async fn start(nodes: &[Server], zones: usize) -> Self {
        let count = 2 * nodes.len();
        let counters = || (0..count).map(|_| AtomicU64::new(0)).collect();
        let state = Arc::new(State {
            stop: AtomicBool::new(false),
            forbidden: watch::Sender::default(),
            ended: counters(),
            seen: counters(),
            wanted: watch::Sender::default(),
        });
        let mut callers = Vec::new();
        for caller in 0..count {
            let addr = nodes[caller % nodes.len()].decision_addr();
            let channel =
                Endpoint::try_from(format!("http://{addr}")).unwrap().connect().await.unwrap();
            let client = AdDecisionServiceClient::new(channel);
            callers.push(tokio::spawn(Arc::clone(&state).call(caller, client, zones)));
        }
        Self { state, callers }
    }

    /// From now on no decision may hold the campaign; returns when each caller has had some.
    pub async fn forbid(&self, campaign: &str) {
        self.state.forbidden.send_replace(Some(campaign.to_owned()));
        self.wait(&self.state.ended).await;
    }

    /// Everything may be shown again; returns when each caller knows.
    pub async fn allow(&self) {
        self.state.forbidden.send_replace(None);
        self.wait(&self.state.ended).await;
    }

    /// Returns when each caller has got the campaign.
    pub async fn expect(&self, campaign: &str) {
        self.state.wanted.send_replace(campaign.to_owned());
        self.wait(&self.state.seen).await;
    }

    async fn wait(&self, counters: &[AtomicU64]) {
        // One that is under way began before the word.
        let goals: Vec<u64> = counters.iter().map(|n| n.load(Ordering::SeqCst) + 3).collect();
        let began = Instant::now();
        while counters.iter().zip(&goals).any(|(n, goal)| n.load(Ordering::SeqCst) < *goal) {
            assert!(began.elapsed() < PATIENCE, "a caller waits for ever");
            assert!(!self.callers.iter().any(JoinHandle::is_finished), "a caller has failed");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    /// Stops; how many decisions there were. Fails where one failed, or held what it must not.
    pub async fn stop(self) -> u64 {
        self.state.stop.store(true, Ordering::SeqCst);
        let mut decisions = 0;
        for caller in self.callers {
            decisions += caller.await.unwrap();
        }
        decisions
    }
}

impl State {
    async fn call(
        self: Arc<Self>,
        caller: usize,
        mut client: AdDecisionServiceClient<Channel>,
        zones: usize,
    ) -> u64 {
        let mut asked = 0;
        while !self.stop.load(Ordering::SeqCst) {
            let forbidden = self.forbidden.borrow().clone();
            let wanted = self.wanted.borrow().clone();
            let request = ChooseAdsRequest {
                site_id: "s".into(),
                zone_id: format!("z{}", (asked as usize * 7 + caller) % zones),
                user_id: format!("visitor-{}", asked % 1_000),
                count: 1,
                ..ChooseAdsRequest::default()
            };
            let answer = client
                .choose_ads(request)
                .await
                .unwrap_or_else(|status| panic!("no decision fails: {status}"))
                .into_inner();
            let is = |campaign: &str| answer.ads.iter().any(|ad| ad.campaign_id == campaign);
            if let Some(campaign) = forbidden {
                assert!(!is(&campaign), "caller {caller} got {campaign} after it was paused");
            }
            asked += 1;
            self.seen[caller].fetch_add(u64::from(is(&wanted)), Ordering::SeqCst);
            self.ended[caller].fetch_add(1, Ordering::SeqCst);
        }
        asked
    }
}
