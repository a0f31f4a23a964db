//! The statistics of a queue.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use crate::count::JobCount;
use crate::state::JobState;

/// The statistics of all queues of a schema, as [`Client::stats`](crate::Client::stats) returns them.
/// The query is as fast with ten million jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// The time of the query, by the database's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub asked_at: OffsetDateTime,
    /// Jobs by state, over all queues, with the limits of [`Client::queues`](crate::Client::queues).
    pub jobs: BTreeMap<JobState, JobCount>,
    /// How many runners are alive.
    pub runners: u64,
    /// How long the oldest available job has been due, without paused queues. `None` if no job is
    /// available.
    #[serde(serialize_with = "crate::period::seconds::serialize_option")]
    pub oldest_available_age: Option<Duration>,
    /// The rates of inserts and results.
    pub rates: Rates,
    /// How long the jobs that finished last waited and ran. `None` if no such job was found.
    pub finished: Option<Finished>,
}

/// Rates, in jobs a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rates {
    /// Inserted jobs. Deleted jobs are not counted, so the rate is too low if completed jobs are deleted
    /// at once.
    pub inserted: f64,
    /// The time over which inserted jobs were counted: the requested time, or less if more than 20,000
    /// jobs were inserted.
    #[serde(serialize_with = "crate::period::seconds::serialize")]
    pub inserted_over: Duration,
    /// Completed jobs. Each live runner reports them with its heartbeats, four times a lease.
    pub completed: f64,
    /// Failed attempts, reported in the same way.
    pub failed: f64,
    /// The longest time between the last two heartbeats of a runner, over which results were counted.
    /// `None` if no live runner has reported yet.
    #[serde(serialize_with = "crate::period::seconds::serialize_option")]
    pub worked_over: Option<Duration>,
}

/// How long jobs waited and ran: a sample of those that finished last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finished {
    /// How many jobs are in the sample.
    pub jobs: u64,
    /// When the first of them finished.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// From when a job was due until its last attempt started.
    pub wait: Percentiles,
    /// From the start of its last attempt to its end.
    pub run: Percentiles,
}

/// Percentiles of a length of time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Percentiles {
    /// The median.
    #[serde(serialize_with = "crate::period::seconds::serialize")]
    pub p50: Duration,
    /// The 90th percentile.
    #[serde(serialize_with = "crate::period::seconds::serialize")]
    pub p90: Duration,
    /// The 99th percentile.
    #[serde(serialize_with = "crate::period::seconds::serialize")]
    pub p99: Duration,
    /// The maximum.
    #[serde(serialize_with = "crate::period::seconds::serialize")]
    pub max: Duration,
}

impl Percentiles {
    /// Converts from seconds. A missing or invalid value becomes zero.
    pub(crate) fn of(seconds: &[f64]) -> Self {
        let at = |index: usize| {
            let seconds = seconds.get(index).copied().unwrap_or_default();
            Duration::try_from_secs_f64(seconds).unwrap_or_default()
        };
        Self { p50: at(0), p90: at(1), p99: at(2), max: at(3) }
    }
}
