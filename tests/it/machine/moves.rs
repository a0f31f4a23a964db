//! The transitions, by the very statements that runners and maintenance send.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row, SqlSafeStr, SqlStr};
use time::OffsetDateTime;
use uniqueue::JobState;
use uuid::Uuid;

use crate::support::Database;

/// Every statement of a client, and the moves of an operator.
#[derive(Clone, Debug)]
pub(super) struct Moves {
    statements: Arc<HashMap<&'static str, SqlStr>>,
    operate: SqlStr,
    since: SqlStr,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum End {
    Complete,
    CompleteWithOutput,
    Retry { at_once: bool },
    Snooze { at_once: bool },
    GiveBack,
    Cancel,
    Discard,
}

impl End {
    pub(super) const ALL: [Self; 9] = [
        Self::Complete,
        Self::CompleteWithOutput,
        Self::Retry { at_once: true },
        Self::Retry { at_once: false },
        Self::Snooze { at_once: true },
        Self::Snooze { at_once: false },
        Self::GiveBack,
        Self::Cancel,
        Self::Discard,
    ];
}

/// A job in the hands of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) id: Uuid,
    pub(super) attempt: i16,
    pub(super) since: Option<OffsetDateTime>,
}

pub(super) const HOUR: PgInterval = PgInterval { months: 0, days: 0, microseconds: 3_600_000_000 };
/// How long a result waits for a row that somebody has locked.
const PATIENCE: &str = "50ms";

/// The SQLSTATE of a wait that was given up.
const LOCK_TIMEOUT: &str = "55P03";

pub(super) const NOTHING: PgInterval = PgInterval { months: 0, days: 0, microseconds: 0 };

impl Moves {
    pub(super) fn new(database: &Database) -> Self {
        let text = |text: String| AssertSqlSafe(Arc::<str>::from(text)).into_sql_str();
        let statements = database.client.statements_text().into_iter().map(|(name, sql)| (name, text(sql))).collect();
        let since = database.sql("SELECT attempted_at FROM {schema}.job WHERE id = $1");
        Self { statements: Arc::new(statements), operate: database.sql(OPERATE), since }
    }

