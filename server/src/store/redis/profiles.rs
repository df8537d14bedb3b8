//! Visitors' profiles in Redis: a hash for each visitor of each account.
//!
//! A decision looks at the store once at most: it reads the hash, or it waits for the reply to what
//! its node added for the visitor before, which is the whole hash as well; or what the store said
//! last is fresh still, as of visitors who come again and again. It does not wait for what it adds
//! itself. Caps that are to be strict are admitted by a script in the store. Everything waits
//! within the decision's own bound. Where the store is away, decisions go on over what the node
//! remembers, and what they show is told when the store is back.
//!
//! Across n nodes a cap is exceeded by what n - 1 answers can hold at most, however old what the
//! store said may be. For each node, take its last answer that showed something, and when the
//! store said what that was decided on: by then the store had all that this node had shown before.
//! So the node of which that was latest knew all but the last answers of the n - 1 others, and kept
//! to the cap.

mod adds;
mod asks;
mod forgets;
mod lane;
mod names;
mod record;
mod remembered;
mod slots;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::Cmd;
use slotwise_core::decide::{Strict, StrictAsk};
use slotwise_core::model::{AccountSerial, AdSerial, AdvertiserId, Exposure, Profile};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, timeout, timeout_at};

use self::adds::{Add, Pending};
use self::asks::{Asked, Asking};
use self::forgets::Forgets;
use self::lane::Lane;
use self::names::Names;
use self::record::{Said, Stored};
use self::remembered::Remembered;
use self::slots::{Slot, Slots};
use super::server::Redis;
use crate::limits::{
    PROFILE_DAMAGE_LOG_INTERVAL, PROFILE_FLUSH_MAX, PROFILE_RETRY_INTERVAL, PROFILE_SWEEP_INTERVAL,
    REDIS_CALL_MAX,
};
use crate::ports::{
    Admission, Clock, Forgotten, Known, ProfileStore, SegmentsChange, StoreError, VisitorKey,
};

/// The profiles of an installation, as one node sees them.
pub struct RedisProfiles {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    redis: Arc<Redis>,
    clock: Arc<dyn Clock>,
    slots: Slots,
    asks: Lane<Asked>,
    adds: Lane<Add>,
    pending: Pending,
    names: Names,
    forgets: Forgets,
    degraded: watch::Sender<String>,
    /// How long a decision takes what the store said last.
    fresh_us: i64,
    damage: Mutex<Damage>,
}

/// Damaged profiles that were not logged yet, and when some were.
#[derive(Default)]
struct Damage {
    count: u64,
    logged: Option<Instant>,
}

impl RedisProfiles {
    /// The profiles in this Redis. For `fresh` a decision takes what the store said of its visitor
    /// last; zero: each asks.
    pub fn open(redis: Arc<Redis>, clock: Arc<dyn Clock>, fresh: Duration) -> Self {
        let runtime = redis.runtime().clone();
        let shared = Arc::new(Shared {
            clock,
            slots: Slots::new(redis.prefix()),
            asks: Lane::open(Arc::clone(&redis)),
            adds: Lane::open(Arc::clone(&redis)),
            pending: Pending::default(),
            names: Names::new(),
            forgets: Forgets::new(redis.prefix()),
            degraded: watch::Sender::default(),
            fresh_us: i64::try_from(fresh.as_micros()).unwrap_or(i64::MAX),
            damage: Mutex::default(),
            redis,
        });
        let tasks = vec![
            runtime.spawn(Arc::clone(&shared).tend()),
            runtime.spawn(Arc::clone(&shared).follow_forgets()),
        ];
        Self { shared, tasks }
    }
}

/// What was recorded is told to the store first, within [`PROFILE_FLUSH_MAX`].
impl Drop for RedisProfiles {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let (done, flushed) = std::sync::mpsc::channel();
        self.shared.redis.runtime().spawn(async move {
            let _ = done.send(shared.flush().await);
        });
        let lost = flushed.recv_timeout(2 * PROFILE_FLUSH_MAX).map_err(|error| error.to_string());
        if let Err(error) = lost.and_then(|lost| lost.map_err(|error| error.to_string())) {
            tracing::error!(error, "the last exposures are lost");
        }
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[async_trait]
impl ProfileStore for RedisProfiles {
    async fn admit(
        &self,
        visitor: VisitorKey,
        now_us: i64,
        wait: Duration,
        admission: &mut dyn Admission,
    ) -> Result<(), StoreError> {
        let (shared, deadline) = (&self.shared, Instant::now() + wait);
        if shared.pending.is_full() {
            return Err(StoreError::Full("too many exposures wait for the store"));
        }
        let slot = shared.slots.slot(visitor)?;
        slot.remembered().meet(now_us);
        let turn = timeout_at(deadline, slot.turn.lock()).await.ok();
        let is_fresh = turn.is_some() && shared.catch_up(&slot, deadline).await.is_ok();
        // A store that is only late may hold what other nodes have shown meanwhile: the bound on
        // a cap holds as long as the store is there. Who does not get a turn decides over what is
        // remembered when it is away: that is one at a time, too.
        if !is_fresh && !shared.redis.is_away(slot.tag()) {
            return Err(late());
        }
        let first = if is_fresh { Strict::Ask } else { Strict::Withheld };
        if let Some(ask) = shared.decide(&slot, admission, first) {
            let granted = shared.strict(&slot, &ask, deadline).await;
            let second = granted.as_deref().map_or(Strict::Withheld, Strict::Granted);
            shared.decide(&slot, admission, second);
        }
        Ok(())
    }

