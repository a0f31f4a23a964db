//! The transitions, by the very statements that runners and maintenance send.

use sqlx::postgres::PgArguments;
use sqlx::postgres::types::PgInterval;
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Postgres, SqlSafeStr, SqlStr};

use support::prelude::*;
use support::wanted;

/// Every statement of a client, and the moves of an operator.
#[derive(Clone, Debug)]
pub(super) struct Moves {
    statements: Arc<HashMap<&'static str, SqlStr>>,
    operate: SqlStr,
    prune: SqlStr,
    register: SqlStr,
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
    pub(super) run: i32,
}

pub(super) const HOUR: PgInterval = PgInterval { months: 0, days: 0, microseconds: 3_600_000_000 };
/// How long a result waits for a row that another transaction has locked.
const PATIENCE: &str = "50ms";

/// The SQLSTATE of a wait that was given up.
const LOCK_TIMEOUT: &str = "55P03";

pub(super) const NOTHING: PgInterval = PgInterval { months: 0, days: 0, microseconds: 0 };

impl Moves {
    pub(super) fn new(database: &Database) -> Self {
        let text = |text: String| AssertSqlSafe(Arc::<str>::from(text)).into_sql_str();
        let statements = database.client.statements_text().into_iter().map(|(name, sql)| (name, text(sql))).collect();
        Self {
            statements: Arc::new(statements),
            operate: database.sql(OPERATE),
            prune: database.sql(PRUNE),
            register: database.sql(REGISTER),
        }
    }

