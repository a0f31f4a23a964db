//! The door's own schema: its migrations and its statements.

use std::sync::Arc;

use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row, SqlSafeStr, SqlStr};
use time::OffsetDateTime;
use uniqueue::{Result, SchemaName};
use uuid::Uuid;

/// The migrations, in order. The number of applied ones is the version of the schema.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/V1__door.sql")];

/// How often creating the schema is tried, where another process creates it at the same time.
const TRIES: u32 = 5;

/// The door's own tables.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) pool: PgPool,
    qualifier: String,
}

/// A registered cron entry.
pub(crate) struct CronEntry {
    pub(crate) name: String,
    pub(crate) document: Value,
    pub(crate) created_at: OffsetDateTime,
}

/// A workflow as it is stored.
pub(crate) struct Workflow {
    pub(crate) id: Uuid,
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    pub(crate) parts: Value,
    pub(crate) state: String,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) ended_at: Option<OffsetDateTime>,
}

impl Store {
    /// Creates the schema, or brings it to the latest version.
    pub(crate) async fn open(pool: PgPool, schema: &SchemaName) -> Result<Self> {
        let store = Self { pool, qualifier: format!("{}.", schema.quoted()) };
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

    /// Safe to splice: a schema name is checked against an alphabet without quotes.
    fn sql(&self, text: &str) -> SqlStr {
        AssertSqlSafe(Arc::<str>::from(text.replace("/* door */", &self.qualifier))).into_sql_str()
    }

    /// Enters a cron entry. Returns whether the name was free.
    pub(crate) async fn add_cron(&self, tx: &mut PgConnection, name: &str, document: &Value) -> sqlx::Result<bool> {
        let sql = "INSERT INTO /* door */cron (name, document) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let done = sqlx::query(self.sql(sql)).bind(name).bind(document).execute(tx).await?;
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

    pub(crate) async fn add_workflow(&self, tx: &mut PgConnection, workflow: &Workflow) -> sqlx::Result<()> {
        let Workflow { id, kind, name, parts, created_at, .. } = workflow;
        let sql = "INSERT INTO /* door */workflow (id, kind, name, parts, created_at) VALUES ($1, $2, $3, $4, $5)";
        let adding = sqlx::query(self.sql(sql)).bind(id).bind(kind).bind(name).bind(parts).bind(created_at);
        adding.execute(tx).await.map(drop)
    }

    pub(crate) async fn workflow(&self, id: Uuid) -> sqlx::Result<Option<Workflow>> {
        let sql = "SELECT id, kind, name, parts, state, created_at, ended_at FROM /* door */workflow WHERE id = $1";
        let row = sqlx::query(self.sql(sql)).bind(id).fetch_optional(&self.pool).await?;
        row.as_ref().map(workflow).transpose()
    }

    /// The workflows with these ids that exist.
    pub(crate) async fn workflows<'c>(
        &self,
        executor: impl sqlx::PgExecutor<'c>,
        ids: &[Uuid],
    ) -> sqlx::Result<Vec<Workflow>> {
        let sql =
            "SELECT id, kind, name, parts, state, created_at, ended_at FROM /* door */workflow WHERE id = ANY ($1)";
        let rows = sqlx::query(self.sql(sql)).bind(ids).fetch_all(executor).await?;
        rows.iter().map(workflow).collect()
    }

    /// Running workflows in the order of their ids, which follow the time, after an id.
    pub(crate) async fn running_workflows(&self, after: Uuid, most: i64) -> sqlx::Result<Vec<Workflow>> {
        let sql = "SELECT id, kind, name, parts, state, created_at, ended_at FROM /* door */workflow
                   WHERE state = 'running' AND id > $1 ORDER BY id LIMIT $2";
        let rows = sqlx::query(self.sql(sql)).bind(after).bind(most).fetch_all(&self.pool).await?;
        rows.iter().map(workflow).collect()
    }

    /// The newest workflows first.
    pub(crate) async fn newest_workflows(&self, most: i64) -> sqlx::Result<Vec<Workflow>> {
        let sql = "SELECT id, kind, name, parts, state, created_at, ended_at FROM /* door */workflow ORDER BY id DESC LIMIT $1";
        let rows = sqlx::query(self.sql(sql)).bind(most).fetch_all(&self.pool).await?;
        rows.iter().map(workflow).collect()
    }

    /// Notes the end of a running workflow. Returns whether it ran.
    pub(crate) async fn end_workflow(&self, id: Uuid, state: &str) -> sqlx::Result<bool> {
        let sql = "UPDATE /* door */workflow SET state = $2, ended_at = clock_timestamp() WHERE id = $1 AND state = 'running'";
        let done = sqlx::query(self.sql(sql)).bind(id).bind(state).execute(&self.pool).await?;
        Ok(done.rows_affected() == 1)
    }
}

fn cron_entry(row: &PgRow) -> sqlx::Result<CronEntry> {
    Ok(CronEntry { name: row.try_get(0)?, document: row.try_get(1)?, created_at: row.try_get(2)? })
}

fn workflow(row: &PgRow) -> sqlx::Result<Workflow> {
    Ok(Workflow {
        id: row.try_get(0)?,
        kind: row.try_get(1)?,
        name: row.try_get(2)?,
        parts: row.try_get(3)?,
        state: row.try_get(4)?,
        created_at: row.try_get(5)?,
        ended_at: row.try_get(6)?,
    })
}

/// Whether an object is there already, which another process has just made.
fn is_made_already(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| ["23505", "42P06", "42P07", "42710"].contains(&&*code))
}