    async fn read(
        &self,
        visitor: VisitorKey,
        now_us: i64,
        wait: Duration,
    ) -> Result<Known, StoreError> {
        let slot = self.shared.slots.known_or_apart(visitor);
        slot.remembered().meet(now_us);
        let is_certain = self.shared.look(&slot, Instant::now() + wait).await.is_ok();
        let mut profile = slot.remembered().profile.clone();
        profile.lapse_segments(now_us);
        let is_late = !is_certain && !self.shared.redis.is_away(slot.tag());
        Ok(Known { profile, is_certain, is_late })
    }

    async fn update_segments(
        &self,
        visitor: VisitorKey,
        now_us: i64,
        change: SegmentsChange,
    ) -> Result<Profile, StoreError> {
        let (shared, deadline) = (&self.shared, Instant::now() + REDIS_CALL_MAX);
        let slot = shared.slots.known_or_apart(visitor);
        let command = record::segments(&slot.key, now_us, &change);
        let reply = shared.begin(slot.tag(), command).by(deadline).await?;
        let changed = shared.seen(record::changed(&reply, shared.now_us(&slot.remembered()))?);
        let mut profile = shared
            .change(&slot, |remembered| (remembered.learn(changed), remembered.profile.clone()));
        profile.lapse_segments(now_us);
        Ok(profile)
    }

    async fn forget(
        &self,
        visitor: u128,
        account: Option<AccountSerial>,
        now_us: i64,
    ) -> Result<Forgotten, StoreError> {
        self.shared.forget(visitor, account, now_us).await
    }

    async fn confirm(
        &self,
        visitor: VisitorKey,
        advertiser: &AdvertiserId,
        exposure: Exposure,
        now_us: i64,
    ) -> Result<(), StoreError> {
        let shared = &self.shared;
        if shared.pending.is_full() {
            return Err(StoreError::Full("too many exposures wait for the store"));
        }
        let slot = shared.slots.slot(visitor)?;
        shared.change(&slot, |remembered| {
            remembered.meet(now_us);
            // A list that is full without it is as capped as it can be.
            let _ = remembered.profile.record(advertiser, exposure, remembered.now_us);
            (remembered.take_fresh(), ())
        });
        Ok(())
    }

    async fn release(
        &self,
        visitor: VisitorKey,
        advertiser: &AdvertiserId,
        showing: Exposure,
        now_us: i64,
    ) -> Result<(), StoreError> {
        let (shared, deadline) = (&self.shared, Instant::now() + REDIS_CALL_MAX);
        let slot = shared.slots.known_or_apart(visitor);
        slot.remembered().meet(now_us);
        let awaited = slot.remembered().awaits();
        if let Some(number) = awaited {
            // What frees the place must not come before what takes it.
            let told = slot.when(|remembered| {
                (remembered.is_failing || remembered.is_confirmed(number)).then_some(())
            });
            // Where it does, the place is free when its time is over.
            let _ = timeout_at(deadline, told).await;
        }
        shared.forget_here(&slot, |remembered| remembered.release(advertiser, &showing));
        let now_us = shared.now_us(&slot.remembered());
        let command = record::release(&slot.key, now_us, advertiser, &showing);
        let reply = shared.begin(slot.tag(), command).by(deadline).await?;
        let stored = Stored::from_reply(&reply, now_us)?;
        shared.change(&slot, |remembered| (remembered.learn(shared.seen(stored)), ()));
        Ok(())
    }

    fn forgets(&self) -> watch::Receiver<u64> {
        self.shared.forgets.followed.subscribe()
    }

    fn degraded(&self) -> watch::Receiver<String> {
        self.shared.degraded.subscribe()
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.shared.flush().await
    }
}

impl Shared {
    /// Looks at the store where what it said of the visitor last is too old for a decision.
    async fn catch_up(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        deadline: Instant,
    ) -> Result<(), StoreError> {
        if slot.remembered().is_fresh(self.fresh_us) {
            return Ok(());
        }
        self.look(slot, deadline).await
    }

