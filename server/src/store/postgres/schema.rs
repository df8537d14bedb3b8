//! The tables: made and changed by the program itself, in the schema `slotwise`.

use tokio_postgres::Client;

use super::failed;
use super::link::Part;
use crate::ports::StoreError;

/// Held while the tables are looked at and changed, by whichever node comes first: "slotwise".
const LOCK: i64 = 0x736c_6f74_7769_7365;

/// Each is done once, in a transaction of its own. Ids and positions are `uuid`s, which are 16
/// bytes, compared byte by byte. Ids are deleted all the time, so their tables are vacuumed when a
/// fiftieth of them is gone.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE counters (name text PRIMARY KEY, called_us bigint NOT NULL);
    CREATE TABLE partitions (
        partition smallint PRIMARY KEY, epoch bigint NOT NULL, counter text,
        position uuid NOT NULL, promised_us bigint NOT NULL
    ) WITH (fillfactor = 50);
    CREATE TABLE ids (
        partition smallint NOT NULL, id uuid NOT NULL, counted_min integer NOT NULL,
        PRIMARY KEY (partition, id)
    ) WITH (autovacuum_vacuum_scale_factor = 0.02);
    CREATE TABLE conversion_ids (
        partition smallint NOT NULL, id uuid NOT NULL, counted_min integer NOT NULL,
        PRIMARY KEY (partition, id)
    ) WITH (autovacuum_vacuum_scale_factor = 0.02);
    CREATE TABLE replayed_ids (
        partition smallint NOT NULL, id uuid NOT NULL, counted_min integer NOT NULL,
        PRIMARY KEY (partition, id)
    );
    CREATE TABLE minutes (
        account bigint NOT NULL, minute integer NOT NULL, ad bigint NOT NULL,
        partition smallint NOT NULL,
        impressions bigint NOT NULL, clicks bigint NOT NULL, conversions bigint NOT NULL,
        spend_nanos bigint NOT NULL,
        PRIMARY KEY (account, minute, ad, partition)
    ) WITH (fillfactor = 70);
    CREATE TABLE late (LIKE minutes INCLUDING ALL) WITH (fillfactor = 70);
    CREATE TABLE quarters (
        account bigint NOT NULL, quarter integer NOT NULL, zone bigint NOT NULL,
        ad bigint NOT NULL, partition smallint NOT NULL,
        impressions bigint NOT NULL, clicks bigint NOT NULL, conversions bigint NOT NULL,
        spend_nanos bigint NOT NULL,
        PRIMARY KEY (account, quarter, zone, ad, partition)
    ) WITH (fillfactor = 70);
    CREATE TABLE hot_ads (
        ad bigint NOT NULL, from_ms bigint NOT NULL, until_ms bigint NOT NULL,
        PRIMARY KEY (ad, from_ms)
    );
    CREATE TABLE layout (server integer NOT NULL, servers integer NOT NULL);
"];

/// Makes what is missing, and checks that the server keeps the partitions that are `part`'s.
pub(super) async fn bring_up(client: &mut Client, part: Part) -> Result<(), StoreError> {
    let tx = client.transaction().await.map_err(failed)?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(failed)?;
    // Whoever may use the schema need not be allowed to make it.
    let is_there = tx.query_one("SELECT to_regnamespace('slotwise') IS NOT NULL", &[]).await;
    if !is_there.map_err(failed)?.get::<_, bool>(0) {
        tx.batch_execute("CREATE SCHEMA slotwise").await.map_err(failed)?;
    }
    let is_there = tx.query_one("SELECT to_regclass('slotwise.schema_version') IS NOT NULL", &[]);
    if !is_there.await.map_err(failed)?.get::<_, bool>(0) {
        let sql = "CREATE TABLE slotwise.schema_version (version integer NOT NULL);
                   INSERT INTO slotwise.schema_version VALUES (0)";
        tx.batch_execute(sql).await.map_err(failed)?;
    }
    let version = tx.query_one("SELECT version FROM slotwise.schema_version", &[]).await;
    let version: i32 = version.map_err(failed)?.get(0);
    let done = usize::try_from(version).unwrap_or(0);
    if done > MIGRATIONS.len() {
        return Err(StoreError::Unavailable(format!(
            "the counts were written by a newer slotwise (schema {done}; this one knows {})",
            MIGRATIONS.len()
        )));
    }
    for sql in &MIGRATIONS[done..] {
        tx.batch_execute(sql).await.map_err(failed)?;
    }
    let newest = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    if newest != version {
        let sql = "UPDATE slotwise.schema_version SET version = $1";
        tx.execute(sql, &[&newest]).await.map_err(failed)?;
    }
    take_part(&tx, part).await?;
    tx.commit().await.map_err(failed)
}

/// A partition that moved to another server would be counted there from its beginning.
async fn take_part(tx: &tokio_postgres::Transaction<'_>, part: Part) -> Result<(), StoreError> {
    let layout = tx.query_opt("SELECT server, servers FROM layout", &[]).await.map_err(failed)?;
    let Some(layout) = layout else {
        let sql = "INSERT INTO layout VALUES ($1, $2)";
        tx.execute(sql, &[&part.server, &part.servers]).await.map_err(failed)?;
        let sql = "INSERT INTO partitions
                    SELECT p, 0, NULL, '00000000-0000-0000-0000-000000000000', $2
                    FROM unnest($1::smallint[]) AS p";
        tx.execute(sql, &[&part.partitions(), &i64::MIN]).await.map_err(failed)?;
        return Ok(());
    };
    let found: (i32, i32) = (layout.get(0), layout.get(1));
    if found != (part.server, part.servers) {
        return Err(StoreError::Unavailable(format!(
            "this server of the counts was number {} of {} and is named as number {} of {}: \
             keep the servers and their order",
            found.0 + 1,
            found.1,
            part.server + 1,
            part.servers
        )));
    }
    Ok(())
}
