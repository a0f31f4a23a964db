//! Scheduled jobs with SQL: a loop that polls for those that are due.

use std::time::{Duration, Instant};

use sqlx::types::Json;
use sqlx::{PgConnection, SqlStr};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use super::work::{Worker, worker_connections};
use crate::delays::{Start, all_starts};
use crate::failure::Failure;
use crate::failures::wrong;
use crate::job::{Kind, NoOp};
use crate::meter::{Measure, Meter};
use crate::scheduled::{Clock, Due, Schedule, check};
use crate::statement::Statement;
use crate::test_database::TestDatabase;
use crate::work::Work;

/// How often due jobs are fetched: as often as a runner promotes them at the most.
const POLL: Duration = Duration::from_millis(20);

/// The state of jobs that are not due, which a statement of its own changes.
const PROMOTE: &str = include_str!("promote.sql");

/// Inserts jobs ahead of their time, and records when they are fetched.
pub(crate) async fn run(database: &mut TestDatabase, schedule: Schedule, work: Work) -> Result<Measure, Failure> {
    let statement = database.statement(Statement::InsertScheduled.text());
    let poller = Poller {
        promote: database.statement(PROMOTE),
        worker: Worker::new(database, &work),
        batch: i64::from(schedule.slots),
    };
    let mut connections = worker_connections(database, 2).await?;
    let (Some(mut inserting), Some(mut working)) = (connections.pop(), connections.pop()) else {
        return Err(wrong("two connections should be open".to_owned()));
    };
    let (started, mut starts) = mpsc::unbounded_channel();
    let clock = Clock::read(&mut database.connection).await?;
    let meter = Meter::start(database).await?;
    let insert = async |jobs: Vec<Due>| {
        let ids: Vec<Uuid> = jobs.iter().map(|_| Uuid::now_v7()).collect();
        let args: Vec<_> = jobs.iter().map(|(number, _)| Json(Kind::PLAIN.args(*number))).collect();
        let due_at: Vec<_> = jobs.iter().map(|(_, due_at)| *due_at).collect();
        sqlx::query(statement.clone()).bind(ids).bind(args).bind(due_at).execute(&mut inserting).await?;
        Ok(())
    };
    tokio::try_join!(
        schedule.insert_all(database, &clock, insert),
        poller.work_until(&mut working, schedule.n, started),
    )?;
    let starts = all_starts(&mut starts, schedule.n as usize).await?;
    let mut measure = meter.stop(database, schedule.n).await?;
    measure.delays = Some(schedule.delays(&clock, &starts)?);
    check(database, schedule).await?;
    Ok(measure)
}

/// Promotes and works due jobs.
struct Poller {
    promote: SqlStr,
    worker: Worker,
    batch: i64,
}

impl Poller {
    /// Polls until `n` jobs are done.
    async fn work_until(
        &self,
        connection: &mut PgConnection,
        n: u64,
        started: UnboundedSender<Start>,
    ) -> Result<(), Failure> {
        let mut polls = tokio::time::interval(POLL);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut done = 0;
        while done < n {
            polls.tick().await;
            sqlx::query(self.promote.clone()).bind(self.batch).execute(&mut *connection).await?;
            let start = |job: NoOp| {
                let _ = started.send((job.n, Instant::now()));
            };
            done += self.worker.work(connection, start).await?;
        }
        Ok(())
    }
}
