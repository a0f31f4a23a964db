//! Statistics of the queues.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::PgConnection;

use super::{Call, Client};
use crate::count::JobCount;
use crate::error::Result;
use crate::state::JobState;
use crate::stats::{Rates, Stats};
use crate::store;

/// A request for [`Stats`], to be awaited. Made by [`Client::stats`].
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database).
pub type StatsRequest<'a> = Call<'a, Stats, StatsQuery>;

/// How much statistics look at.
#[derive(Debug)]
pub struct StatsQuery {
    within: Duration,
    sample: u32,
    up_to: u32,
}

impl StatsRequest<'_> {
    /// Counts the jobs that were inserted within this time. Default: a minute. At least 1 ms.
    pub fn within(mut self, within: Duration) -> Self {
        self.options.within = within.max(Duration::from_millis(1));
        self
    }

    /// Measures the waiting and running times of this many jobs that finished last. Default: 1,000, of those that are
    /// found.
    pub fn sample(mut self, sample: u32) -> Self {
        self.options.sample = sample;
        self
    }

    /// Counts the jobs of each queue and state no further than this. Default: 10,000.
    pub fn count_up_to(mut self, up_to: u32) -> Self {
        self.options.up_to = up_to;
        self
    }
}

/// How many statements the statistics take.
const STATEMENTS: u32 = 5;

async fn ask(client: &Client, connection: &mut PgConnection, query: StatsQuery) -> Result<Stats> {
    let StatsQuery { within, sample, up_to } = query;
    let statements = client.statements();
    let queues = client.queues().count_up_to(up_to).tx(&mut *connection).await?;
    let pace = store::stats_pace(&mut *connection, statements).await?;
    let (inserted, inserted_over) = store::stats_inserted(&mut *connection, statements, within).await?;
    let finished = store::stats_finished(&mut *connection, statements, i64::from(sample)).await?;
    let asked_at = store::database_time(connection, statements).await?;
    let mut jobs = BTreeMap::new();
    for state in JobState::ALL {
        jobs.insert(state, queues.iter().map(|queue| queue.count(state)).sum::<JobCount>());
    }
    let working = queues.iter().filter(|queue| queue.settings.paused_at.is_none());
    Ok(Stats {
        asked_at,
        jobs,
        runners: pace.runners,
        oldest_available_age: working.filter_map(|queue| queue.oldest_available_age).max(),
        rates: Rates {
            inserted: inserted as f64 / inserted_over.as_secs_f64().max(0.001),
            inserted_over,
            completed: pace.completed,
            failed: pace.failed,
            worked_over: pace.over,
        },
        finished,
    })
}

impl Client {
    /// Returns statistics of the queues: jobs by state, inserted and worked jobs per second, the oldest available job,
    /// and how long jobs waited and ran.
    ///
    /// ```no_run
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// let stats = client.stats().await?;
    /// println!("{:.1} in, {:.1} out a second", stats.rates.inserted, stats.rates.completed);
    /// if let Some(finished) = stats.finished {
    ///     println!("half of the last {} jobs waited less than {:?}", finished.jobs, finished.wait.p50);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Runners report the jobs that they worked with their heartbeats. Everything else is read from a part of the
    /// table: the newest 20,000 jobs, and the 2,000 before the head of each of the first 20 queues where jobs wait. A job
    /// that was inserted long ago and has just finished (a long schedule, a late retry) may be missing among the times.
    /// It is counted in the rates.
    pub fn stats(&self) -> StatsRequest<'_> {
        let query = StatsQuery { within: Duration::from_secs(60), sample: 1_000, up_to: 10_000 };
        let request = Call::with(self, query, |client, connection, query| Box::pin(ask(client, connection, query)));
        request.of_statements(STATEMENTS)
    }
}
