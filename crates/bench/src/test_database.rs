//! The test database: a server, and in it a schema of the bench's own.

use std::path::Path;
use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqlSafeStr, SqlStr};
use tokio_util::sync::CancellationToken;
use uniqueue::embedded::{Durability, Postgres};
use uniqueue::{Client, SchemaName};

use crate::args::BenchArguments;
use crate::facts::Facts;
use crate::failure::Failure;
use crate::profiler::Profiler;
use crate::schema;

/// Settings of a server that does nothing else. Durability is PostgreSQL's own default: fsync, synchronous_commit and
/// full_page_writes are on. Checkpoints are so far apart that none falls into one run and not into another.
const SETTINGS: [(&str, &str); 3] =
    [("shared_buffers", "512MB"), ("max_wal_size", "8GB"), ("checkpoint_timeout", "30min")];

/// The settings of a runner's own connections: plans are made once, by index, and never compiled.
pub(crate) const RUNNER_SETTINGS: &str =
    "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

/// A database with a schema to measure in.
pub(crate) struct TestDatabase {
    /// Prepares runs and checks them. Nothing is measured on it.
    pub(crate) connection: PgConnection,
    pub(crate) schema: SchemaName,
    pub(crate) facts: Facts,
    /// Cancelled by Ctrl-C and SIGTERM.
    pub(crate) interrupt: CancellationToken,
    pub(crate) profiler: Profiler,
    pub(crate) url: String,
    postgres: Option<Postgres>,
}

impl TestDatabase {
    pub(crate) async fn open(arguments: &BenchArguments, interrupt: CancellationToken) -> Result<Self, Failure> {
        let profiler = Profiler::open(arguments.perf_control.as_deref())?;
        let mut server = Postgres::builder().durability(Durability::Durable).max_connections(400);
        for (name, value) in SETTINGS {
            server = server.setting(name, value);
        }
        let given = arguments.database_url.as_deref().filter(|url| !url.trim().is_empty());
        let (url, postgres) = match given {
            Some(url) => (url.to_owned(), None),
            None => {
                let postgres = server.start().await?;
                (postgres.url().to_owned(), Some(postgres))
            }
        };
        let client = Client::builder().schema(arguments.schema.clone()).max_connections(1).connect(&url).await?;
        let mut connection = PgConnection::connect_with(&Client::connect_options(&url)?).await?;
        let version: String = sqlx::query("SHOW server_version").fetch_one(&mut connection).await?.try_get(0)?;
        // Debian appends its own version: 15.18 (Debian 15.18-0+deb12u1).
        let version = version.split(' ').next().unwrap_or_default().to_owned();
        let mut database = Self {
            schema: client.schema().clone(),
            facts: Facts::default(),
            connection,
            interrupt,
            profiler,
            url,
            postgres,
        };
        database.facts = Facts::read(&mut database.connection, version, database.postgres.as_ref()).await?;
        schema::claim(&mut database.connection, &database.schema).await?;
        let migrated = client.migrate().await;
        client.pool().close().await;
        if let Err(error) = migrated {
            database.close().await?;
            return Err(error.into());
        }
        database.facts.checkpoints = sqlx::query("CHECKPOINT").execute(&mut database.connection).await.is_ok();
        Ok(database)
    }

    /// Renders a statement for the schema.
    pub(crate) fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        // Safe to splice: the name is quoted, and checked against an alphabet without quotes.
        AssertSqlSafe(text.replace("/* schema */", &format!("{}.", self.schema.quoted())))
    }

    /// Renders a statement that many tasks send: they share its text.
    pub(crate) fn statement(&self, text: &str) -> SqlStr {
        AssertSqlSafe(Arc::<str>::from(self.sql(text).0)).into_sql_str()
    }

    pub(crate) async fn execute(&mut self, text: &str) -> sqlx::Result<u64> {
        let sql = self.sql(text);
        Ok(sqlx::raw_sql(sql).execute(&mut self.connection).await?.rows_affected())
    }

    pub(crate) async fn count(&mut self, text: &str) -> sqlx::Result<u64> {
        let sql = self.sql(text);
        let count: i64 = sqlx::query(sql).fetch_one(&mut self.connection).await?.try_get(0)?;
        Ok(count.unsigned_abs())
    }

    /// Removes all rows of earlier runs, the same way for every side.
    pub(crate) async fn empty(&mut self) -> Result<(), Failure> {
        self.execute("TRUNCATE /* schema */job, /* schema */queue, /* schema */runner CASCADE").await?;
        self.checkpoint().await
    }

    /// Flushes what earlier runs wrote, so that no run pays for another.
    pub(crate) async fn checkpoint(&mut self) -> Result<(), Failure> {
        if self.facts.checkpoints {
            self.execute("CHECKPOINT").await?;
        }
        Ok(())
    }

    /// A client as an application makes it, with its connections open.
    pub(crate) async fn client(&self, connections: u32) -> Result<Client, Failure> {
        let builder = Client::builder().schema(self.schema.clone()).max_connections(connections);
        let client = builder.connect(&self.url).await?;
        let mut opened = Vec::with_capacity(connections as usize);
        for _ in 0..connections {
            opened.push(client.pool().acquire().await?);
        }
        drop(opened);
        Ok(client)
    }

    /// Connections outside of any client.
    pub(crate) async fn connections(&self, count: u32) -> Result<Vec<PgConnection>, Failure> {
        let mut opened = Vec::with_capacity(count as usize);
        for _ in 0..count {
            opened.push(PgConnection::connect(&self.url).await?);
        }
        Ok(opened)
    }

    /// The data directory of the embedded server.
    pub(crate) fn data_dir(&self) -> Option<&Path> {
        self.postgres.as_ref().map(Postgres::data_dir)
    }

    /// Drops the schema, and stops the embedded server.
    pub(crate) async fn close(mut self) -> Result<(), Failure> {
        if let Some(postgres) = self.postgres {
            // The connection ends with the server.
            return Ok(postgres.stop().await?);
        }
        // An interrupt can leave the connection in the middle of a statement.
        let mut fresh = PgConnection::connect(&self.url).await?;
        std::mem::swap(&mut self.connection, &mut fresh);
        drop(fresh);
        schema::drop_schema(&mut self.connection, &self.schema).await?;
        Ok(self.connection.close().await?)
    }
}
