//! Runners and their leases.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::Result;
use crate::store::{FOR_EVER, Store, interval, query};
use crate::words::retention::Retention;

/// The queues of a runner with their own retention of completed jobs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct CompletedKept {
    pub(crate) deleting: Vec<String>,
    pub(crate) keeping: Vec<String>,
}

impl CompletedKept {
    fn read(row: &PgRow) -> Result<Self> {
        Ok(Self { deleting: row.try_get("deleting")?, keeping: row.try_get("keeping")? })
    }
}

/// A runner's row.
#[derive(Clone, Debug)]
pub(crate) struct RunnerRow {
    pub(crate) name: String,
    pub(crate) queues: Vec<String>,
    /// For each queue, how many of its jobs it runs at once.
    pub(crate) slots: Vec<i32>,
    /// The kinds that it has a worker for. `None`: any.
    pub(crate) kinds: Option<Vec<String>>,
    pub(crate) retention: Retention,
    /// The periodic jobs that its code defines, each with the digest of its definition.
    pub(crate) periodic: BTreeMap<String, String>,
    /// The kinds that it registered, each with the digest of its definition.
    pub(crate) registered: BTreeMap<String, String>,
    /// The version of the application.
    pub(crate) version: Option<String>,
    /// The name of the machine.
    pub(crate) host: Option<String>,
}

/// How many results were recorded under a runner's lease so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Worked {
    pub(crate) completed: i64,
    pub(crate) failed: i64,
}

impl Store<'_> {
    /// Inserts the row of a runner, with a lease of one term.
    pub(crate) async fn register_runner(self, id: Uuid, runner: &RunnerRow, term: Duration) -> Result<CompletedKept> {
        let RunnerRow { name, queues, slots, kinds, retention, periodic, registered, version, host } = runner;
        let Retention { completed, cancelled, discarded } = retention;
        let keep = |kept: &Option<Duration>| kept.map_or(FOR_EVER, interval);
        let row = query(&self.statements.register_runner)
            .bind(id)
            .bind(name)
            .bind(queues)
            .bind(interval(term))
            .bind(kinds)
            .bind(keep(completed))
            .bind(keep(cancelled))
            .bind(keep(discarded))
            .bind(slots)
            .bind(Json(periodic))
            .bind(Json(registered))
            .bind(version)
            .bind(host)
            .fetch_one(self.connection)
            .await?;
        CompletedKept::read(&row)
    }

    /// Notes that a runner of this version starts. It is called before the runner enters its row, which would be found. A runner that
    /// takes a new lease goes on with its version.
    pub(crate) async fn note_deploy(self, version: &str) -> Result<()> {
        query(&self.statements.note_deploy).bind(version).execute(self.connection).await?;
        Ok(())
    }

    /// Extends a lease by one term, and stores how many results were recorded under it. `None`: the lease is lost.
    pub(crate) async fn extend_lease(self, id: Uuid, term: Duration, worked: Worked) -> Result<Option<CompletedKept>> {
        let query = query(&self.statements.extend_lease).bind(id).bind(interval(term));
        let row = query.bind(worked.completed).bind(worked.failed).fetch_optional(self.connection).await?;
        row.map(|row| CompletedKept::read(&row)).transpose()
    }

    /// Sets whether the runner is idle and listens for wake-ups.
    pub(crate) async fn set_runner_idle(self, id: Uuid, idle: bool) -> Result<()> {
        query(&self.statements.set_runner_idle).bind(id).bind(idle).execute(self.connection).await?;
        Ok(())
    }

    /// Deletes the row of a runner that stopped.
    pub(crate) async fn remove_runner(self, id: Uuid) -> Result<()> {
        query(&self.statements.remove_runner).bind(id).execute(self.connection).await?;
        Ok(())
    }

    /// The names of the live runners.
    pub(crate) async fn live_runners(self) -> Result<Vec<String>> {
        let rows = query(&self.statements.live_runners).fetch_all(self.connection).await?;
        rows.iter().map(|row| Ok(row.try_get("name")?)).collect()
    }
}
