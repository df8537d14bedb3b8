//! What every store must do, run over each implementation: the promises of the ports in
//! `server/src/ports`, as functions that know the traits only. A new store brings a [`Harness`]
//! and one `suite!` line, and runs the very same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "these functions are tests: they stop where something is not as promised"
)]

use std::sync::Arc;
use std::time::Duration;

use slotwise_core::model::AccountSerial;
use slotwise_server::app::SystemClock;
use slotwise_server::events::Partition;
use slotwise_server::ports::{
    CatalogStore, Clock, EventLog, IncrementStore, Position, ProfileStore, VisitorKey,
};
use slotwise_server::store::embedded::{
    EmbeddedCatalog, EmbeddedIncrements, EmbeddedLog, EmbeddedProfiles,
};
use slotwise_server::store::redis::{
    Redis, RedisCatalog, RedisIncrements, RedisLog, RedisProfiles,
};

use crate::redis_server::{RedisCluster, RedisServer};

#[path = "support/redis.rs"]
mod redis_server;

#[path = "conformance/catalog.rs"]
mod catalog;
#[path = "conformance/commits.rs"]
mod commits;
#[path = "conformance/feed.rs"]
mod feed;
#[path = "conformance/increments.rs"]
mod increments;
#[path = "conformance/listing.rs"]
mod listing;
#[path = "conformance/log.rs"]
mod log;
#[path = "conformance/profiles.rs"]
mod profiles;
#[path = "conformance/profiles_holds.rs"]
mod profiles_holds;
#[path = "conformance/profiles_users.rs"]
mod profiles_users;
#[path = "conformance/serials.rs"]
mod serials;
#[path = "conformance/together.rs"]
mod together;

/// One place to keep things, empty at first, that an implementation opens again and again.
trait Harness: Sync {
    /// Opens the catalogue. What an earlier opening acknowledged is there.
    async fn catalog(&self) -> Arc<dyn CatalogStore>;

    /// Opens the estimates.
    async fn increments(&self) -> Arc<dyn IncrementStore>;

    /// Opens the profiles, with this clock.
    async fn profiles(&self, clock: Arc<dyn Clock>) -> Arc<dyn ProfileStore>;

    /// Opens the log of events. What an earlier opening acknowledged is there.
    async fn log(&self) -> Arc<dyn EventLog>;
}

/// Makes one test of each function, over a fresh harness.
macro_rules! suite {
    ($name:ident, $harness:expr) => {
        suite!($name, $harness,
            commits {
                an_empty_store_stands_at_0
                commits_count_from_1
                a_commit_on_another_base_changes_nothing
                a_commit_is_there_as_a_whole
                serials_are_unique_and_never_reused
                a_put_keeps_the_serial_and_raises_the_version
                a_put_without_a_status_leaves_it_as_it_was
                a_new_campaign_is_active_unless_told
                a_status_alone_raises_the_rows_version
                a_campaign_made_again_is_a_new_one
                deletes_go_and_the_head_counts_the_ads
                the_last_forced_change_is_known
                keys_are_told_apart_by_kind_and_parent
                bodies_come_back_byte_for_byte
                everything_acknowledged_survives_reopening
            }
            feed {
                load_gives_every_object_once_in_order
                load_ends_with_an_error_when_nobody_listens
                a_delta_from_each_version_leads_to_what_load_gives
                a_delta_sees_an_object_that_was_made_again
                a_delta_that_is_too_much_is_a_gap
                changes_come_oldest_first
                hints_receive_the_version_of_a_commit
                the_audit_log_comes_newest_first_page_by_page
                the_audit_log_of_one_object
                the_audit_log_keeps_before_and_after
            }
            listing {
                get_returns_only_what_is_there
                pages_follow_the_order_of_ids
                an_owners_sites_and_campaigns
                ids_that_begin_with_a_prefix
                zones_of_a_site_and_ads_of_a_campaign
            }
            increments {
                sums_add_up_by_account_and_day
                a_repeated_flush_changes_nothing
                senders_do_not_stand_in_each_others_way
                many_accounts_are_added_at_once
                estimates_survive_reopening
            }
            log {
                batches_come_back_byte_for_byte_in_order
                an_empty_partition_ends_at_once
                a_read_goes_on_after_what_was_read
                a_read_stays_within_its_bytes_but_for_one_batch
                partitions_know_nothing_of_each_other
                one_append_may_have_several_batches_of_a_partition
                what_was_appended_survives_reopening
                parallel_appends_lose_and_double_nothing
                a_reader_misses_nothing_that_is_appended_meanwhile
                a_trim_drops_what_was_counted_and_is_old
                a_trim_of_much_drops_all_of_it
                no_position_is_given_twice
            }
            serials {
                an_object_is_found_by_its_serial
                what_was_deleted_is_found_as_it_was
                what_is_made_again_leaves_the_old_one_its_serial
                what_a_large_change_brings_and_takes_is_found
                what_was_deleted_long_ago_is_forgotten
            }
            together {
                a_secret_is_the_same_for_everyone
                a_reader_sees_one_version
                parallel_commits_lose_nothing
            }
            profiles {
                parallel_admits_stop_at_the_cap
                parallel_admits_of_many_visitors_do_not_mix
                accounts_are_kept_apart
                an_admit_that_records_nothing_leaves_nothing
                read_sees_what_admit_recorded
                admit_sees_what_earlier_ones_recorded
                what_was_flushed_is_durable
                many_may_flush_at_once
                a_clean_stop_loses_nothing
                reopening_twice_doubles_nothing
                a_list_of_live_exposures_stays_at_its_bound
                a_list_makes_room_for_new_exposures_and_stays_at_its_bound
                a_long_history_is_kept_whole
                exposures_older_than_the_history_are_gone_after_reopening
            }
            profiles_users {
                segments_are_added_renewed_and_removed
                segments_lapse_at_their_time
                segments_survive_reopening
                a_visitor_has_at_most_256_segments
                segments_of_two_accounts_are_apart
                parallel_changes_of_segments_lose_none
                a_visitor_is_forgotten_in_one_account
                a_visitor_is_forgotten_in_every_account
                a_forget_says_whether_anything_was_held
                forgets_are_counted
                what_is_shown_after_a_forget_makes_a_new_profile
                what_was_shown_before_a_forget_does_not_come_back
                parallel_forgets_and_admits_leave_the_others_whole
                every_advertisers_list_goes
            }
            profiles_holds {
                an_impression_makes_a_hold_permanent_once
                an_impression_without_a_hold_is_added_once
                a_loss_frees_a_hold_and_nothing_else
                holds_and_what_became_of_them_survive_reopening
                holds_that_are_over_make_room
                an_impression_of_before_a_forget_makes_nobody_anew
                parallel_impressions_and_losses_settle_each_showing_once
            }
        );
    };
    ($name:ident, $harness:expr, $($of:ident { $($test:ident)* })*) => {
        mod $name {
            $(mod $of {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $test() {
                    crate::$of::$test(&$harness).await;
                })*
            })*
        }
    };
}

