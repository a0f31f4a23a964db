//! What the tests share: a schema of its own for every test, on one embedded cluster for the whole run.
//!
//! A few tests share a database. PostgreSQL looks at every function of a name, whatever its schema, before it calls
//! one: hundreds of migrated schemas in one database make each session several times slower.

#![allow(missing_docs, clippy::expect_used, clippy::missing_panics_doc, clippy::panic, clippy::unwrap_used)]

pub mod bouncer;
mod catalog;
pub mod clients;
pub mod cluster;
pub mod dice;
mod eventually;
mod frames;
mod keeper;
mod log;
pub mod mutations;
pub mod odd;
pub mod process;
pub mod proxy;
mod seen;
pub mod server;
mod statements;
pub mod tools;
pub mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Row, SqlSafeStr, SqlStr};
use tokio::sync::{Mutex, OnceCell};
use uniqueue::embedded::Postgres;
use uniqueue::{Client, Job, JobId, JobRow, JobState, NewJob, RetryPolicy, Runner, SchemaName};

pub use eventually::{HANGS, block, pause};
pub use log::log_as;
pub use seen::{Trace, attribute};
pub use statements::{counting_statements, statements_of, until_sent};

/// The longest that a test waits for something that should happen at once.
pub const WAIT: Duration = Duration::from_secs(20);

static CLUSTER: OnceCell<Postgres> = OnceCell::const_new();
static NEXT_SCHEMA: AtomicU32 = AtomicU32::new(1);

/// An object and an array, as `jsonb` stores them, each with a member that has no valid type.
const DAMAGED_OBJECT: &str = "'\\x0100002001000080070000506100000000000000'";
const DAMAGED_ARRAY: &str = "'\\x01000040040000d000000000'";

/// How many tests share a database.
const SCHEMAS: u32 = 16;

/// The URL of the database for the next tests, and how many more it takes.
static NEXT_DATABASE: Mutex<(String, u32)> = Mutex::const_new((String::new(), 0));

/// The URL of the run's cluster, which is started by the first test that asks.
pub async fn url() -> &'static str {
    let cluster = CLUSTER
        .get_or_init(async || Postgres::builder().max_connections(400).start().await.expect("an embedded PostgreSQL"));
    cluster.await.url()
}

/// The URL of a database that has room for one more schema.
async fn database_url() -> String {
    let mut next = NEXT_DATABASE.lock().await;
    let (database_url, room) = &mut *next;
    if *room == 0 {
        *database_url = create_database("shared").await;
        *room = SCHEMAS;
    }
    *room -= 1;
    database_url.clone()
}

/// Makes a database. Answers with its URL.
async fn create_database(purpose: &str) -> String {
    let name = format!("{purpose}_{}", NEXT_SCHEMA.fetch_add(1, Ordering::Relaxed));
    let mut connection = PgConnection::connect(url().await).await.expect("a connection");
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await.expect(&name);
    url().await.replace("/postgres?", &format!("/{name}?"))
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "task")]
pub struct Task {
    pub n: u32,
}

/// A runner that loses no time.
pub fn quick(client: &Client) -> Runner {
    Runner::new(client.clone())
        .queue("default", 10)
        .retry_policy(RetryPolicy::fixed(Duration::ZERO))
        .promote_interval(Duration::from_millis(20))
}

/// A migrated schema of the test's own, and a client for it.
pub struct Database {
    pub client: Client,
    pub schema: String,
    /// Where the schema is.
    pub url: String,
}

impl Database {
    pub async fn new() -> Self {
        Self::with_connections(20).await
    }

    pub async fn with_connections(max_connections: u32) -> Self {
        let database = Self::unmigrated(max_connections).await;
        database.client.migrate().await.expect("a migration");
        database
    }

    /// In a database that no other test shares. There a snapshot of another test keeps no dead row from being pruned.
    pub async fn alone(max_connections: u32) -> Self {
        let database = Self::at(create_database("alone").await, max_connections, |options| options).await;
        database.client.migrate().await.expect("a migration");
        database
    }

    /// In a database of its own with this ICU locale. None, which is told, where the server cannot make one: PostgreSQL 14,
    /// or one built without ICU.
    pub async fn of_locale(locale: &str) -> Option<Self> {
        let name = format!("icu_{}", NEXT_SCHEMA.fetch_add(1, Ordering::Relaxed));
        let mut connection = PgConnection::connect(url().await).await.expect("a connection");
        let has_icu = "SELECT current_setting('server_version_num')::integer >= 150000
            AND EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i') AS has_icu";
        if !sqlx::query(has_icu).fetch_one(&mut connection).await.expect("a row").get::<bool, _>(0) {
            tools::lacks("icu", "PostgreSQL 15 or newer, built with ICU");
            return None;
        }
        let create =
            format!("CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE '{locale}' LOCALE 'C'");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await.expect(locale);
        let url = url().await.replace("/postgres?", &format!("/{name}?"));
        let database = Self::at(url, 5, |options| options).await;
        database.client.migrate().await.expect("a migration");
        Some(database)
    }

    pub async fn unmigrated(max_connections: u32) -> Self {
        Self::with_options(max_connections, |options| options).await
    }

    /// For crowds that meet in cycles which they end by themselves within milliseconds: a machine that stands
    /// still for a second must not pass for a deadlock. A real one is still found, only later.
    pub async fn slow_to_see_deadlocks(max_connections: u32) -> Self {
        let patient = [("deadlock_timeout", "10s")];
        let database = Self::with_options(max_connections, |options| options.options(patient)).await;
        database.client.migrate().await.expect("a migration");
        database
    }

    async fn with_options(max_connections: u32, with: impl FnOnce(PgConnectOptions) -> PgConnectOptions) -> Self {
        Self::at(database_url().await, max_connections, with).await
    }

