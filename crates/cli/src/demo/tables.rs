//! The application's own tables, and its SQL.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use uniqueue::{JobId, SchemaName};
use uuid::Uuid;

use super::files::FoundFile;

/// The schema with the demo's own tables.
pub(super) const SCHEMA: &str = "uniqueue_demo";

/// The tables, for one run and its queue.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) run_id: Uuid,
    queue_schema: SchemaName,
}

/// The counts of a run.
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

/// A file whose job was discarded, and why.
#[derive(Debug, serde::Serialize)]
pub(super) struct FailedFile {
    pub(super) path: String,
    pub(super) attempts: i32,
    pub(super) error: String,
}

impl Tables {
    /// Creates the tables if they are missing. Any number of demos may do so at once.
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

    /// Records the start of the run.
    pub(super) async fn add_run(&self, connection: &mut PgConnection, path: &str) -> sqlx::Result<()> {
        let statement = "INSERT INTO uniqueue_demo.run (id, queue_schema, path) VALUES ($1, $2, $3)";
        let insert = sqlx::query(statement).bind(self.run_id).bind(self.queue_schema.as_str()).bind(path);
        insert.execute(connection).await.map(drop)
    }

    /// Records files, each with its job and whether the job existed before.
    pub(super) async fn add_files(
        &self,
        connection: &mut PgConnection,
        files: &[FoundFile],
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

    /// Stores the result of a job.
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

    /// Counts the jobs that wait in the demo's queue.
    pub(super) async fn waiting(&self, connection: &mut PgConnection) -> sqlx::Result<u64> {
        let row = sqlx::query(self.render(include_str!("sql/count_waiting.sql"))).fetch_one(connection).await?;
        number(&row, "waiting")
    }

    /// Counts the jobs of the run that are not final yet.
    pub(super) async fn unfinished(&self, connection: &mut PgConnection) -> sqlx::Result<u64> {
        let query = sqlx::query(self.render(include_str!("sql/count_unfinished.sql"))).bind(self.run_id);
        number(&query.fetch_one(connection).await?, "unfinished")
    }

    /// Counts the files and jobs of the run.
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

    /// Lists the files whose jobs were discarded.
    pub(super) async fn failures(&self, connection: &mut PgConnection) -> sqlx::Result<Vec<FailedFile>> {
        let query = sqlx::query(self.render(include_str!("sql/failures.sql"))).bind(self.run_id);
        let rows = query.fetch_all(connection).await?;
        let failed = |row: &sqlx::postgres::PgRow| {
            Ok(FailedFile { path: row.try_get(0)?, attempts: row.try_get(1)?, error: row.try_get(2)? })
        };
        rows.iter().map(failed).collect()
    }

    /// Inserts the queue's schema into a statement. This is safe, because the name is quoted and its alphabet has no quotes.
    fn render(&self, statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(statement.replace("/* schema */", &format!("{}.", self.queue_schema.quoted())))
    }
}

/// Converts to PostgreSQL's signed type, which is large enough for every file.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a count, which is never negative.
fn number(row: &sqlx::postgres::PgRow, column: &str) -> sqlx::Result<u64> {
    Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or_default())
}