suite!(embedded, crate::Embedded::default());
suite!(redis, crate::OnRedis::alone());
suite!(redis_cluster, crate::OnRedis::cluster());

/// The embedded stores in a directory of their own.
struct Embedded(tempfile::TempDir);

impl Default for Embedded {
    fn default() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Harness for Embedded {
    async fn catalog(&self) -> Arc<dyn CatalogStore> {
        Arc::new(EmbeddedCatalog::open(self.0.path()).unwrap())
    }

    async fn increments(&self) -> Arc<dyn IncrementStore> {
        Arc::new(EmbeddedIncrements::open(self.0.path()).unwrap())
    }

    async fn profiles(&self, clock: Arc<dyn Clock>) -> Arc<dyn ProfileStore> {
        Arc::new(EmbeddedProfiles::open(self.0.path(), clock).unwrap())
    }

    async fn log(&self) -> Arc<dyn EventLog> {
        Arc::new(EmbeddedLog::open(self.0.path(), Arc::new(SystemClock)).unwrap())
    }
}

/// Accounts that profiles may be of: serials 1 to 9.
const ACCOUNTS: u32 = 9;

/// A Redis of its own, or a part of a cluster's keys.
struct OnRedis {
    url: String,
    prefix: String,
    _server: Option<RedisServer>,
    _cluster: Option<Arc<RedisCluster>>,
}

impl OnRedis {
    fn alone() -> Self {
        let server = RedisServer::start();
        Self {
            url: server.url(),
            prefix: "slotwise".to_owned(),
            _server: Some(server),
            _cluster: None,
        }
    }

    fn cluster() -> Self {
        let cluster = RedisCluster::shared();
        Self {
            url: cluster.url(),
            prefix: format!("test-{}", cluster.next()),
            _server: None,
            _cluster: Some(cluster),
        }
    }

    /// A visitor is forgotten in the accounts that the catalogue has.
    async fn make_accounts(&self, redis: &Arc<Redis>) {
        let catalog: catalog::Store = Arc::new(RedisCatalog::open(Arc::clone(redis), 0).await);
        if catalog.head().await.unwrap().version == 0 {
            let accounts = (1..=ACCOUNTS).map(|n| catalog::account(&n.to_string()));
            catalog::apply(&catalog, catalog::puts(accounts, "")).await;
        }
    }

    async fn redis(&self) -> Arc<Redis> {
        let redis = Redis::open(self.url.parse().unwrap(), &self.prefix).unwrap();
        redis.wait().await.unwrap();
        Arc::new(redis)
    }
}

impl Harness for OnRedis {
    async fn log(&self) -> Arc<dyn EventLog> {
        let log = RedisLog::new(self.redis().await);
        // Every node of a cluster is connected.
        let connected = async {
            for partition in Partition::all() {
                while log.read(partition, Position::default(), 1).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        };
        tokio::time::timeout(profiles::WAIT, connected).await.expect("redis is there");
        Arc::new(log)
    }

    async fn catalog(&self) -> Arc<dyn CatalogStore> {
        Arc::new(RedisCatalog::open(self.redis().await, 0).await)
    }

    async fn increments(&self) -> Arc<dyn IncrementStore> {
        Arc::new(RedisIncrements::new(self.redis().await))
    }

    async fn profiles(&self, clock: Arc<dyn Clock>) -> Arc<dyn ProfileStore> {
        let redis = self.redis().await;
        self.make_accounts(&redis).await;
        let store = RedisProfiles::open(redis, clock, Duration::from_millis(100));
        // Before it is connected it decides on what it remembers, which is nothing. Some of these
        // are on each node of a cluster.
        let connected = async {
            for visitor in 0..32 {
                let nobody = VisitorKey { account: AccountSerial(ACCOUNTS), visitor };
                while !store.read(nobody, 0, profiles::WAIT).await.unwrap().is_certain {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        };
        tokio::time::timeout(profiles::WAIT, connected).await.expect("redis is there");
        Arc::new(store)
    }
}