    async fn at(url: String, max_connections: u32, with: impl FnOnce(PgConnectOptions) -> PgConnectOptions) -> Self {
        let pool = pool_at(&url, max_connections, with).await;
        let schema = format!("test_{}", NEXT_SCHEMA.fetch_add(1, Ordering::Relaxed));
        let name = SchemaName::new(&schema).expect("a schema name");
        Self { client: Client::builder().schema(name).pool(pool), schema, url }
    }

    pub fn pool(&self) -> &PgPool {
        self.client.pool()
    }

    /// A pool beside the client's.
    pub async fn another_pool(&self, max_connections: u32) -> PgPool {
        pool_at(&self.url, max_connections, |options| options).await
    }

    /// Puts the schema in place of `{schema}`.
    pub fn sql(&self, text: &str) -> SqlStr {
        AssertSqlSafe(Arc::<str>::from(text.replace("{schema}", &self.schema))).into_sql_str()
    }

    /// Prepares one of the client's statements for `EXECUTE prepared_NAME (…)`.
    pub async fn prepare(&self, connection: &mut PgConnection, name: &str) {
        let statements = self.client.statements_text();
        let (_, text) = statements.iter().find(|(known, _)| *known == name).expect(name);
        let prepare = AssertSqlSafe(format!("PREPARE prepared_{name} AS {text}"));
        sqlx::raw_sql(prepare).execute(connection).await.expect(name);
    }

    pub async fn execute(&self, text: &str) -> u64 {
        sqlx::query(self.sql(text)).execute(self.pool()).await.expect(text).rows_affected()
    }

    pub async fn number(&self, text: &str) -> i64 {
        let row = sqlx::query(self.sql(text)).fetch_one(self.pool()).await.expect(text);
        row.try_get(0).expect(text)
    }

    /// Waits until a query counts so many.
    pub async fn until(&self, query: &str, wanted: i64) {
        eventually!(let counted = self.number(query).await; counted == wanted, "{counted}, not {wanted}: {query}");
    }

    /// Waits until a job is in a state.
    pub async fn until_state(&self, id: JobId, state: JobState) -> JobRow {
        eventually!(
            let row = self.client.job(id).await.expect("an answer").expect("the job");
            row.state == state, "job {id} is {}, not {state}: {:?}", row.state, row.errors
        )
    }

    pub async fn text(&self, text: &str) -> String {
        let row = sqlx::query(self.sql(text)).fetch_one(self.pool()).await.expect(text);
        row.try_get(0).expect(text)
    }

    /// Damages a value of a job, as a disk error does: to read it is an error.
    pub async fn damage(&self, id: JobId, column: &str) {
        // Lets a test write the bytes of a value.
        let cast = "DO $$ BEGIN
                CREATE CAST (bytea AS jsonb) WITHOUT FUNCTION;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END $$";
        self.execute(cast).await;
        let value = if column == "errors" { DAMAGED_ARRAY } else { DAMAGED_OBJECT };
        let update = format!("UPDATE {{schema}}.job SET {column} = {value}::bytea::jsonb WHERE id = '{id}'");
        assert_eq!(self.execute(&update).await, 1);
    }

    /// Moves a job to a state, as a worker or an operator would leave it.
    pub async fn set_state(&self, id: JobId, state: &str) {
        let changed = self
            .execute(&format!(
                "UPDATE {{schema}}.job SET state = '{state}',
                    worker = CASE WHEN '{state}' = 'running' THEN gen_random_uuid() END,
                    finalized_at = CASE WHEN '{state}' IN ('completed', 'cancelled', 'discarded') THEN now() END
                 WHERE id = '{id}'"
            ))
            .await;
        assert_eq!(changed, 1, "job {id}");
    }

    /// From now on the server's queue of notifications seems to be nearly full.
    pub async fn fill_notify_queue(&self) {
        let full =
            "CREATE OR REPLACE FUNCTION {schema}._may_notify() RETURNS boolean LANGUAGE sql VOLATILE RETURN false";
        self.execute(full).await;
    }

    /// Lets time pass for every job: all its times move into the past.
    pub async fn pass(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.execute(&format!(
            "UPDATE {{schema}}.job SET created_at = created_at - interval '{seconds} s',
                scheduled_at = scheduled_at - interval '{seconds} s',
                unique_until = unique_until - interval '{seconds} s'"
        ))
        .await;
    }
}

/// How long, or how often, a test tries what chance decides: in full where `UNIQUEUE_SOAK` is set, as it is in CI.
pub fn soak<T>(usual: T, in_full: T) -> T {
    if std::env::var_os("UNIQUEUE_SOAK").is_some_and(|value| !value.is_empty()) { in_full } else { usual }
}

/// A pool for the database that the cluster began with.
pub async fn pool(max_connections: u32) -> PgPool {
    pool_at(url().await, max_connections, |options| options).await
}

async fn pool_at(url: &str, max_connections: u32, with: impl FnOnce(PgConnectOptions) -> PgConnectOptions) -> PgPool {
    let options = with(url.parse().expect("a URL"));
    PgPoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(WAIT)
        .connect_with(options)
        .await
        .expect("a pool")
}

/// The argument of the SQL function `_fetch_jobs` for queues with these numbers of free slots.
pub fn wanted(queues: &[(&str, i64)]) -> String {
    let queues = queues.iter().map(|(name, free)| {
        json!({"name": name, "free": free, "idle": free, "after_group": "", "visits": 10_000, "freed": []})
    });
    Value::Array(queues.collect()).to_string()
}

/// A job without args.
pub fn job(kind: &str) -> NewJob {
    NewJob::new(kind, &json!({}))
}