    /// Brings what is remembered of a visitor up to the store, with one look at it at most.
    async fn look(self: &Arc<Self>, slot: &Arc<Slot>, deadline: Instant) -> Result<(), StoreError> {
        let awaited = slot.remembered().awaits();
        if let Some(number) = awaited {
            let settled = slot.when(|remembered| match remembered.is_confirmed(number) {
                true => Some(true),
                false => remembered.is_failing.then_some(false),
            });
            if timeout_at(deadline, settled).await.map_err(|_| late())? {
                return Ok(());
            }
        }
        let known: Option<Box<str>> = slot.remembered().name().map(Box::from);
        let command = record::read(&slot.key, known.as_deref());
        let reply = self.begin(slot.tag(), command).by(deadline).await?;
        let said = Said::from_reply(&reply, self.now_us(&slot.remembered()))?;
        match said {
            Said::Whole(stored) => {
                self.change(slot, |remembered| (remembered.learn(self.seen(stored)), ()));
            }
            Said::AsExpected { .. } => {
                slot.remembered().confirm_known(known.as_deref().unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Decides over what is remembered, and hands over what that recorded.
    fn decide(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        admission: &mut dyn Admission,
        strict: Strict<'_>,
    ) -> Option<StrictAsk> {
        self.change(slot, |remembered| {
            let ask = admission.admit(&mut remembered.profile, strict);
            (remembered.take_fresh(), ask)
        })
    }

    /// The ads that the store admits; they are remembered with all else that it says. Nothing
    /// where it does not say in time.
    async fn strict(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        ask: &StrictAsk,
        deadline: Instant,
    ) -> Option<Vec<AdSerial>> {
        let now_us = self.now_us(&slot.remembered());
        let command = record::strict(&slot.key, now_us, ask);
        let reply = self.begin(slot.tag(), command).by(deadline).await.ok()?;
        let (ads, stored) = record::admitted(&reply, ask, now_us).ok()?;
        self.change(slot, |remembered| (remembered.learn(self.seen(stored)), ()));
        Some(ads)
    }

    /// Sends a command on its way.
    fn begin(&self, tag: &str, command: Cmd) -> Asking {
        let (asked, asking) = Asked::new(tag, command);
        self.asks.send(asked);
        asking
    }

    /// The later of the clock's instant and that of the visitor's last decision.
    fn now_us(&self, remembered: &Remembered) -> i64 {
        self.clock.now_us().max(remembered.now_us)
    }

    /// Says now and then how much was damaged.
    fn seen(&self, stored: Stored) -> Stored {
        if stored.is_damaged {
            let mut damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
            damage.count += 1;
            if damage.logged.is_none_or(|then| then.elapsed() >= PROFILE_DAMAGE_LOG_INTERVAL) {
                tracing::error!(profiles = damage.count, "damaged profiles count as empty");
                *damage = Damage { count: 0, logged: Some(Instant::now()) };
            }
        }
        stored
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let pending = self.slots.all().into_iter().filter_map(|slot| {
            let number = slot.remembered().awaits()?;
            Some((slot, number))
        });
        let pending: Vec<_> = pending.collect();
        let confirmed = async {
            for (slot, number) in pending {
                slot.when(|remembered| remembered.is_confirmed(number).then_some(())).await;
            }
        };
        timeout(PROFILE_FLUSH_MAX, confirmed).await.map_err(|_| late())
    }

    /// Sends again what failed, says what is wrong, and drops visitors who do not come any more.
    async fn tend(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(PROFILE_RETRY_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut away, mut swept) = (self.redis.away(), Instant::now());
        loop {
            tokio::select! {
                _ = ticks.tick() => self.retry(),
                _ = away.changed() => {}
            }
            let mut wrong = away.borrow_and_update().clone();
            if wrong.is_empty() {
                wrong = self.pending.words();
            }
            self.degraded.send_if_modified(|known| {
                let is_new = *known != wrong;
                *known = wrong;
                is_new
            });
            if self.slots.is_crowded() || swept.elapsed() >= PROFILE_SWEEP_INTERVAL {
                swept = Instant::now();
                let shared = Arc::clone(&self);
                let sweeping = move || shared.slots.sweep(swept);
                // It takes a while: not on the thread that drives the connections.
                let _ = self.redis.runtime().spawn_blocking(sweeping).await;
            }
        }
    }
}

fn late() -> StoreError {
    StoreError::Unavailable("the store did not answer in time".to_owned())
}

/// Microseconds as the scripts want them.
fn wire_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
