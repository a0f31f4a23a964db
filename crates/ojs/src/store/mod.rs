//! The door's own schema: its migrations and its statements.

mod event_jobs;
mod workflows;

use std::sync::Arc;

use serde_json::value::RawValue;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row, SqlSafeStr, SqlStr};
use time::OffsetDateTime;
use uniqueue::{Client, Result, SchemaName};

pub(crate) use self::event_jobs::{EventJob, JobProgress};
pub(crate) use self::workflows::Workflow;

/// The migrations, in order. The number of applied ones is the version of the schema.
const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/V1__door.sql")];

/// How often creating the schema is tried, where another process creates it at the same time.
const TRIES: u32 = 5;

/// The door's own tables.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) pool: PgPool,
    qualifier: String,
    /// That of the queue's schema.
    queue: String,
}

/// A registered cron entry.
pub(crate) struct CronEntry {
    pub(crate) name: String,
    pub(crate) document: Box<RawValue>,
    pub(crate) created_at: OffsetDateTime,
}

impl Store {
    /// Creates the schema, or brings it to the latest version.
    pub(crate) async fn open(client: &Client, schema: &SchemaName) -> Result<Self> {
        let qualifier = |schema: &SchemaName| format!("{}.", schema.quoted());
        let (pool, queue) = (client.pool().clone(), qualifier(client.schema()));
        let store = Self { pool, qualifier: qualifier(schema), queue };
        let mut tries = 0;
        loop {
            tries += 1;
            match store.migrate(&schema.quoted()).await {
                // Two processes that create a schema or a table at the same time meet in the catalogs.
                Err(error) if tries < TRIES && is_made_already(&error) => {}
                done => return Ok(done.map(|()| store)?),
            }
        }
    }

    /// The same over the pool of another client.
    pub(crate) fn reading(&self, client: &Client) -> Self {
        Self { pool: client.pool().clone(), ..self.clone() }
    }

    async fn migrate(&self, quoted: &str) -> sqlx::Result<()> {
        let exists = self.sql("SELECT to_regclass('/* door */migration') IS NOT NULL");
        let is_there: bool = sqlx::query_scalar(exists).fetch_one(&self.pool).await?;
        if is_there && self.version(&self.pool).await? == MIGRATIONS.len() {
            return Ok(());
        }
        let mut transaction = self.pool.begin().await?;
        if !is_there {
            let create = format!(
                "CREATE SCHEMA IF NOT EXISTS {quoted};
                 CREATE TABLE IF NOT EXISTS /* door */migration (
                     version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
                 )"
            );
            sqlx::raw_sql(self.sql(&create)).execute(&mut *transaction).await?;
        }
        sqlx::raw_sql(self.sql("LOCK TABLE /* door */migration")).execute(&mut *transaction).await?;
        let applied = self.version(&mut *transaction).await?;
        for (index, text) in MIGRATIONS.iter().enumerate().skip(applied) {
            sqlx::raw_sql(self.sql(text)).execute(&mut *transaction).await?;
            let note = self.sql("INSERT INTO /* door */migration (version) VALUES ($1)");
            sqlx::query(note).bind(i32::try_from(index + 1).unwrap_or(i32::MAX)).execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }

    async fn version<'c>(&self, executor: impl sqlx::PgExecutor<'c>) -> sqlx::Result<usize> {
        let count = self.sql("SELECT count(*) FROM /* door */migration");
        let count: i64 = sqlx::query_scalar(count).fetch_one(executor).await?;
        Ok(usize::try_from(count).unwrap_or_default())
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
        let sql = "DELETE FROM /* door */cron WHERE name = $1 RETURNING name, document, created_at";
        let row = sqlx::query(self.sql(sql)).bind(name).fetch_optional(tx).await?;
        row.as_ref().map(cron_entry).transpose()
    }

    pub(crate) async fn cron_entries(&self) -> sqlx::Result<Vec<CronEntry>> {
        let sql = "SELECT name, document, created_at FROM /* door */cron ORDER BY name";
        let rows = sqlx::query(self.sql(sql)).fetch_all(&self.pool).await?;
        rows.iter().map(cron_entry).collect()
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

fn cron_entry(row: &PgRow) -> sqlx::Result<CronEntry> {
    Ok(CronEntry { name: row.try_get(0)?, document: row.try_get(1)?, created_at: row.try_get(2)? })
}

/// Whether an object is there already, which another process has just made.
fn is_made_already(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| ["23505", "42P06", "42P07", "42710"].contains(&&*code))
}
