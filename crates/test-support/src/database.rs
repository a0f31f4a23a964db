//! A database of a test's own, and what tests do with it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row, SqlSafeStr, SqlStr, Transaction};
use tokio::time::timeout;
use uniqueue::embedded::Postgres;
use uniqueue::{Client, ClientBuilder, JobId, JobRow, JobState, Runner, RunnerHandle, SchemaName};
use uuid::Uuid;

use crate::server::{url, url_of};
use crate::template::{SCHEMA, TemporaryDatabase, create, create_migrated};
use crate::{WAIT, eventually, tools};

/// An object and an array, as `jsonb` stores them, each with a member that has no valid type.
const DAMAGED_OBJECT: &str = "'\\x0100002001000080070000506100000000000000'";
const DAMAGED_ARRAY: &str = "'\\x01000040040000d000000000'";

/// A database of the test's own with a migrated schema, and a client for it.
pub struct Database {
    pub client: Client,
    pub schema: String,
    /// Where the schema is.
    pub url: String,
    /// `None`: on a server of the test's own.
    temporary: Option<TemporaryDatabase>,
    runners: Mutex<Vec<RunnerHandle>>,
}

impl Database {
    pub async fn new() -> Self {
        Self::with_connections(20).await
    }

    pub async fn with_connections(max_connections: u32) -> Self {
        Self::of(create_migrated(SCHEMA).await, max_connections, |options| options).await
    }

    /// A database in which these statements have run.
    pub async fn with(statements: &str) -> Self {
        let database = Self::new().await;
        sqlx::raw_sql(database.sql(statements)).execute(database.pool()).await.expect(statements);
        database
    }

    /// For tests whose sessions wait for each other in cycles that end by themselves within milliseconds. A machine that stands
    /// still for a second must not make the server report a deadlock. The server reports a real one after 10 s.
    pub async fn slow_to_see_deadlocks(max_connections: u32) -> Self {
        let patient = |options: PgConnectOptions| options.options([("deadlock_timeout", "10s")]);
        Self::of(create_migrated(SCHEMA).await, max_connections, patient).await
    }

    /// A database in which nothing is migrated.
    pub async fn unmigrated(max_connections: u32) -> Self {
        Self::of(create("").await, max_connections, |options| options).await
    }

    /// A database with this ICU locale. PostgreSQL 14 and servers built without ICU cannot make one. Then the test warns, and
    /// this returns `None`.
    pub async fn of_locale(locale: &str) -> Option<Self> {
        let has_icu = "SELECT current_setting('server_version_num')::integer >= 150000
            AND EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i') AS has_icu";
        if !sqlx::query(has_icu).fetch_one(&pool(1).await).await.expect("a row").get::<bool, _>(0) {
            tools::lacks("icu", "PostgreSQL 15 or newer, built with ICU");
            return None;
        }
        let options = format!("TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE '{locale}' LOCALE 'C'");
        let database = Self::of(create(&options).await, 5, |options| options).await;
        database.client.migrate().await.expect("a migration");
        Some(database)
    }

    /// A migrated default schema on a server of the test's own.
    pub async fn on(server: &Postgres) -> Self {
        let url = server.url().to_owned();
        let client = Client::new(pool_at(&url, 10, |options| options).await);
        client.migrate().await.expect("a migration");
        Self { schema: client.schema().to_string(), client, url, temporary: None, runners: Mutex::default() }
    }

    async fn of(name: String, max_connections: u32, with: impl FnOnce(PgConnectOptions) -> PgConnectOptions) -> Self {
        let url = url_of(&name).await;
        let pool = pool_at(&url, max_connections, with).await;
        let schema = SchemaName::new(SCHEMA).expect("a schema name");
        let client = Client::builder().schema(schema).pool(pool);
        let temporary = Some(TemporaryDatabase { name });
        Self { client, schema: SCHEMA.to_owned(), url, temporary, runners: Mutex::default() }
    }

    /// A name that no other test of the cluster has, for a role or a session.
    pub fn name_of(&self, thing: &str) -> String {
        let database = self.temporary.as_ref().map_or("own", |temporary| &temporary.name);
        format!("{database}_{thing}")
    }

    pub fn pool(&self) -> &PgPool {
        self.client.pool()
    }

    /// A builder of further clients of the same schema.
    pub fn builder(&self) -> ClientBuilder {
        Client::builder().schema(self.client.schema().clone())
    }

    /// A client of the same schema over another pool.
    pub fn client_over(&self, pool: PgPool) -> Client {
        self.builder().pool(pool)
    }

    /// A client of the same schema with connections of its own to this URL, which may lead through a proxy.
    pub async fn client_at(&self, url: &str, max_connections: u32) -> Client {
        self.client_over(pool_at(url, max_connections, |options| options).await)
    }

    /// A client of the same schema with connections of its own, which have these options.
    pub async fn client_with(
        &self,
        max_connections: u32,
        options: impl FnOnce(PgConnectOptions) -> PgConnectOptions,
    ) -> Client {
        self.client_over(pool_at(&self.url, max_connections, options).await)
    }

    /// A runner of the client, to be given queues and workers.
    pub fn runner(&self) -> Runner {
        Runner::new(self.client.clone())
    }

    /// Starts a runner that [`end`](Self::end) stops. Returns its id.
    pub async fn start(&self, runner: Runner) -> Uuid {
        let started = runner.start().await.expect("a start");
        let id = started.id();
        self.runners.lock().expect("no panic").push(started);
        id
    }

    /// Stops the runners. The attribute of a test calls this at its end.
    pub async fn end(&self) {
        let runners = std::mem::take(&mut *self.runners.lock().expect("no panic"));
        for runner in runners {
            timeout(WAIT, runner.stop()).await.expect("a stop in time").expect("a stop");
        }
    }

