//! The application's side of the demo: its own tables, and the SQL that it has for them.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use uniqueue::{JobId, SchemaName};
use uuid::Uuid;

use super::walk::Found;

/// The schema with the demo's own tables.
pub(super) const SCHEMA: &str = "uniqueue_demo";

/// A run's rows, and the queue they belong to.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) run_id: Uuid,
    queue_schema: SchemaName,
}

/// What became of the files of a run.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) files: u64,
    pub(super) stored: u64,
    pub(super) completed: u64,
    pub(super) discarded: u64,
    pub(super) cancelled: u64,
    pub(super) retried: u64,
    pub(super) attempts: u64,
    pub(super) missing: u64,
    pub(super) extra: u64,
    pub(super) changed: u64,
    pub(super) bytes_read: u64,
    pub(super) lines: u64,
    pub(super) work_seconds: Option<f64>,
    /// The median and the 99th percentile.
    pub(super) start_millis: Option<Vec<f64>>,
}

/// A file that has no checksum, and why.
#[derive(Debug, serde::Serialize)]
pub(super) struct FailedFile {
    pub(super) path: String,
    pub(super) attempts: i32,
    pub(super) error: String,
}

impl Tables {
    /// Makes the tables where they are missing, however many demos do so at once.
    pub(super) async fn create(connection: &mut PgConnection, queue_schema: SchemaName) -> sqlx::Result<Self> {
        let mut tx = connection.begin().await?;
        tx.execute("SELECT pg_advisory_xact_lock(hashtextextended('uniqueue demo tables', 0))").await?;
        let is_there: bool =
            tx.fetch_one("SELECT to_regclass('uniqueue_demo.checksum') IS NOT NULL").await?.try_get(0)?;
        if !is_there {
            tx.execute(sqlx::raw_sql(include_str!("sql/create_tables.sql"))).await?;
        }
        tx.commit().await?;
        Ok(Self { run_id: Uuid::now_v7(), queue_schema })
    }

    /// Writes down that the run begins.
    pub(super) async fn add_run(&self, connection: &mut PgConnection, path: &str) -> sqlx::Result<()> {
        let statement = "INSERT INTO uniqueue_demo.run (id, queue_schema, path) VALUES ($1, $2, $3)";
        let insert = sqlx::query(statement).bind(self.run_id).bind(self.queue_schema.as_str()).bind(path);
        insert.execute(connection).await.map(drop)
    }

    /// Writes down files, each with its job and whether that was there before.
    pub(super) async fn add_files(
        &self,
        connection: &mut PgConnection,
        files: &[Found],
        jobs: &[(JobId, bool)],
    ) -> sqlx::Result<()> {
        let (ids, adopted): (Vec<_>, Vec<_>) = jobs.iter().map(|(id, adopted)| (id.as_uuid(), *adopted)).unzip();
        let (paths, sizes): (Vec<_>, Vec<_>) = files.iter().map(|file| (&*file.path, stored(file.size))).unzip();
        let insert = sqlx::query(include_str!("sql/add_files.sql"))
            .bind(self.run_id)
            .bind(&ids)
            .bind(&paths)
            .bind(&sizes)
            .bind(&adopted);
        insert.execute(connection).await.map(drop)
    }

    /// Stores what came of a job.
    pub(super) async fn add_checksum(
        connection: &mut PgConnection,
        job_id: JobId,
        sha256: &[u8],
        lines: u64,
        bytes: u64,
    ) -> sqlx::Result<()> {
        let statement = "INSERT INTO uniqueue_demo.checksum (job_id, sha256, lines, bytes) VALUES ($1, $2, $3, $4)";
        let insert = sqlx::query(statement).bind(job_id.as_uuid()).bind(sha256).bind(stored(lines)).bind(stored(bytes));
        insert.execute(connection).await.map(drop)
    }

    /// How many jobs wait in the demo's queue.
    pub(super) async fn waiting(&self, connection: &mut PgConnection) -> sqlx::Result<u64> {
        let row = sqlx::query(self.render(include_str!("sql/count_waiting.sql"))).fetch_one(connection).await?;
        number(&row, "waiting")
    }

    /// How many jobs of the run are not final yet.
    pub(super) async fn unfinished(&self, connection: &mut PgConnection) -> sqlx::Result<u64> {
        let query = sqlx::query(self.render(include_str!("sql/count_unfinished.sql"))).bind(self.run_id);
        number(&query.fetch_one(connection).await?, "unfinished")
    }

    /// What became of the run's files.
    pub(super) async fn tally(&self, connection: &mut PgConnection) -> sqlx::Result<Tally> {
        let query = sqlx::query(self.render(include_str!("sql/tally.sql"))).bind(self.run_id);
        let row = query.fetch_one(connection).await?;
        Ok(Tally {
            files: number(&row, "files")?,
            stored: number(&row, "stored")?,
            completed: number(&row, "completed")?,
            discarded: number(&row, "discarded")?,
            cancelled: number(&row, "cancelled")?,
            retried: number(&row, "retried")?,
            attempts: number(&row, "attempts")?,
            missing: number(&row, "missing")?,
            extra: number(&row, "extra")?,
            changed: number(&row, "changed")?,
            bytes_read: number(&row, "bytes_read")?,
            lines: number(&row, "lines")?,
            work_seconds: row.try_get("work_seconds")?,
            start_millis: row.try_get("start_millis")?,
        })
    }

    /// The files whose jobs were given up.
    pub(super) async fn failures(&self, connection: &mut PgConnection) -> sqlx::Result<Vec<FailedFile>> {
        let query = sqlx::query(self.render(include_str!("sql/failures.sql"))).bind(self.run_id);
        let rows = query.fetch_all(connection).await?;
        let failed = |row: &sqlx::postgres::PgRow| {
            Ok(FailedFile { path: row.try_get(0)?, attempts: row.try_get(1)?, error: row.try_get(2)? })
        };
        rows.iter().map(failed).collect()
    }

    /// Puts the queue's schema into a statement. Safe to splice: the name is quoted, and checked against an alphabet
    /// without quotes.
    fn render(&self, statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(statement.replace("/* schema */", &format!("{}.", self.queue_schema.quoted())))
    }
}

/// PostgreSQL has no unsigned numbers. No file is that large.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A count, which is never negative.
fn number(row: &sqlx::postgres::PgRow, column: &str) -> sqlx::Result<u64> {
    Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or_default())
}
