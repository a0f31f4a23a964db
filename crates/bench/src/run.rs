//! A run: what one side does in a round.

use crate::end_to_end::EndToEnd;
use crate::failure::Failure;
use crate::insert::{self, Insert};
use crate::library;
use crate::library::release::Releases;
use crate::meter::Measure;
use crate::scheduled::Schedule;
use crate::sql;
use crate::statement::Table;
use crate::test_database::TestDatabase;
use crate::work::Work;

/// One side's part of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    Insert(Insert),
    SqlInsert(Table, Insert),
    Work(Work),
    /// The same with each runner in a process of its own.
    WorkInProcesses(Work),
    SqlWork(Table, Work),
    Scheduled(Schedule),
    SqlScheduled(Table, Schedule, Work),
    Latency {
        n: u64,
        connections: u32,
    },
    SqlLatency(u64, Work),
    Release(Releases),
    EndToEnd(EndToEnd),
    SqlEndToEnd(Table, EndToEnd),
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
            Self::SqlInsert(table, insert) => sql::insert::run(database, table, insert).await,
            Self::Work(work) => library::work::run(database, work).await,
            Self::WorkInProcesses(work) => library::processes::run(database, work).await,
            Self::SqlWork(table, work) => sql::work::run(database, table, work).await,
            Self::Scheduled(schedule) => library::scheduled::run(database, schedule).await,
            Self::SqlScheduled(table, schedule, work) => sql::scheduled::run(database, table, schedule, work).await,
            Self::Latency { n, connections } => library::latency::run(database, n, connections).await,
            Self::SqlLatency(n, work) => sql::latency::run(database, n, work).await,
            Self::Release(releases) => library::release::run(database, releases).await,
            Self::EndToEnd(end_to_end) => library::end_to_end::run(database, end_to_end).await,
            Self::SqlEndToEnd(table, end_to_end) => sql::end_to_end::run(database, table, end_to_end).await,
        }
    }

    /// Checks the rows that inserts left. Runs that work jobs check themselves, because they know which jobs there were.
    pub(crate) async fn check(self, database: &mut TestDatabase) -> Result<(), Failure> {
        match self {
            Self::Insert(insert) => insert::check(database, Table::Job, insert).await,
            Self::SqlInsert(table, insert) => insert::check(database, table, insert).await,
            _ => Ok(()),
        }
    }
}