    /// Begins a transaction with a statement, such as one that locks rows.
    pub async fn begin(&self, statement: &str) -> Transaction<'static, sqlx::Postgres> {
        let mut open = self.pool().begin().await.expect("a transaction");
        sqlx::raw_sql(self.sql(statement)).execute(&mut *open).await.expect(statement);
        open
    }

    /// A trigger of an application: runs PL/pgSQL at an event, such as `BEFORE UPDATE`, of each job that fulfils the condition.
    pub async fn trigger(&self, event: &str, condition: &str, body: &str) {
        let schema = &self.schema;
        let function = format!(
            "CREATE FUNCTION {schema}.of_application() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN {body} RETURN coalesce(NEW, OLD); END $$;
            CREATE TRIGGER of_application {event} ON {schema}.job FOR EACH ROW WHEN ({condition})
            EXECUTE FUNCTION {schema}.of_application()"
        );
        sqlx::raw_sql(self.sql(&function)).execute(self.pool()).await.expect(body);
    }

    /// Drops the trigger of [`trigger`](Self::trigger).
    pub async fn drop_trigger(&self) {
        self.execute("DROP FUNCTION {schema}.of_application CASCADE").await;
    }

    /// Enters a runner that no process is, with a lease of an hour. Queues are an array as text.
    pub async fn enter_runner(&self, id: Uuid, name: &str, queues: &str) {
        let enter = format!(
            "INSERT INTO {{schema}}.runner (id, name, queues, leased_until, knows_groups)
            VALUES ('{id}', '{name}', '{queues}', now() + interval '1 hour', true)"
        );
        self.execute(&enter).await;
    }

    /// Gives the running jobs that fulfil a condition to another runner, as after a rescue: in one statement, so that no rescuer
    /// finds a job with a worker that it does not know.
    pub async fn give_to_another(&self, condition: &str) {
        let given = format!(
            "WITH given AS (
                UPDATE {{schema}}.job SET worker = gen_random_uuid(), attempt = 2, run = 2 WHERE {condition} RETURNING worker
            )
            INSERT INTO {{schema}}.runner (id, name, queues, leased_until, knows_groups)
            SELECT worker, 'other', '{{}}', now() + interval '1 hour', true FROM given"
        );
        assert_eq!(self.execute(&given).await, 1);
    }

    /// The leases of all runners have run out.
    pub async fn end_leases(&self) {
        self.execute("UPDATE {schema}.runner SET leased_until = now() - interval '1 s'").await;
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

    /// Executes one or several statements. Returns how many rows they changed or returned.
    pub async fn execute(&self, text: &str) -> u64 {
        sqlx::raw_sql(self.sql(text)).execute(self.pool()).await.expect(text).rows_affected()
    }

    pub async fn number(&self, text: &str) -> i64 {
        let row = sqlx::query(self.sql(text)).fetch_one(self.pool()).await.expect(text);
        row.try_get(0).expect(text)
    }

    /// Waits until a query returns this count.
    pub async fn until(&self, query: &str, wanted: i64) {
        eventually!(let counted = self.number(query).await; counted == wanted, "{counted}, not {wanted}: {query}");
    }

    /// Waits until a statement waits for a lock of this table.
    pub async fn until_waits_for(&self, table: &str) {
        // Tables of other tests have the same OIDs: their databases are copies of one template.
        let waiting = format!(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{{schema}}.{table}'::regclass
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        );
        eventually!(self.number(&waiting).await > 0, "no statement waits for a lock of {table}");
    }

    /// Waits until this number of statements that are `ILIKE` this wait for a lock.
    pub async fn until_locked(&self, like: &str, wanted: i64) {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database() AND query ILIKE '{like}'"
        );
        self.until(&waiting, wanted).await;
    }

    /// Waits until this number of inserts wait for a lock.
    pub async fn until_inserts_wait(&self, inserts: i64) {
        self.until_locked("%insert%", inserts).await;
    }

    /// A connection that hears the schema's notifications of these channels.
    pub async fn listen(&self, channels: &[&str]) -> PgListener {
        let mut listener = PgListener::connect_with(self.pool()).await.expect("a connection");
        for channel in channels {
            listener.listen(&format!("{}.{channel}", self.schema)).await.expect(channel);
        }
        listener
    }

    /// Enters a runner that waits for jobs of a queue. Returns its id.
    pub async fn idle_runner(&self, queue: &str) -> String {
        let runner = "INSERT INTO {schema}.runner (id, name, queues, idle, leased_until, knows_groups)
            VALUES (gen_random_uuid(), 'r', '{queue}', true, now() + interval '1 hour', true) RETURNING id::text";
        self.text(&runner.replace("{queue}", &format!("{{{queue}}}"))).await
    }

    pub async fn row(&self, id: JobId) -> JobRow {
        self.client.job(id).await.expect("an answer").expect("the job")
    }

    /// Waits until a job is in a state.
    pub async fn until_state(&self, id: JobId, state: JobState) -> JobRow {
        eventually!(
            let row = self.row(id).await;
            row.state == state, "job {id} is {}, not {state}: {:?}", row.state, row.errors
        )
    }

    /// Executes a statement that the database refuses. Returns the SQLSTATE and the message.
    pub async fn refused(&self, text: &str) -> (String, String) {
        let error = sqlx::query(self.sql(text)).execute(self.pool()).await.expect_err(text);
        let error = error.into_database_error().expect(text);
        (error.code().expect("a code").into_owned(), error.message().to_owned())
    }

    /// The first column of each row of a query.
    pub async fn texts(&self, text: &str) -> Vec<String> {
        sqlx::query_scalar(self.sql(text)).fetch_all(self.pool()).await.expect(text)
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

/// A pool for the database `postgres`.
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