    pub(super) fn query(&self, name: &str) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(self.statements[name].clone())
    }

    /// Enters a runner that lives long enough.
    pub(super) async fn register(&self, connection: &mut PgConnection) -> sqlx::Result<Uuid> {
        let worker = Uuid::now_v7();
        sqlx::query(self.register.clone()).bind(worker).execute(connection).await?;
        Ok(worker)
    }

    /// Deletes a runner that may still have jobs.
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
        alone: bool,
    ) -> sqlx::Result<Vec<Held>> {
        let kinds = vec!["task".to_owned()];
        // Half of the runners fetch from behind a position before all jobs, which must make no difference.
        let positions = (worker.as_u128().count_ones() % 2) as usize;
        let rows = self
            .query("fetch")
            .bind(worker)
            .bind(Json(serde_json::from_str::<Value>(&wanted(&[(queue, slots.into())])).unwrap()))
            .bind(kinds)
            .bind(if alone { 1 } else { slots })
            .bind(alone)
            .bind(vec![queue.to_owned(); positions])
            .bind(vec![0_i16; positions])
            .bind(vec![OffsetDateTime::UNIX_EPOCH; positions])
            .bind(vec![Uuid::nil(); positions])
            .bind(Value::Null)
            .fetch_all(&mut *connection)
            .await?;
        let facts = rows.iter().find_map(|row| row.try_get::<Option<Json<Value>>, _>("facts").transpose()).unwrap()?;
        // They started, and another job holds their key.
        let discarded: Option<Vec<Uuid>> = serde_json::from_value(facts["discarded"].clone()).unwrap();
        let discarded = discarded.unwrap_or_default();
        let jobs = rows.iter().filter_map(|row| row.try_get::<Option<Uuid>, _>("id").transpose().map(|id| (row, id)));
        let held = jobs.map(|(row, id)| Ok(Held { id: id?, run: row.try_get("run")? }));
        held.filter(|held| held.as_ref().is_ok_and(|held| !discarded.contains(&held.id))).collect()
    }

    /// Ends runs, as the completer does: sorted, with a statement for each way to end. Answers with the jobs whose result
    /// counted. Where a row is locked it lets go of its rows and tries again: a batch of inserts that ends expired claims
    /// takes rows by their keys, and would wait for this in a circle.
    pub(super) async fn finish(
        &self,
        connection: &mut PgConnection,
        worker: Uuid,
        ends: &[(Held, End)],
    ) -> sqlx::Result<Vec<Uuid>> {
        let mut ends = ends.to_vec();
        ends.sort_by_key(|(held, _)| held.id);
        let (completed, others): (Vec<_>, Vec<_>) = ends.into_iter().partition(|(_, end)| *end == End::Complete);
        let mut counted = Vec::new();
        for ends in [completed, others].iter().filter(|ends| !ends.is_empty()) {
            counted.extend(loop {
                match self.finish_once(connection, worker, ends).await {
                    Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(LOCK_TIMEOUT) => {}
                    ended => break ended?,
                }
            });
        }
        Ok(counted)
    }

    /// Ends runs that either all complete without an output, or all end in other ways.
    async fn finish_once(
        &self,
        connection: &mut PgConnection,
        worker: Uuid,
        ends: &[(Held, End)],
    ) -> sqlx::Result<Vec<Uuid>> {
        let (ids, runs): (Vec<_>, Vec<_>) = ends.iter().map(|(held, _)| (held.id, held.run)).unzip();
        let are_bare = ends.iter().all(|(_, end)| *end == End::Complete);
        let query = self.query(if are_bare { "complete" } else { "finish" });
        let mut query = query.bind(worker).bind(PATIENCE).bind(ids).bind(runs);
        if !are_bare {
            let wait = |at_once| Some(if at_once { NOTHING } else { HOUR });
            let (mut outcomes, mut delays, mut errors, mut outputs) = (vec![], vec![], vec![], vec![]);
            for (_, end) in ends {
                let (outcome, delay, error, output) = match *end {
                    End::Complete => ("complete", None, None, None),
                    End::CompleteWithOutput => ("complete", None, None, Some(serde_json::json!({"n": 1}))),
                    End::Retry { at_once } => ("retry", wait(at_once), Some("failed"), None),
                    End::Snooze { at_once } => ("snooze", wait(at_once), None, None),
                    End::GiveBack => ("give_back", None, None, None),
                    End::Cancel => ("cancel", None, Some("not wanted"), None),
                    End::Discard => ("discard", None, Some("hopeless"), None),
                };
                outcomes.push(outcome);
                delays.push(delay);
                errors.push(error);
                outputs.push(output);
            }
            let nothing = vec![None::<serde_json::Value>; ends.len()];
            query = query.bind(outcomes).bind(delays).bind(errors).bind(outputs).bind(nothing.clone()).bind(nothing);
        }
        let rows = query.fetch_all(connection).await?;
        let counted = rows.iter().map(|row: &PgRow| row.try_get::<Vec<Uuid>, _>("ids"));
        Ok(counted.collect::<sqlx::Result<Vec<_>>>()?.concat())
    }

    /// Stores what runs report of their progress.
    pub(super) async fn report(&self, connection: &mut PgConnection, worker: Uuid, held: &[Held]) -> sqlx::Result<()> {
        let mut held = held.to_vec();
        held.sort_by_key(|held| held.id);
        let ids: Vec<_> = held.iter().map(|held| held.id).collect();
        let runs: Vec<_> = held.iter().map(|held| held.run).collect();
        let progress = vec![serde_json::json!({"done": 1, "total": 2}); held.len()];
        let query = self.query("store_progress").bind(worker).bind(ids).bind(runs).bind(progress);
        query.execute(connection).await?;
        Ok(())
    }

    pub(super) async fn promote(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        self.run_service(connection, "promoter").await
    }

    pub(super) async fn rescue(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        self.run_service(connection, "rescuer").await
    }

    async fn run_service(&self, connection: &mut PgConnection, service: &str) -> sqlx::Result<()> {
        let nothing = serde_json::json!({});
        self.query("run_service").bind(service).bind(&nothing).bind(&nothing).fetch_one(connection).await?;
        Ok(())
    }

    /// Deletes every final job that is not locked.
    pub(super) async fn prune(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        sqlx::query(self.prune.clone()).fetch_one(connection).await?;
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

const REGISTER: &str = "INSERT INTO {schema}.runner (id, name, queues, leased_until, knows_groups)
    VALUES ($1, 'machine', '{}', now() + interval '1 hour', true)";

const PRUNE: &str =
    "SELECT FROM {schema}._prune_jobs({schema}.id_at('-infinity'), 'ffffffff-ffff-ffff-ffff-ffffffffffff',
    100000, '0', '0', '0', '1 hour')";

const OPERATE: &str = "
WITH moved AS (
    UPDATE {schema}.job AS j
    SET state = $2::{schema}.job_state,
        scheduled_at = CASE WHEN $2 IN ('scheduled', 'retryable') THEN now() + interval '1 hour' ELSE now() END,
        finalized_at = CASE WHEN $2 IN ('completed', 'cancelled', 'discarded') THEN clock_timestamp() END,
        unique_yielded = j.unique_yielded
            OR {schema}._enters_claim(j.unique_states, j.state, $2::{schema}.job_state)
    WHERE j.id = $1 AND j.state <> 'running'
    RETURNING j.id, j.state, j.unique_yielded
),
settled AS MATERIALIZED (
    SELECT coalesce({schema}._take_claims(array_agg(m.id)), '{}') AS discarded
    FROM moved AS m
    WHERE m.unique_yielded
)
SELECT CASE WHEN m.id = ANY (s.discarded) THEN 'discarded' ELSE m.state::text END AS state
FROM moved AS m
CROSS JOIN settled AS s";
