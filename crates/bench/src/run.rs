//! A run: what one side does in a round.

use crate::end_to_end::EndToEnd;
use crate::failure::Failure;
use crate::insert::{self, Insert};
use crate::library;
use crate::library::release::Releases;
use crate::meter::Measure;
use crate::scheduled::Schedule;
use crate::sql;
use crate::test_database::TestDatabase;
use crate::work::Work;

/// One side's part of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    Insert(Insert),
    SqlInsert(Insert),
    Work(Work),
    /// The same with each runner in a process of its own.
    WorkInProcesses(Work),
    SqlWork(Work),
    Scheduled(Schedule),
    SqlScheduled(Schedule, Work),
    Latency {
        n: u64,
        connections: u32,
    },
    SqlLatency(u64, Work),
    Release(Releases),
    EndToEnd(EndToEnd),
}

impl Run {
    /// Runs on an empty table.
    pub(crate) async fn run(self, database: &mut TestDatabase) -> Result<Measure, Failure> {
        database.empty().await?;
        self.run_as_it_is(database).await
    }

    /// Runs on the table as earlier runs left it.
    pub(crate) async fn run_as_it_is(self, database: &mut TestDatabase) -> Result<Measure, Failure> {
        match self {
            Self::Insert(insert) => library::insert::run(database, insert).await,
            Self::SqlInsert(insert) => sql::insert::run(database, insert).await,
            Self::Work(work) => library::work::run(database, work).await,
            Self::WorkInProcesses(work) => library::processes::run(database, work).await,
            Self::SqlWork(work) => sql::work::run(database, work).await,
            Self::Scheduled(schedule) => library::scheduled::run(database, schedule).await,
            Self::SqlScheduled(schedule, work) => sql::scheduled::run(database, schedule, work).await,
            Self::Latency { n, connections } => library::latency::run(database, n, connections).await,
            Self::SqlLatency(n, work) => sql::latency::run(database, n, work).await,
            Self::Release(releases) => library::release::run(database, releases).await,
            Self::EndToEnd(end_to_end) => library::end_to_end::run(database, end_to_end).await,
        }
    }

    /// Checks the rows that inserts left. Runs that work jobs check themselves, because they know which jobs there were.
    pub(crate) async fn check(self, database: &mut TestDatabase) -> Result<(), Failure> {
        match self {
            Self::Insert(insert) | Self::SqlInsert(insert) => insert::check(database, insert).await,
            _ => Ok(()),
        }
    }
}
