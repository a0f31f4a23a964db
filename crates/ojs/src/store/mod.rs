//! The door's own schema: its tables and its statements.

mod event_jobs;
mod workflows;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use sqlx::{AssertSqlSafe, PgConnection};
use time::OffsetDateTime;
use uniqueue::{Call, Client, Result, SchemaName};
use uniqueue_admin::statement::rows;

pub(crate) use self::event_jobs::{EventJob, JobProgress};
pub(crate) use self::workflows::{NEWEST, OF_IDS, RUNNING_AFTER, Successor, Workflow};

/// The door's own tables. A transaction-scoped lock lets one of several processes create them.
const TABLES: &str = include_str!("../../migrations/V1__door.sql");

/// The door's own tables.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    client: Client,
    qualifier: String,
}

/// A registered cron entry.
#[derive(Deserialize)]
pub(crate) struct CronEntry {
    pub(crate) name: String,
    pub(crate) document: Box<RawValue>,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) created_at: OffsetDateTime,
}

/// The directive of a worker.
#[derive(Deserialize)]
struct Directive {
    state: String,
}

impl Store {
    /// Creates the schema where it is missing.
    pub(crate) async fn open(client: &Client, schema: &SchemaName) -> Result<Self> {
        let store = Self { client: client.clone(), qualifier: format!("{}.", schema.quoted()) };
        let mut transaction = client.pool().begin().await?;
        let lock = store.sql("SELECT pg_advisory_xact_lock(hashtextextended('/* door */', 0))");
        sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *transaction).await?;
        if !is_there(&mut transaction, schema).await? {
            let create = store.sql(&format!("CREATE SCHEMA IF NOT EXISTS {};\n{TABLES}", schema.quoted()));
            sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(store)
    }

    /// The same over the pool of another client.
    pub(crate) fn reading(&self, client: &Client) -> Self {
        Self { client: client.clone(), ..self.clone() }
    }

    /// A statement with the name of the door's schema. Safe to splice: a schema name is checked against an alphabet without quotes.
    fn sql(&self, text: &str) -> String {
        text.replace("/* door */", &self.qualifier)
    }

    /// A call of a statement, whose rows are JSON objects. The marker `/* door */` before a name becomes the door's schema, and
    /// `/* schema */` the queue's.
    fn call<T>(&self, statement: &str, arguments: impl Serialize + Send + Sync + 'static) -> Call<'_, Vec<T>>
    where
        T: DeserializeOwned + Send + Unpin + 'static,
    {
        let statement = self.sql(statement);
        Call::new(&self.client, move |client, connection| {
            Box::pin(async move { rows(client, connection, &statement, &arguments).await })
        })
    }

    /// Enters a cron entry. Returns none if the name is taken.
    pub(crate) fn add_cron(&self, name: &str, document: Box<RawValue>) -> Call<'_, Vec<CronEntry>> {
        let sql = "INSERT INTO /* door */cron AS c (name, document) VALUES ($1::jsonb ->> 0, $1::jsonb -> 1)
                   ON CONFLICT (name) DO NOTHING RETURNING c.*";
        self.call(sql, (name.to_owned(), document))
    }

    pub(crate) fn remove_cron(&self, name: &str) -> Call<'_, Vec<CronEntry>> {
        let sql = "DELETE FROM /* door */cron AS c WHERE c.name = $1::jsonb ->> 'name' RETURNING c.*";
        self.call(sql, json!({ "name": name }))
    }

    pub(crate) fn cron_entries(&self) -> Call<'_, Vec<CronEntry>> {
        self.call("SELECT c.* FROM /* door */cron AS c ORDER BY c.name", json!({}))
    }

    /// Sets the directive of a worker. `None`: it goes on running.
    pub(crate) fn set_directive(&self, worker: &str, state: Option<&str>) -> Call<'_, Vec<IgnoredAny>> {
        let sql = match state {
            Some(_) => {
                "INSERT INTO /* door */directive AS d (worker, state)
                 VALUES ($1::jsonb ->> 'worker', $1::jsonb ->> 'state')
                 ON CONFLICT (worker) DO UPDATE SET state = excluded.state, created_at = clock_timestamp() RETURNING worker"
            }
            None => "DELETE FROM /* door */directive WHERE worker = $1::jsonb ->> 'worker' RETURNING worker",
        };
        self.call(sql, json!({ "worker": worker, "state": state }))
    }

    pub(crate) async fn directive(&self, worker: &str) -> Result<Option<String>> {
        let sql = "SELECT d.state FROM /* door */directive AS d WHERE d.worker = $1::jsonb ->> 'worker'";
        let found = self.call::<Directive>(sql, json!({ "worker": worker })).await?.pop();
        Ok(found.map(|directive| directive.state))
    }
}

/// Whether the tables of the door exist. It reads the catalogs: names that the session has cached can be older than the lock.
async fn is_there(connection: &mut PgConnection, schema: &SchemaName) -> sqlx::Result<bool> {
    let exists = "SELECT EXISTS (
         SELECT FROM pg_class AS c INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE n.nspname = $1 AND c.relname = 'workflow'
     )";
    sqlx::query_scalar(exists).bind(schema.as_str()).fetch_one(connection).await
}