    pub(super) fn query(&self, name: &str) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(self.statements[name].clone())
    }

    /// Enters a runner that lives long enough.
    pub(super) async fn register(&self, connection: &mut PgConnection) -> sqlx::Result<Uuid> {
        let worker = Uuid::now_v7();
        let queues: Vec<String> = Vec::new();
        let query = self.query("register_runner").bind(worker).bind("machine").bind(&queues).bind(HOUR);
        let query = query.bind(vec!["task"]).bind(HOUR).bind(HOUR).bind(HOUR);
        query.execute(connection).await?;
        Ok(worker)
    }

    /// Takes a runner out, with whatever it still has in its hands.
    pub(super) async fn kill(&self, connection: &mut PgConnection, worker: Uuid) -> sqlx::Result<()> {
        self.query("remove_runner").bind(worker).execute(connection).await?;
        Ok(())
    }

    pub(super) async fn fetch(
        &self,
        connection: &mut PgConnection,
        worker: Uuid,
        queue: &str,
        slots: i32,
    ) -> sqlx::Result<Vec<Held>> {
        let kinds = vec!["task".to_owned()];
        // Each runner looks in one of the three ways that there are: which must make no difference.
        let name = ["fetch", "fetch_queue", "fetch_onward"][(worker.as_u128().count_ones() % 3) as usize];
        let mut query = self.query(name);
        query = query.bind(vec![queue.to_owned()]).bind(vec![slots]).bind(kinds).bind(worker);
        if name == "fetch_onward" {
            // Before all jobs.
            let place = (vec![queue.to_owned()], vec![0_i16], vec![OffsetDateTime::UNIX_EPOCH], vec![Uuid::nil()]);
            query = query.bind(place.0).bind(place.1).bind(place.2).bind(place.3);
        }
        let rows = query.fetch_all(&mut *connection).await?;
        // Beside the jobs may come a row of nulls, which says what the look was.
        let taken = rows.iter().filter_map(|row| row.try_get::<Option<Uuid>, _>("id").transpose().map(|id| (row, id)));
        let mut held = Vec::new();
        for (row, id) in taken {
            let id = id?;
            let since = sqlx::query_scalar(self.since.clone()).bind(id).fetch_optional(&mut *connection).await?;
            held.push(Held { id, attempt: row.try_get("attempt")?, since: since.flatten() });
        }
        Ok(held)
    }

    /// Ends attempts. Answers with the jobs that took the result. As the completer, it lets go of what it has where
    /// a row is locked, and tries again: a batch of inserts that ends expired claims takes rows by their keys, and
    /// would wait for this in a circle.
    pub(super) async fn finish(
        &self,
        connection: &mut PgConnection,
        worker: Uuid,
        ends: &[(Held, End)],
    ) -> sqlx::Result<Vec<Uuid>> {
        loop {
            match self.finish_once(connection, worker, ends).await {
                Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(LOCK_TIMEOUT) => {}
                ended => return ended,
            }
        }
    }

    async fn finish_once(
        &self,
        connection: &mut PgConnection,
        worker: Uuid,
        ends: &[(Held, End)],
    ) -> sqlx::Result<Vec<Uuid>> {
        // As the completer sends them.
        let mut ends = ends.to_vec();
        ends.sort_by_key(|(held, _)| held.id);
        let ids: Vec<_> = ends.iter().map(|(held, _)| held.id).collect();
        let attempts: Vec<_> = ends.iter().map(|(held, _)| held.attempt).collect();
        let rows = if ends.iter().all(|(_, end)| *end == End::Complete) {
            // One number for all, or each its own.
            let same = attempts.first().copied().filter(|first| attempts.iter().all(|attempt| attempt == first));
            let attempts = if same.is_some() { Vec::new() } else { attempts };
            let query = self.query("complete").bind(worker).bind(&ids).bind(same).bind(attempts).bind(PATIENCE);
            let counted: Option<Vec<Uuid>> = query.fetch_one(connection).await?.try_get("counted")?;
            return Ok(counted.unwrap_or(ids));
        } else {
            let wait = |at_once| Some(if at_once { NOTHING } else { HOUR });
            let words = ends.iter().map(|(_, end)| match *end {
                End::Complete => ("complete", None, None, None),
                End::CompleteWithOutput => ("complete", None, None, Some(serde_json::json!({"n": 1}))),
                End::Retry { at_once } => ("retry", wait(at_once), Some("failed"), None),
                End::Snooze { at_once } => ("snooze", wait(at_once), None, None),
                End::GiveBack => ("give_back", None, None, None),
                End::Cancel => ("cancel", None, Some("not wanted"), None),
                End::Discard => ("discard", None, Some("hopeless"), None),
            });
            let (mut outcomes, mut delays, mut errors, mut outputs) = (vec![], vec![], vec![], vec![]);
            for (outcome, delay, error, output) in words {
                outcomes.push(outcome);
                delays.push(delay);
                errors.push(error);
                outputs.push(output);
            }
            let query = self.query("finish").bind(worker).bind(ids).bind(attempts);
            query
                .bind(outcomes)
                .bind(delays)
                .bind(errors)
                .bind(outputs)
                .bind(PATIENCE)
                .bind(vec![None::<serde_json::Value>; ends.len()])
                .bind(ends.iter().map(|(held, _)| held.since).collect::<Vec<_>>())
                .bind(true)
                .fetch_all(connection)
                .await?
        };
        rows.iter().map(|row: &PgRow| row.try_get("id")).collect()
    }

    /// Stores what attempts report of how far they are.
    pub(super) async fn report(&self, connection: &mut PgConnection, worker: Uuid, held: &[Held]) -> sqlx::Result<()> {
        let mut held = held.to_vec();
        held.sort_by_key(|held| held.id);
        let ids: Vec<_> = held.iter().map(|held| held.id).collect();
        let attempts: Vec<_> = held.iter().map(|held| held.attempt).collect();
        let progress = vec![serde_json::json!({"done": 1, "total": 2}); held.len()];
        let query = self.query("store_progress").bind(worker).bind(ids).bind(attempts).bind(progress);
        query.execute(connection).await?;
        Ok(())
    }

    pub(super) async fn promote(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let query = self.query("promote").bind(100_i64).bind(None::<time::OffsetDateTime>);
        let query = query.bind(None::<Vec<Uuid>>).bind(true);
        query.fetch_optional(connection).await?;
        Ok(())
    }

    pub(super) async fn rescue(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        self.query("rescue").bind(100_i64).bind(None::<Vec<Uuid>>).bind(true).fetch_optional(connection).await?;
        Ok(())
    }

    /// Deletes every final job that nobody has locked.
    pub(super) async fn prune(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let query = self.query("prune").bind(Uuid::nil()).bind(Uuid::max()).bind(100_000_i64);
        query.bind(NOTHING).bind(NOTHING).bind(NOTHING).bind(HOUR).fetch_one(connection).await?;
        Ok(())
    }

    /// Moves a job that no worker has to another state, as operators' statements must: what enters
    /// its states yields first, and then takes its claim back if the key is free.
    pub(super) async fn operate(
        &self,
        connection: &mut PgConnection,
        id: Uuid,
        state: JobState,
    ) -> sqlx::Result<Option<String>> {
        let query = sqlx::query(self.operate.clone()).bind(id).bind(state.as_str());
        let row = query.fetch_optional(connection).await?;
        row.map(|row| row.try_get("state")).transpose()
    }
}

const OPERATE: &str = "
WITH moved AS (
    UPDATE {schema}.job AS j
    SET state = $2::{schema}.job_state,
        scheduled_at = CASE WHEN $2 IN ('scheduled', 'retryable') THEN now() + interval '1 hour' ELSE now() END,
        finalized_at = CASE WHEN $2 IN ('completed', 'cancelled', 'discarded') THEN clock_timestamp() END,
        unique_yielded = j.unique_yielded
            OR {schema}.enters_claim(j.unique_states, j.state, $2::{schema}.job_state)
    WHERE j.id = $1 AND j.state <> 'running'
    RETURNING j.id, j.state, j.unique_yielded
),
settled AS MATERIALIZED (
    SELECT coalesce({schema}.take_claims(array_agg(m.id)), '{}') AS discarded
    FROM moved AS m
    WHERE m.unique_yielded
)
SELECT CASE WHEN m.id = ANY (s.discarded) THEN 'discarded' ELSE m.state::text END AS state
FROM moved AS m
CROSS JOIN settled AS s";
