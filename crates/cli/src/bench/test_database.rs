//! Where the measuring happens: a database, and in it a schema of the bench's own.
//!
//! The schema carries a mark in its comment. One that lacks it is somebody's and left alone; one that has it was left by
//! a bench that was killed, and is taken over. A lock of the session keeps a second bench out.

use std::time::{Duration, Instant};

use std::path::Path;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tokio_util::sync::CancellationToken;
use uniqueue::embedded::{Durability, Postgres};
use uniqueue::{Client, SchemaName};

use super::args::BenchArguments;
use super::facts::Facts;
use super::profiler::Profiler;
use crate::database::Database;
use crate::failure::Failure;

/// The schema's comment.
const MARK: &str = "made by uniqueue bench, which drops it";

/// What a server that does nothing else would be given. Durable means PostgreSQL's own fsync, synchronous_commit and
/// full_page_writes; and no checkpoint may fall into one round rather than another.
const SETTINGS: [(&str, &str); 3] =
    [("shared_buffers", "512MB"), ("max_wal_size", "8GB"), ("checkpoint_timeout", "30min")];

/// A runner's own connections have these: plans are made once, by index, and never compiled.
pub(super) const RUNNERS_SETTINGS: &str =
    "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

/// A database with a schema to measure in.
pub(super) struct Ground {
    /// Beside those that are measured.
    pub(super) connection: PgConnection,
    pub(super) schema: SchemaName,
    pub(super) facts: Facts,
    /// Somebody wants the bench to end.
    pub(super) interrupt: CancellationToken,
    pub(super) profiler: Profiler,
    pub(super) url: String,
    postgres: Option<Postgres>,
}

impl Ground {
    pub(super) async fn open(arguments: &BenchArguments, interrupt: CancellationToken) -> Result<Self, Failure> {
        let profiler = Profiler::open(arguments.perf_control.as_deref())?;
        let mut server = Postgres::builder().durability(Durability::Durable).max_connections(400);
        for (name, value) in SETTINGS {
            server = server.setting(name, value);
        }
        let Database { client, connection, url, version, postgres } =
            Database::open_or_start_as(&arguments.queue(), 1, server).await?;
        let mut ground = Self {
            schema: client.schema().clone(),
            facts: Facts::default(),
            connection,
            interrupt,
            profiler,
            url,
            postgres,
        };
        ground.facts = Facts::read(&mut ground.connection, version, ground.postgres.as_ref()).await?;
        ground.claim().await?;
        let migrated = client.migrate().await;
        client.pool().close().await;
        if let Err(error) = migrated {
            ground.close().await?;
            return Err(error.into());
        }
        ground.facts.checkpoints = sqlx::query("CHECKPOINT").execute(&mut ground.connection).await.is_ok();
        Ok(ground)
    }

