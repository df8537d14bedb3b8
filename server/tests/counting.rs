//! Counting: what every store of counts must do, over SQLite, one PostgreSQL and two of them; and
//! what the job makes of a log.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "these functions are tests: they stop where something is not as promised"
)]

use std::sync::Arc;

use slotwise_server::ports::CountStore;
use slotwise_server::store::embedded::EmbeddedCounts;
use slotwise_server::store::postgres::PostgresCounts;

#[path = "support/memory_log.rs"]
mod memory_log;
#[path = "support/postgres.rs"]
mod postgres_server;

#[path = "counting/claims.rs"]
mod claims;
#[path = "counting/job.rs"]
mod job;
#[path = "counting/model.rs"]
mod model;
#[path = "counting/reads.rs"]
mod reads;
#[path = "counting/steps.rs"]
mod steps;
#[path = "counting/sweeps.rs"]
mod sweeps;

use postgres_server::PostgresServer;

/// One place to keep counts, empty at first, that is opened again and again.
trait Harness: Sync {
    /// What an earlier opening acknowledged is there.
    fn open(&self) -> Arc<dyn CountStore>;

    /// Counters that have said nothing since now are those that have gone: where the store goes
    /// by a clock of its own, by six seconds of that.
    fn six_seconds_pass(&self);
}

/// Makes one test of each function, over a fresh harness.
macro_rules! suite {
    ($name:ident, $harness:expr) => {
        suite!($name, $harness,
            steps {
                a_step_is_counted_once
                what_was_counted_is_a_repeat
                of_two_with_one_id_the_first_counts
                events_that_differ_in_their_token_only_are_two
                late_ones_are_beside_their_minute
                a_step_from_elsewhere_changes_nothing
                a_sum_that_does_not_fit_changes_nothing
                a_step_without_events_moves_the_promise
                partitions_count_at_once
                everything_counted_survives_reopening
                the_largest_serials_and_money_come_back
            }
            claims {
                counters_share_the_partitions
                a_counter_that_is_silent_loses_its_partitions
                a_counter_that_stops_leaves_at_once
                whoever_lost_a_partition_is_fenced
                a_renewal_keeps_the_epochs
            }
            reads {
                an_empty_store_has_nothing
                minutes_are_cut_where_asked
                minutes_of_some_ads
                accounts_are_apart
                pairs_are_cut_at_quarters
                a_minute_is_the_sum_of_its_partitions
                the_slowest_partition_promises
                the_hot_list
            }
            sweeps {
                ids_are_forgotten_after_their_life
                a_sweep_goes_in_steps
                lines_of_files_are_remembered_for_good
            }
        );
    };
    ($name:ident, $harness:expr, $($of:ident { $($test:ident)* })*) => {
        mod $name {
            $(mod $of {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    crate::$of::$test(&$harness).await;
                })*
            })*
        }
    };
}

suite!(embedded, crate::Embedded::default());
suite!(postgres, crate::OnPostgres::on(1));
suite!(postgres_spread, crate::OnPostgres::on(3));

struct Embedded(tempfile::TempDir);

impl Default for Embedded {
    fn default() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Harness for Embedded {
    fn open(&self) -> Arc<dyn CountStore> {
        Arc::new(EmbeddedCounts::open(self.0.path()).unwrap())
    }

    // The tests' own clock says it.
    fn six_seconds_pass(&self) {}
}

struct OnPostgres {
    server: Arc<PostgresServer>,
    urls: Vec<String>,
}

impl OnPostgres {
    /// Databases of one server stand for servers.
    fn on(servers: usize) -> Self {
        let server = PostgresServer::shared();
        let urls = (0..servers).map(|_| server.database()).collect();
        Self { server, urls }
    }
}

impl Harness for OnPostgres {
    fn open(&self) -> Arc<dyn CountStore> {
        let servers = self.urls.iter().map(|url| url.parse().unwrap()).collect();
        Arc::new(PostgresCounts::new(servers).unwrap())
    }

    fn six_seconds_pass(&self) {
        for url in &self.urls {
            let database = url.rsplit_once('/').unwrap().1;
            let sql = "UPDATE slotwise.counters SET called_us = called_us - 6000000";
            self.server.psql(database, sql).unwrap();
        }
    }
}
