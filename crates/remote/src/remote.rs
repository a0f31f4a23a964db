//! The verbs of remote workers: programs that fetch and finish jobs without a runner, on behalf of others.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use uniqueue::period::seconds;
use uniqueue::{Call, Client};
use uniqueue_admin::statement::{arguments, ask, collect};

use crate::fetch::FetchJobs;
use crate::result::{EXTEND_JOBS, FINISH_JOBS, Finished, JobResult, JobRun, Reported, extended, finished};

/// Does the maintenance that is due.
const MAINTAIN: &str = "
SELECT m.promoted, m.rescued, m.pruned, m.released, m.expired, extract(epoch FROM m.next_in) AS next_in
FROM /* schema */maintain($1::jsonb ->> 'worker') AS m";

/// Deletes the rows of a worker that have no running job.
const STOP_WORKER: &str = "SELECT /* schema */stop_worker($1::jsonb ->> 'worker') AS removed";

/// The verbs of remote workers in the schema of a client. Cheap to make and to copy.
#[derive(Clone, Copy, Debug)]
#[must_use = "a handle does nothing by itself"]
pub struct Remote<'a> {
    client: &'a Client,
}

/// The maintenance that [`Remote::maintain`] did: the number of jobs of each service.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Maintained {
    /// Jobs that became due.
    pub promoted: u64,
    /// Jobs that were taken back from workers that died, or whose reservation ran out.
    pub rescued: u64,
    /// Final jobs that were deleted.
    pub pruned: u64,
    /// Jobs whose parents have ended.
    pub released: u64,
    /// Jobs that expired.
    pub expired: u64,
    /// How long to wait before the next call: 20 ms to 1 s.
    #[serde(with = "seconds")]
    pub next_in: Duration,
}

/// The answer of `stop_worker`.
#[derive(Deserialize)]
struct Stopped {
    removed: u64,
}

impl<'a> Remote<'a> {
    /// The verbs in a client's schema.
    pub const fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Starts the next jobs of these queues for a remote worker of this name, and returns them in the order of work. Jobs
    /// of the first queue come first.
    pub fn fetch_jobs<I>(self, queues: I, worker: impl Into<String>) -> FetchJobs<'a>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        FetchJobs::new(self.client, queues.into_iter().map(Into::into).collect(), worker.into())
    }

    /// Ends runs of jobs that [`fetch_jobs`](Self::fetch_jobs) returned. Returns one answer for each result, in the given
    /// order. Of two results of one job, the one of the later run counts. A job that another transaction has locked for longer
    /// than 0.1 s is answered `locked`. A value that PostgreSQL cannot store is dropped with a warning, and the rest counts.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database), also for a delay of more than 1,000 years.
    pub fn finish_jobs(self, results: impl IntoIterator<Item = JobResult>) -> Call<'a, Vec<Reported>> {
        let results: Vec<_> = results.into_iter().collect();
        collect(self.client, FINISH_JOBS, finished(&results), |answers: Vec<Finished>| {
            answers.into_iter().map(Finished::warn).collect()
        })
    }

    /// Reserves running jobs of remote workers for this time from now on: 1 second to 1 day. Returns one answer for each
    /// run, in the given order. Waits for no lock.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database), also for a time outside its limits.
    pub fn extend_jobs(self, runs: impl IntoIterator<Item = JobRun>, reserve: Duration) -> Call<'a, Vec<Reported>> {
        let runs: Vec<_> = runs.into_iter().collect();
        ask(self.client, EXTEND_JOBS, extended(&runs, reserve))
    }

    /// Makes due jobs available, discards expired ones, takes back jobs whose worker died or whose reservation ran out,
    /// releases jobs whose parents have ended, and deletes final jobs past their retention: for programs without a
    /// [`Runner`](uniqueue::Runner), which does all of this. Call it again after [`Maintained::next_in`]. Of any number of
    /// callers and runners, one does each of these.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn maintain(self, worker: impl Into<String>) -> Call<'a, Maintained> {
        let worker = arguments(json!({ "worker": worker.into() }));
        collect(self.client, MAINTAIN, worker, |rows: Vec<Maintained>| rows.into_iter().next().unwrap_or_default())
    }

    /// Ends a remote worker: the worker of this name no longer counts as alive, unless it has running jobs. Returns how many
    /// rows of runners were removed.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn stop_worker(self, worker: impl Into<String>) -> Call<'a, u64> {
        let worker = arguments(json!({ "worker": worker.into() }));
        collect(self.client, STOP_WORKER, worker, |rows: Vec<Stopped>| rows.iter().map(|row| row.removed).sum())
    }
}