    /// Makes the schema, if it is not somebody's.
    async fn claim(&mut self) -> Result<(), Failure> {
        let schema = &self.schema;
        // The server notices the end of one that is over a moment later.
        let began = Instant::now();
        let is_free = loop {
            let is_free: bool =
                sqlx::query("SELECT pg_try_advisory_lock(hashtextextended('uniqueue bench ' || $1, 0))")
                    .bind(schema.as_str())
                    .fetch_one(&mut self.connection)
                    .await?
                    .try_get(0)?;
            if is_free || began.elapsed() > Duration::from_secs(2) {
                break is_free;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        if !is_free {
            return Err(Failure::refused(
                format!("another bench is running in this database and schema: {schema}"),
                "wait for its end, or choose another --schema",
            ));
        }
        let found = sqlx::query("SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = $1")
            .bind(schema.as_str())
            .fetch_optional(&mut self.connection)
            .await?;
        if let Some(row) = found {
            let comment: Option<String> = row.try_get(0)?;
            if comment.as_deref() != Some(MARK) || self.holds_strange_jobs().await? {
                return Err(Failure::refused(
                    format!("the bench did not make this schema, or not all that is in it: {}", self.schema),
                    "choose another --schema: the bench empties and drops the one it works in",
                ));
            }
            self.drop_schema().await?;
        }
        let schema = self.schema.quoted();
        self.execute(&format!("CREATE SCHEMA {schema}")).await?;
        self.execute(&format!("COMMENT ON SCHEMA {schema} IS '{MARK}'")).await?;
        Ok(())
    }

    async fn holds_strange_jobs(&mut self) -> sqlx::Result<bool> {
        let has_table: bool = sqlx::query("SELECT to_regclass($1) IS NOT NULL")
            .bind(format!("{}.job", self.schema.quoted()))
            .fetch_one(&mut self.connection)
            .await?
            .try_get(0)?;
        if !has_table {
            return Ok(false);
        }
        let strange = self.sql("SELECT EXISTS (SELECT FROM /* schema */job WHERE kind <> 'bench')");
        sqlx::query(strange).fetch_one(&mut self.connection).await?.try_get(0)
    }

    /// Renders a statement for the schema.
    pub(super) fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        // Safe to splice: the name is quoted, and checked against an alphabet without quotes.
        AssertSqlSafe(text.replace("/* schema */", &format!("{}.", self.schema.quoted())))
    }

    pub(super) async fn execute(&mut self, text: &str) -> sqlx::Result<u64> {
        let sql = self.sql(text);
        Ok(sqlx::raw_sql(sql).execute(&mut self.connection).await?.rows_affected())
    }

    pub(super) async fn count(&mut self, text: &str) -> sqlx::Result<u64> {
        let sql = self.sql(text);
        let count: i64 = sqlx::query(sql).fetch_one(&mut self.connection).await?.try_get(0)?;
        Ok(count.unsigned_abs())
    }

    /// Leaves nothing behind of the round before, the same way for ours and for theirs.
    pub(super) async fn empty(&mut self) -> Result<(), Failure> {
        self.execute("TRUNCATE /* schema */job, /* schema */runner CASCADE").await?;
        self.checkpoint().await
    }

    /// Flushes what earlier rounds wrote, so that no round pays for another.
    pub(super) async fn checkpoint(&mut self) -> Result<(), Failure> {
        if self.facts.checkpoints {
            self.execute("CHECKPOINT").await?;
        }
        Ok(())
    }

    /// A client as an application makes it, with its connections open.
    pub(super) async fn client(&self, connections: u32) -> Result<Client, Failure> {
        let builder = Client::builder().schema(self.schema.clone()).max_connections(connections);
        let client = builder.connect(&self.url).await?;
        let mut opened = Vec::with_capacity(connections as usize);
        for _ in 0..connections {
            opened.push(client.pool().acquire().await?);
        }
        drop(opened);
        Ok(client)
    }

    /// Connections of no client.
    pub(super) async fn connections(&self, count: u32) -> Result<Vec<PgConnection>, Failure> {
        let mut opened = Vec::with_capacity(count as usize);
        for _ in 0..count {
            opened.push(PgConnection::connect(&self.url).await?);
        }
        Ok(opened)
    }

    /// The embedded server's.
    pub(super) fn data_dir(&self) -> Option<&Path> {
        self.postgres.as_ref().map(Postgres::data_dir)
    }

    async fn drop_schema(&mut self) -> sqlx::Result<()> {
        // What an interrupted round left running may lock things in another order, until it ends.
        let mut trials = 0;
        loop {
            let schema = self.schema.quoted();
            match self.execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE")).await {
                Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("40P01") && trials < 5 => {
                    trials += 1
                }
                dropped => return dropped.map(drop),
            }
        }
    }

    /// Drops the schema, and ends the server if it is ours.
    pub(super) async fn close(mut self) -> Result<(), Failure> {
        if let Some(postgres) = self.postgres {
            // The connection ends with the server.
            return Ok(postgres.stop().await?);
        }
        // An interrupt may have come in the middle of a statement, which left the connection in no order.
        let mut fresh = PgConnection::connect(&self.url).await?;
        std::mem::swap(&mut self.connection, &mut fresh);
        drop(fresh);
        self.drop_schema().await?;
        Ok(self.connection.close().await?)
    }
}
