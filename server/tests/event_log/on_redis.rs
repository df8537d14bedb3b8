//! Events in Redis that dies, is full, or is not set up to keep them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use slotwise_server::events::{LogRecorder, Recorder};
use slotwise_server::ports::EventLog;
use slotwise_server::store::redis::{Redis, RedisLog};
use slotwise_server::telemetry::{Counters, Metric};

use crate::redis_server::RedisServer;
use crate::{PATIENCE, check, event_of, recorder, settled};

async fn open(server: &RedisServer) -> Arc<RedisLog> {
    let redis = Redis::open(server.url().parse().unwrap(), "slotwise").unwrap();
    redis.wait().await.unwrap();
    Arc::new(RedisLog::new(Arc::new(redis)))
}

struct Bench {
    dir: tempfile::TempDir,
    log: Arc<RedisLog>,
    counters: Arc<Counters>,
    recorder: Arc<LogRecorder>,
    acknowledged: BTreeSet<u64>,
}

impl Bench {
    async fn new(server: &RedisServer) -> Self {
        let (dir, log) = (tempfile::tempdir().unwrap(), open(server).await);
        let counters = Arc::<Counters>::default();
        let its_log = Arc::clone(&log) as Arc<dyn EventLog>;
        let recorder = Arc::new(recorder(dir.path(), its_log, &counters));
        Self { dir, log, counters, recorder, acknowledged: BTreeSet::new() }
    }

    /// Records so many more, several at a time; all are acknowledged.
    async fn record(&mut self, count: u64) {
        let first = self.acknowledged.len() as u64;
        let record = |number| {
            let recorder = Arc::clone(&self.recorder);
            async move { recorder.record(vec![event_of(number)]).await.map(|()| number) }
        };
        let calls: tokio::task::JoinSet<_> = (first..first + count).map(record).collect();
        for outcome in calls.join_all().await {
            self.acknowledged.insert(outcome.expect("it is in the log or on the disk"));
        }
    }

    fn spilled(&self) -> u64 {
        self.counters.get(Metric::EventsSpilled)
    }

    fn spill_bytes(&self) -> u64 {
        std::fs::metadata(Path::join(self.dir.path(), crate::SPILL)).unwrap().len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_syncs_loses_nothing_when_it_is_killed() {
    let mut server = RedisServer::start_durable();
    let mut bench = Bench::new(&server).await;
    assert_eq!(bench.log.weakness().await, None);
    for round in 0..5 {
        // In the middle of what is being recorded, and after it.
        let calls: Vec<_> = (0..40)
            .map(|n| {
                let (recorder, number) = (Arc::clone(&bench.recorder), 1_000_000 + round * 40 + n);
                tokio::spawn(async move { recorder.record(vec![event_of(number)]).await })
            })
            .collect();
        bench.record(50).await;
        server.kill();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        bench.record(50).await;
        server.restart();
        settled(&bench.recorder).await;
    }
    assert!(bench.spilled() > 0, "the disk stood in");
    assert_eq!(bench.spill_bytes(), 0);
    bench.acknowledged.extend(1_000_000..1_000_200);
    drop(bench.log);
    check(&*open(&server).await, &bench.acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_full_events_wait_on_the_disk() {
    let server = RedisServer::start();
    let mut bench = Bench::new(&server).await;
    bench.record(10).await;
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    bench.record(10).await;
    assert_eq!(bench.spilled(), 10);
    let wrong = bench.recorder.degraded().borrow().clone();
    assert!(wrong.contains("OOM"), "{wrong}");
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    settled(&bench.recorder).await;
    check(&*bench.log, &bench.acknowledged).await;
}

#[tokio::test]
async fn it_says_what_keeps_events_from_being_safe() {
    let server = RedisServer::start();
    let log = open(&server).await;
    let weakness = || async { log.weakness().await.unwrap_or_default() };
    assert!(weakness().await.contains("appendonly is no"));
    server.run::<()>(&["CONFIG", "SET", "appendonly", "yes"]);
    let said = weakness().await;
    assert!(said.contains("appendfsync is everysec") && !said.contains("appendonly"), "{said}");
    server.run::<()>(&["CONFIG", "SET", "appendfsync", "always"]);
    assert_eq!(log.weakness().await, None);

    let from = format!("127.0.0.1 {}", server.port);
    let replica = RedisServer::start_with(&["--replicaof", &from]);
    let followed = async {
        while !weakness().await.contains("failover") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, followed).await.expect("it says that it is replicated");
    drop(replica);

    server.run::<()>(&["ACL", "SETUSER", "default", "-config"]);
    let said = weakness().await;
    assert!(said.contains("unknown") && said.contains("NOPERM"), "{said}");
}
