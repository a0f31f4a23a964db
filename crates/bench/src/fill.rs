//! Filling the table with jobs to work, or with jobs that are in the way.

use crate::failure::Failure;
use crate::failures::interrupted;
use crate::statement::Statement;
use crate::test_database::TestDatabase;

/// Rows of one statement. Ctrl-C ends a run after at most one of them.
const BATCH: u64 = 100_000;

/// The groups that jobs are in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Groups {
    /// No job has a group.
    None,
    /// The jobs belong to this many groups. Each group runs one job at a time.
    OneAtATime(u32),
    /// The same in order.
    InOrder(u32),
    /// The jobs belong to this many groups, which take fair turns. The first group has this many jobs, and they come before all others.
    Fair(u32, u64),
}

impl Groups {
    /// How many groups there are, how many jobs the first one begins with, and whether each runs one job at a time and in
    /// order.
    const fn facts(self) -> (u32, u64, bool, bool) {
        match self {
            Self::None => (0, 0, false, false),
            Self::OneAtATime(groups) => (groups, 0, true, false),
            Self::InOrder(groups) => (groups, 0, true, true),
            Self::Fair(groups, backlog) => (groups, backlog, false, false),
        }
    }
}

/// Jobs to put into the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    /// The number of the first job. Ids follow the numbers.
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) queues: u32,
    /// Bytes of args beyond the number.
    pub(crate) pad: usize,
    pub(crate) has_keys: bool,
    pub(crate) groups: Groups,
    /// Whether their queue has a rate, one that is never reached.
    pub(crate) is_rated: bool,
    pub(crate) state: &'static str,
    /// How long ago they were made, as an interval of PostgreSQL. Only the ids carry it.
    pub(crate) age: &'static str,
}

impl Fill {
    /// Available jobs in one queue.
    pub(crate) const fn waiting(count: u64) -> Self {
        Self {
            first: 0,
            count,
            queues: 1,
            pad: 0,
            has_keys: false,
            groups: Groups::None,
            is_rated: false,
            state: "available",
            age: "0",
        }
    }

    /// Inserts them with SQL, so that every side finds the same jobs.
    pub(crate) async fn insert(self, database: &mut TestDatabase) -> Result<(), Failure> {
        let Self { first, count, queues, pad, has_keys, groups, is_rated, state, age } = self;
        let (group_count, backlog, is_limited, is_in_order) = groups.facts();
        let statement = database.statement(Statement::Fill.text());
        let mut done = 0;
        while done < count {
            if database.interrupt.is_cancelled() {
                return Err(interrupted());
            }
            let batch = BATCH.min(count - done);
            sqlx::query(statement.clone())
                .bind((first + done).cast_signed())
                .bind(batch.cast_signed())
                .bind(queues.cast_signed())
                .bind(i32::try_from(pad).unwrap_or(i32::MAX))
                .bind(has_keys)
                .bind(state)
                .bind(age)
                .bind(group_count.cast_signed())
                .bind(backlog.cast_signed())
                .bind(is_limited)
                .bind(is_in_order)
                .execute(&mut database.connection)
                .await?;
            done += batch;
        }
        if matches!(groups, Groups::Fair(..)) {
            database.execute("INSERT INTO /* schema */queue (name, fair) VALUES ('bench', true)").await?;
        }
        if is_rated {
            let rate = "INSERT INTO /* schema */queue (name, rate_count, rate_period, rate_burst)
                VALUES ('bench', 1000000, '1 ms', 1000000)";
            database.execute(rate).await?;
        }
        Ok(())
    }
}

/// The queues that [`Fill`] spreads its jobs over.
pub(crate) fn queue_names(queues: u32) -> Vec<String> {
    match queues {
        1 => vec!["bench".to_owned()],
        queues => (0..queues).map(|queue| format!("bench_{queue}")).collect(),
    }
}
