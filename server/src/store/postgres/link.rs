//! Connections to one server: made when they are needed, dropped after any error.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::{failed, schema};
use crate::events::Partition;
use crate::limits::{POSTGRES_CONNECT_MAX, POSTGRES_READ_MAX, POSTGRES_SILENCE_MAX};
use crate::ports::StoreError;

/// Connections that count: partitions share them, and each does one transaction at a time.
const COUNTING: usize = 4;

/// What a connection is for, so that none waits for another's work.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lane {
    /// Counting a partition.
    Count(Partition),
    /// Claims and the hot list.
    Manage,
    /// Reports.
    Read,
}

/// Which of several servers this is, from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) server: i32,
    pub(super) servers: i32,
}

/// One server.
pub(super) struct Link {
    config: Config,
    part: Part,
    lanes: [Mutex<Option<Connected>>; COUNTING + 2],
}

/// A connection, with the statements that were prepared on it.
pub(super) struct Connected {
    pub(super) client: Client,
    statements: HashMap<String, Statement>,
}

/// A connection for the time of some work.
pub(super) struct Held<'l>(MutexGuard<'l, Option<Connected>>);

impl Part {
    /// The partitions that this server keeps.
    pub(super) fn partitions(self) -> Vec<i16> {
        let mine = |partition: &i16| i32::from(*partition) % self.servers == self.server;
        Partition::all().map(|partition| i16::from(partition.0)).filter(mine).collect()
    }
}

impl Link {
    pub(super) fn new(mut config: Config, part: Part) -> Self {
        // What the URL says of these is kept, where it says something.
        if config.get_application_name().is_none() {
            config.application_name("slotwise");
        }
        config
            .keepalives(true)
            .keepalives_idle(POSTGRES_SILENCE_MAX / 2)
            .keepalives_interval(POSTGRES_SILENCE_MAX / 8)
            .keepalives_retries(4)
            .tcp_user_timeout(POSTGRES_SILENCE_MAX)
            .connect_timeout(POSTGRES_CONNECT_MAX);
        Self { config, part, lanes: Default::default() }
    }

    /// The connection of `lane`, once whoever has it is done; made anew where it is gone.
    pub(super) async fn take(&self, lane: Lane) -> Result<Held<'_>, StoreError> {
        let at = match lane {
            Lane::Count(partition) => usize::from(partition.0) % COUNTING,
            Lane::Manage => COUNTING,
            Lane::Read => COUNTING + 1,
        };
        let mut held = self.lanes[at].lock().await;
        if held.as_ref().is_none_or(|connected| connected.client.is_closed()) {
            *held = None;
            // Nothing has been asked for yet, so this can be called off.
            let connecting = tokio::time::timeout(POSTGRES_CONNECT_MAX, self.connect(lane));
            let late = || StoreError::Unavailable("postgres: no connection in time".into());
            *held = Some(connecting.await.unwrap_or_else(|_| Err(late()))?);
        }
        Ok(Held(held))
    }

    async fn connect(&self, lane: Lane) -> Result<Connected, StoreError> {
        let (mut client, connection) = self.config.connect(NoTls).await.map_err(failed)?;
        // It ends with the client. What goes wrong is told to whoever waits for a reply.
        tokio::spawn(connection);
        let read_max = match lane {
            Lane::Read => POSTGRES_READ_MAX,
            Lane::Count(_) | Lane::Manage => Duration::ZERO,
        };
        // A transaction whose counter has gone without a word holds its partition so long.
        let sql = format!(
            "SET search_path TO slotwise; SET synchronous_commit TO on;
             SET default_transaction_isolation TO 'read committed';
             SET idle_in_transaction_session_timeout TO {};
             SET statement_timeout TO {}",
            POSTGRES_SILENCE_MAX.as_millis(),
            read_max.as_millis()
        );
        client.batch_execute(&sql).await.map_err(failed)?;
        schema::bring_up(&mut client, self.part).await?;
        Ok(Connected { client, statements: HashMap::new() })
    }
}

impl Connected {
    /// `sql`, prepared once for each connection.
    pub(super) async fn statement(&mut self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await.map_err(failed)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl Held<'_> {
    /// The connection itself.
    pub(super) fn get(&mut self) -> Result<&mut Connected, StoreError> {
        self.0.as_mut().ok_or_else(|| StoreError::Unavailable("postgres: not connected".into()))
    }

    /// Says how the work went: after an error nobody knows in which state the connection is.
    pub(super) fn done<T, E>(&mut self, result: &Result<T, E>, is_sound: impl Fn(&E) -> bool) {
        if result.as_ref().is_err_and(|error| !is_sound(error)) {
            *self.0 = None;
        }
    }
}
