//! One node's profiles, and small decisions over them.

use std::sync::Arc;
use std::time::Duration;

use slotwise_core::decide::{Strict, StrictAsk, StrictCandidate};
use slotwise_core::model::{
    AccountSerial, AdSerial, AdvertiserId, CampaignSerial, Cap, CapLevel, Exposure, Profile,
    ZoneSerial,
};
use slotwise_server::ports::{Admission, Known, ProfileStore, StoreError, VisitorKey};
use slotwise_server::store::redis::{Redis, RedisProfiles};
use slotwise_server::testing::ManualClock;

use crate::redis_server::RedisServer;

/// Long enough that no test fails because the machine is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// 2026-11-30T12:00:00Z.
pub(crate) const NOON_US: i64 = 1_796_040_000_000_000;
pub(crate) const DAY_US: i64 = 86_400_000_000;

pub(crate) fn x() -> AdvertiserId {
    "x".into()
}

pub(crate) fn visitor(visitor: u128) -> VisitorKey {
    VisitorKey { account: AccountSerial(1), visitor }
}

pub(crate) fn key(visitor: u128) -> String {
    format!("{{slotwise:1.{visitor:032x}}}")
}

pub(crate) fn exposure(at_us: i64, decision: u64) -> Exposure {
    Exposure {
        at_us,
        life_us: DAY_US,
        is_held: false,
        decision,
        zone: ZoneSerial(1),
        campaign: CampaignSerial(2),
        ad: AdSerial(3),
    }
}

/// The bytes that the contract of `scripts/profile.lua` asks for.
pub(crate) fn record(shown: &Exposure) -> Vec<u8> {
    [
        &shown.at_us.to_le_bytes()[..],
        &shown.life_us.to_le_bytes(),
        &shown.decision.to_le_bytes(),
        &shown.zone.0.to_le_bytes(),
        &shown.campaign.0.to_le_bytes(),
        &shown.ad.0.to_le_bytes(),
    ]
    .concat()
}

/// One node.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) store: Arc<RedisProfiles>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Node {
    /// One that does not wait for the store to be there, and asks it at each decision.
    pub(crate) fn at(url: &str) -> Self {
        Self::with_fresh(url, Duration::ZERO)
    }

    /// One whose decisions take what the store said so long ago at most.
    pub(crate) fn with_fresh(url: &str, fresh: Duration) -> Self {
        let redis = Redis::open(url.parse().unwrap(), "slotwise").unwrap();
        let clock = ManualClock::new(NOON_US);
        let store = Arc::new(RedisProfiles::open(Arc::new(redis), clock.clone(), fresh));
        Self { store, clock }
    }

    pub(crate) async fn connected(url: &str) -> Self {
        let node = Self::at(url);
        node.is_back().await;
        node
    }

    /// Waits until the store answers, wherever it keeps a profile.
    pub(crate) async fn is_back(&self) {
        within_patience(async {
            for n in 0..32 {
                while !self.known(u128::MAX - n).await.is_certain {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        })
        .await;
    }

    /// Waits until the node says that something is wrong.
    pub(crate) async fn is_degraded(&self) -> String {
        let mut degraded = self.store.degraded();
        let words = within_patience(degraded.wait_for(|words| !words.is_empty())).await;
        words.unwrap().clone()
    }

    /// Waits until the store has everything.
    pub(crate) async fn flush(&self) {
        within_patience(async { while self.store.flush().await.is_err() {} }).await;
    }

    pub(crate) async fn known(&self, of: u128) -> Known {
        self.store.read(visitor(of), NOON_US, PATIENCE).await.unwrap()
    }

    /// Decisions of advertiser x in the profile, as the store says.
    pub(crate) async fn decisions(&self, of: u128) -> Vec<u64> {
        let known = self.known(of).await;
        assert!(known.is_certain, "the store answers");
        known.profile.list(&x()).iter().map(|seen| seen.decision).collect()
    }

    /// Shows one more ad while fewer than `cap` are known; says whether it did.
    pub(crate) async fn show(&self, of: u128, cap: usize, decision: u64) -> bool {
        self.try_show(of, cap, decision, PATIENCE).await.unwrap()
    }

    pub(crate) async fn try_show(
        &self,
        of: u128,
        cap: usize,
        decision: u64,
        wait: Duration,
    ) -> Result<bool, StoreError> {
        self.try_show_at(NOON_US, of, cap, decision, wait).await
    }

    pub(crate) async fn try_show_at(
        &self,
        now_us: i64,
        of: u128,
        cap: usize,
        decision: u64,
        wait: Duration,
    ) -> Result<bool, StoreError> {
        let mut shown = false;
        let mut admit = |profile: &mut Profile| {
            shown = profile.list(&x()).len() < cap
                && profile.record(&x(), exposure(now_us, decision), now_us).is_ok();
        };
        self.store.admit(visitor(of), now_us, wait, &mut admit).await?;
        Ok(shown)
    }

    /// The same for a strict cap.
    pub(crate) async fn show_strictly(&self, of: u128, cap: u32, decision: u64) -> bool {
        let cap = Cap { level: CapLevel::Ad, impressions_max: cap, window_us: DAY_US };
        let candidate = StrictCandidate {
            advertiser: x(),
            exposure: exposure(NOON_US, decision),
            caps: [cap].into(),
            taken_before: 0,
        };
        !self.ask(of, 1, vec![candidate]).await.is_empty()
    }

    /// Asks the store; the ads that it admits.
    pub(crate) async fn ask(
        &self,
        of: u128,
        count: usize,
        candidates: Vec<StrictCandidate>,
    ) -> Vec<AdSerial> {
        let ask = StrictAsk { count, candidates };
        let mut asking = Asking { ask, granted: None };
        self.store.admit(visitor(of), NOON_US, PATIENCE, &mut asking).await.unwrap();
        asking.granted.expect("it was called")
    }
}

/// Always asks where it may.
struct Asking {
    ask: StrictAsk,
    granted: Option<Vec<AdSerial>>,
}

impl Admission for Asking {
    fn admit(&mut self, profile: &mut Profile, strict: Strict<'_>) -> Option<StrictAsk> {
        match strict {
            Strict::Ask => return Some(self.ask.clone()),
            Strict::Granted(ads) => {
                for candidate in &self.ask.candidates {
                    let is_granted = ads.contains(&candidate.exposure.ad);
                    let list = profile.list(&candidate.advertiser);
                    assert!(!is_granted || list.contains(&candidate.exposure), "it is recorded");
                }
                self.granted = Some(ads.to_vec());
            }
            Strict::Withheld => self.granted = Some(Vec::new()),
            Strict::Local => panic!("several nodes share this store"),
        }
        None
    }
}

pub(crate) async fn within_patience<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, waiting).await.expect("nothing takes so long")
}

/// Every key but the count of forgets, which is one for all visitors and stays.
pub(crate) fn keys(server: &RedisServer) -> Vec<String> {
    let mut keys: Vec<String> = server.run(&["KEYS", "*"]);
    keys.retain(|key| key != "{slotwise}:forgets:count" && key != "{slotwise}:head");
    keys
}

/// Rounds of the tests whose failures are a matter of chance.
pub(crate) fn rounds() -> u128 {
    std::env::var("SLOTWISE_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
}
