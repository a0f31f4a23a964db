//! The leases of the maintenance services, and the limits of their statements.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Executor, PgConnection, PgPool, Postgres, Row, Transaction};
use uuid::Uuid;

use crate::error::Result;
use crate::store::transaction::statement_timeout;
use crate::store::{Store, interval, milliseconds, query};
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::state::JobState;

/// The limits of a maintenance statement. It takes small batches and skips locked rows, so a statement near these
/// limits is stuck, and the services that share its connection wait. JIT is off, since compiling would cost more than
/// running.
const BOUNDS: &str = "SET statement_timeout = '5s'; SET lock_timeout = '1s'; SET jit = off; SET default_transaction_isolation = 'read committed'";
const BOUNDS_OF_TRANSACTION: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '5s'; SET LOCAL lock_timeout = '1s'; SET LOCAL jit = off";

/// One plan for each statement, independent of the table's size at that moment. A plan that was made for an empty table
/// would read the whole table until the next ANALYZE. `jit = off`, since the cost that `enable_seqscan = off` adds
/// would start the JIT. READ COMMITTED whatever the role's default is: limits are counted in it, and under another level a
/// fetch would fail where two runners meet.
const PLANS: &str = "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off; SET default_transaction_isolation = 'read committed'";

/// Sets, on a connection of the caller's own, that statements are planned once and by index, and their timeout.
pub(crate) async fn plan_by_index(connection: &mut PgConnection, longest: Duration) -> Result<()> {
    let settings = AssertSqlSafe(format!("{PLANS}; SET statement_timeout = {}", statement_timeout(longest)));
    connection.execute(sqlx::raw_sql(settings)).await?;
    Ok(())
}

/// Sets the statement timeout of a connection of the caller's own.
pub(crate) async fn end_after(connection: &mut PgConnection, longest: Duration) -> Result<()> {
    let setting = AssertSqlSafe(format!("SET statement_timeout = {}", statement_timeout(longest)));
    connection.execute(sqlx::raw_sql(setting)).await?;
    Ok(())
}

/// Sets the limits of a maintenance statement on a connection of the caller's own.
pub(crate) async fn bound(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    connection.execute(sqlx::raw_sql(BOUNDS)).await.map(|_| ())
}

/// Begins a transaction with the same limits: behind a pooler the next statement may run in another session.
pub(crate) async fn begin_bounded(pool: &PgPool) -> Result<Transaction<'static, Postgres>> {
    Ok(pool.begin_with(BOUNDS_OF_TRANSACTION).await?)
}

/// A job that a service changed, of which an event tells.
#[derive(Debug, Deserialize)]
pub(crate) struct ChangedJob {
    pub(crate) id: JobId,
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
    /// The attempt that was lost, or the last one.
    pub(crate) attempt: i16,
    pub(crate) state: JobState,
    /// The text of the job's last error.
    pub(crate) error: String,
}

/// The result of a run of a service.
#[derive(Debug)]
pub(crate) struct ServiceRun {
    pub(crate) changed: u64,
    /// The rest before the next run.
    pub(crate) next_in: Duration,
    /// What the next run goes on with.
    pub(crate) state: Value,
    pub(crate) jobs: Vec<ChangedJob>,
    /// Sentences for the log.
    pub(crate) warnings: Vec<String>,
}

impl Store<'_> {
    /// Takes or extends the lease of a service. `None`: the holder has it now. Otherwise the time that another runner still
    /// has it.
    pub(crate) async fn take_service(
        self,
        service: &str,
        holder: Uuid,
        runner: &str,
        term: Duration,
    ) -> Result<Option<Duration>> {
        let row = query(&self.statements.take_service)
            .persistent(false)
            .bind(service)
            .bind(holder)
            .bind(runner)
            .bind(interval(term))
            .fetch_one(self.connection)
            .await?;
        if row.try_get("is_held")? {
            return Ok(None);
        }
        Ok(Some(row.try_get::<Option<i64>, _>("free_in")?.map_or(Duration::ZERO, milliseconds)))
    }

    /// Releases the lease of a service.
    pub(crate) async fn release_service(self, service: &str, holder: Uuid) -> Result<()> {
        query(&self.statements.release_service)
            .persistent(false)
            .bind(service)
            .bind(holder)
            .execute(self.connection)
            .await?;
        Ok(())
    }

    /// Runs a service once. The statements are planned for each call: they are rare, and a plan that was made for a small table
    /// is wrong for a large one.
    pub(crate) async fn run_service(self, service: &str, settings: &Value, state: &Value) -> Result<ServiceRun> {
        let query = query(&self.statements.run_service).persistent(false).bind(service).bind(settings).bind(state);
        let row = query.fetch_one(self.connection).await?;
        Ok(ServiceRun {
            changed: row.try_get::<i64, _>("changed")?.max(0).unsigned_abs(),
            next_in: milliseconds(row.try_get("next_in")?),
            state: row.try_get("state")?,
            jobs: row.try_get::<Json<_>, _>("jobs")?.0,
            warnings: row.try_get::<Json<_>, _>("warnings")?.0,
        })
    }

    /// Releases and cancels the children of all parents that have ended. Returns whether there were any.
    #[cfg(feature = "testing")]
    pub(crate) async fn release_children(self) -> Result<bool> {
        let (settings, mut state) = (serde_json::json!({}), serde_json::json!({}));
        let (mut has_changed, mut idle_runs) = (false, 0);
        // A run that changes no child may have moved edges of a replaced job, which the next run links.
        while idle_runs < 2 {
            let run = self.statements.over(self.connection).run_service("releaser", &settings, &state).await?;
            has_changed |= run.changed > 0;
            idle_runs = if run.changed == 0 && !run.next_in.is_zero() { idle_runs + 1 } else { 0 };
            state = run.state;
        }
        Ok(has_changed)
    }
}
