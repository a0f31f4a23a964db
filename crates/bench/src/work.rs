//! The jobs that a run works, and the check that it worked them.

use sqlx::{Connection, PgConnection, Row};

use crate::counter::Jobs;
use crate::failure::Failure;
use crate::failures::wrong;
use crate::fill::Fill;
use crate::test_database::TestDatabase;

/// The jobs to work, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The jobs to put into the table, with those behind the ones to work; `None`: they are there already.
    pub(crate) fill: Option<Fill>,
    /// Jobs to put there that cannot start: in groups in order, whose first job waits for a day.
    pub(crate) blocked: Option<Fill>,
    /// The run ends after this many jobs.
    pub(crate) n: u64,
    pub(crate) queues: u32,
    /// The treatment of completed jobs.
    pub(crate) keep: Keep,
    /// Whether another transaction holds a snapshot that is older than the first fetch.
    pub(crate) is_snapshot_held: bool,
    pub(crate) runners: Runners,
    pub(crate) loops: Loops,
}

/// The runners of our side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runners {
    pub(crate) count: u32,
    /// Jobs that each works at once.
    pub(crate) slots: u32,
    /// Connections of each one's pool. A runner has its own beside.
    pub(crate) connections: u32,
}

/// The loops of SQL, each on a connection of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loops {
    pub(crate) connections: u32,
    /// Jobs that each fetches at a time.
    pub(crate) batch: u32,
}

/// The treatment of completed jobs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Keep {
    Rows,
    Nothing,
}

/// The first job of each group began, and waits.
const BLOCK: &str = "
    UPDATE /* schema */job AS j
    SET state = 'scheduled', scheduled_at = now() + interval '1 day', attempt = 1, run = 1, began = 1
    FROM (
        SELECT DISTINCT ON (f.group_key) f.id
        FROM /* schema */job AS f
        WHERE f.group_key IS NOT NULL
        ORDER BY f.group_key, f.scheduled_at, f.id
    ) AS f
    WHERE j.id = f.id
";

impl Work {
    /// Fills the table and updates the statistics of the planner.
    pub(crate) async fn prepare(&self, database: &mut TestDatabase) -> Result<(), Failure> {
        if let Some(fill) = self.fill {
            fill.insert(database).await?;
            if let Some(blocked) = self.blocked {
                blocked.insert(database).await?;
                database.execute(BLOCK).await?;
            }
            database.execute("ANALYZE /* schema */job").await?;
        }
        Ok(())
    }

    /// An open transaction with a snapshot of the table. It ends when the connection is dropped.
    pub(crate) async fn snapshot(&self, database: &TestDatabase) -> Result<Option<PgConnection>, Failure> {
        if !self.is_snapshot_held {
            return Ok(None);
        }
        let mut connection = PgConnection::connect(&database.url).await?;
        sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ").execute(&mut connection).await?;
        let read = database.sql("SELECT FROM /* schema */job LIMIT 1");
        sqlx::raw_sql(read).execute(&mut connection).await?;
        Ok(Some(connection))
    }
}

/// The available jobs.
pub(crate) async fn waiting(database: &mut TestDatabase) -> Result<Jobs, Failure> {
    let sql = database.sql(
        "SELECT count(*), coalesce(sum((args ->> 'n')::bigint), 0)::bigint
        FROM /* schema */job
        WHERE state = 'available'",
    );
    let row = sqlx::query(sql).fetch_one(&mut database.connection).await?;
    let number = |at: usize| row.try_get(at).map(i64::unsigned_abs);
    Ok(Jobs { count: number(0)?, sum: number(1)? })
}

/// Checks that each job that ran did so once, that it is completed, and that no other job changed.
pub(crate) async fn check(database: &mut TestDatabase, before: Jobs, done: Jobs, keep: Keep) -> Result<(), Failure> {
    let left = waiting(database).await?;
    let running = database.count("SELECT count(*) FROM /* schema */job WHERE state = 'running'").await?;
    let (there, ran) = (before.count, done.count);
    if there != left.count + ran || running != 0 {
        return Err(wrong(format!("of {there} jobs {ran} ran, {} wait and {running} are not finished", left.count)));
    }
    if before.sum != left.sum + done.sum {
        return Err(wrong(format!("of {there} jobs as many ran or wait, but not the same ones: some ran twice")));
    }
    // Rows that filled the library's table as completed jobs had no attempt.
    let completed = "SELECT count(*) FROM /* schema */job WHERE state = 'completed' AND attempt = 1";
    let (completed, wanted) = (database.count(completed).await?, if keep == Keep::Rows { ran } else { 0 });
    if completed != wanted {
        return Err(wrong(format!("of {ran} jobs that ran, {completed} rows are completed, where {wanted} should be")));
    }
    Ok(())
}
