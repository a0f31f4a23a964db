//! How a queue is doing, in numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use crate::count::JobCount;
use crate::state::JobState;

/// How the queues of a schema are doing, as [`Client::stats`](crate::Client::stats) tells. It is as quick
/// on ten million jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// When it was asked, by the database's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub asked_at: OffsetDateTime,
    /// Jobs by state, over all queues, with the limits of [`Client::queues`](crate::Client::queues).
    pub jobs: BTreeMap<JobState, JobCount>,
    /// How many runners are alive.
    pub runners: u64,
    /// How long the oldest available job of a queue that is not paused could have run already. `None`: none is
    /// available.
    pub oldest_available_age: Option<Duration>,
    /// How much comes and goes.
    pub rates: Rates,
    /// How long the jobs that finished last waited and ran. `None`: none was found.
    pub finished: Option<Finished>,
}

/// Jobs a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rates {
    /// Jobs inserted. Those that are deleted already are not seen: where completed jobs are kept for no time,
    /// this is too low.
    pub inserted: f64,
    /// The time over which they were counted: what was asked for, or less where more than 20,000 jobs came.
    pub inserted_over: Duration,
    /// Jobs completed, by what each live runner told with its last heartbeat, four times a lease.
    pub completed: f64,
    /// Attempts that failed, told likewise.
    pub failed: f64,
    /// The longest time between two heartbeats over which they were counted. `None`: no live runner has told
    /// anything yet.
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
    /// From when a job could have run until its last attempt started.
    pub wait: Percentiles,
    /// From there to its end.
    pub run: Percentiles,
}

/// Times that so many of a hundred stayed below.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Percentiles {
    /// Half of them.
    pub p50: Duration,
    /// Nine of ten.
    pub p90: Duration,
    /// Ninety-nine of a hundred.
    pub p99: Duration,
    /// All of them.
    pub max: Duration,
}

impl Percentiles {
    /// From seconds; what is missing or cannot be a time is none.
    pub(crate) fn of(seconds: &[f64]) -> Self {
        let at = |place: usize| {
            let seconds = seconds.get(place).copied().unwrap_or_default();
            Duration::try_from_secs_f64(seconds).unwrap_or_default()
        };
        Self { p50: at(0), p90: at(1), p99: at(2), max: at(3) }
    }
}
