//! The door's own schema: its tables and its statements.

mod event_jobs;
mod workflows;

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryScalar;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, PgConnection, PgExecutor, PgPool, Postgres, SqlSafeStr, SqlStr};
use time::OffsetDateTime;
use uniqueue::{Client, JobId, Result, SchemaName};
use uuid::Uuid;

pub(crate) use self::event_jobs::{EventJob, JobProgress};
pub(crate) use self::workflows::{NEWEST_BUT, OF_IDS, RUNNING_AFTER, Workflow};

/// The door's own tables. A transaction-scoped lock lets one of several processes create them.
const TABLES: &str = include_str!("../../migrations/V1__door.sql");

/// The door's own tables.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) pool: PgPool,
    qualifier: String,
    /// That of the queue's schema.
    queue: String,
}

/// A registered cron entry.
#[derive(Deserialize)]
pub(crate) struct CronEntry {
    pub(crate) name: String,
    pub(crate) document: Box<RawValue>,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) created_at: OffsetDateTime,
}

impl Store {
    /// Creates the schema where it is missing.
    pub(crate) async fn open(client: &Client, schema: &SchemaName) -> Result<Self> {
        let qualifier = |schema: &SchemaName| format!("{}.", schema.quoted());
        let (pool, queue) = (client.pool().clone(), qualifier(client.schema()));
        let store = Self { pool, qualifier: qualifier(schema), queue };
        let mut transaction = store.pool.begin().await?;
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('/* door */', 0))";
        sqlx::raw_sql(store.sql(lock)).execute(&mut *transaction).await?;
        if !is_there(&mut transaction, schema).await? {
            let create = store.sql(&format!("CREATE SCHEMA IF NOT EXISTS {};\n{TABLES}", schema.quoted()));
            sqlx::raw_sql(create).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(store)
    }

    /// The same over the pool of another client.
    pub(crate) fn reading(&self, client: &Client) -> Self {
        Self { pool: client.pool().clone(), ..self.clone() }
    }

    /// A statement with the names of both schemas. Safe to splice: a schema name is checked against an alphabet without quotes.
    fn sql(&self, text: &str) -> SqlStr {
        let text = text.replace("/* door */", &self.qualifier).replace("/* queue */", &self.queue);
        AssertSqlSafe(Arc::<str>::from(text)).into_sql_str()
    }

    /// Enters a cron entry. Returns whether the name was free.
    pub(crate) async fn add_cron(&self, tx: &mut PgConnection, name: &str, document: &RawValue) -> sqlx::Result<bool> {
        let sql = "INSERT INTO /* door */cron (name, document) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        let done = sqlx::query(self.sql(sql)).bind(name).bind(Json(document)).execute(tx).await?;
        Ok(done.rows_affected() == 1)
    }

    pub(crate) async fn remove_cron(&self, tx: &mut PgConnection, name: &str) -> sqlx::Result<Option<CronEntry>> {
        let sql = "DELETE FROM /* door */cron AS c WHERE c.name = $1 RETURNING to_jsonb(c)";
        Ok(read_all(tx, sqlx::query_scalar(self.sql(sql)).bind(name)).await?.pop())
    }

    pub(crate) async fn cron_entries(&self) -> sqlx::Result<Vec<CronEntry>> {
        let sql = "SELECT to_jsonb(c) FROM /* door */cron AS c ORDER BY c.name";
        read_all(&self.pool, sqlx::query_scalar(self.sql(sql))).await
    }

    /// Sets the directive of a worker. `None`: it goes on running.
    pub(crate) async fn set_directive(&self, worker: &str, state: Option<&str>) -> sqlx::Result<()> {
        let sql = match state {
            Some(_) => {
                "INSERT INTO /* door */directive AS d (worker, state) VALUES ($1, $2)
                 ON CONFLICT (worker) DO UPDATE SET state = excluded.state, created_at = clock_timestamp()"
            }
            None => "DELETE FROM /* door */directive WHERE worker = $1 AND $2::text IS NULL",
        };
        sqlx::query(self.sql(sql)).bind(worker).bind(state).execute(&self.pool).await.map(drop)
    }

    pub(crate) async fn directive(&self, worker: &str) -> sqlx::Result<Option<String>> {
        let sql = "SELECT state FROM /* door */directive WHERE worker = $1";
        sqlx::query_scalar(self.sql(sql)).bind(worker).fetch_optional(&self.pool).await
    }
}

/// The rows of a statement, each of which is one JSON document.
async fn read_all<T: DeserializeOwned + Send + Unpin + 'static>(
    executor: impl PgExecutor<'_>,
    statement: QueryScalar<'_, Postgres, Json<T>, PgArguments>,
) -> sqlx::Result<Vec<T>> {
    Ok(statement.fetch_all(executor).await?.into_iter().map(|Json(row)| row).collect())
}

fn uuids(jobs: &[JobId]) -> Vec<Uuid> {
    jobs.iter().map(|job| job.as_uuid()).collect()
}

/// Whether the tables of the door exist. It reads the catalogs: names that the session has cached can be older than the lock.
async fn is_there(connection: &mut PgConnection, schema: &SchemaName) -> sqlx::Result<bool> {
    let exists = "SELECT EXISTS (
         SELECT FROM pg_class AS c INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE n.nspname = $1 AND c.relname = 'workflow'
     )";
    sqlx::query_scalar(exists).bind(schema.as_str()).fetch_one(connection).await
}
