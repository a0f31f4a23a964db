//! The statistics of a queue.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uniqueue::period::seconds;
use uniqueue::{Client, JobCount, JobState, stored_time};

use crate::ask::AnswerFuture;
use crate::statement::{Arguments, rows};
use crate::{Admin, Ask};

/// The statistics of all queues of a schema, as [`Admin::stats`] returns them.
/// The query is as fast with ten million jobs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// The time of the query, by the database's clock.
    #[serde(with = "stored_time")]
    pub asked_at: OffsetDateTime,
    /// Jobs by state, over all queues, with the limits of [`Admin::queues`].
    #[serde(skip_deserializing)]
    pub jobs: BTreeMap<JobState, JobCount>,
    /// How many runners are alive.
    pub runners: u64,
    /// How long the oldest available job has been due, without paused queues. `None` if no job is
    /// available.
    #[serde(skip_deserializing, serialize_with = "seconds::option::serialize")]
    pub oldest_available_age: Option<Duration>,
    /// The rates of inserts and results.
    pub rates: Rates,
    /// How long the jobs that finished last waited and ran. `None` if no such job was found.
    #[serde(deserialize_with = "Finished::of_sample")]
    pub finished: Option<Finished>,
}

impl Stats {
    /// The statistics of several places together, such as [`Places::ask`](uniqueue::Places::ask) gets them: counts and rates are
    /// summed, and of ages the longest counts. The percentiles are those of one sample, which is taken from the samples of
    /// all places and has as many jobs as the largest of these. `None`: of no place.
    #[must_use]
    pub fn merged(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let mut merged = all.next()?;
        let mut samples: Vec<_> = merged.finished.iter().map(|finished| Arc::clone(&finished.sample)).collect();
        for Self { asked_at, jobs, runners, oldest_available_age, rates, finished } in all {
            merged.asked_at = merged.asked_at.max(asked_at);
            for (state, count) in jobs {
                let sum = merged.jobs.entry(state).or_insert(JobCount::Exactly(0));
                *sum = [*sum, count].into_iter().sum();
            }
            merged.runners += runners;
            merged.oldest_available_age = merged.oldest_available_age.max(oldest_available_age);
            merged.rates.add(rates);
            samples.extend(finished.map(|finished| finished.sample));
        }
        let size = samples.iter().map(|sample| sample.len()).max().unwrap_or_default();
        let mut jobs: Vec<_> = samples.iter().flat_map(|sample| sample.iter().copied()).collect();
        jobs.sort_unstable_by_key(|job| Reverse(job.finalized_at));
        jobs.truncate(size);
        merged.finished = Finished::of(jobs);
        Some(merged)
    }
}

/// Rates, in jobs a second.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rates {
    /// Inserted jobs. Deleted jobs are not counted, so the rate is too low if completed jobs are deleted
    /// at once.
    pub inserted: f64,
    /// The time over which inserted jobs were counted: the requested time, or less if more than 20,000
    /// jobs were inserted.
    #[serde(with = "seconds")]
    pub inserted_over: Duration,
    /// Completed jobs. Each live runner reports them with its heartbeats, four times a lease.
    pub completed: f64,
    /// Failed attempts, reported in the same way.
    pub failed: f64,
    /// The longest time between the last two heartbeats of a runner, over which results were counted.
    /// `None` if no live runner has reported yet.
    #[serde(with = "seconds::option")]
    pub worked_over: Option<Duration>,
}

impl Rates {
    /// Adds the rates of another place.
    fn add(&mut self, other: Self) {
        let Self { inserted, inserted_over, completed, failed, worked_over } = other;
        self.inserted += inserted;
        self.inserted_over = self.inserted_over.max(inserted_over);
        self.completed += completed;
        self.failed += failed;
        self.worked_over = self.worked_over.max(worked_over);
    }
}

/// How long jobs waited and ran: a sample of those that finished last.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finished {
    /// How many jobs are in the sample.
    pub jobs: u64,
    /// When the first of them finished.
    #[serde(with = "stored_time")]
    pub since: OffsetDateTime,
    /// From when a job was due until its last attempt started.
    pub wait: Percentiles,
    /// From the start of its last attempt to its end.
    pub run: Percentiles,
    /// The jobs of the sample, so that samples of several places can be merged.
    #[serde(skip)]
    sample: Arc<[FinishedJob]>,
}

/// A job of a sample.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
struct FinishedJob {
    #[serde(with = "stored_time")]
    finalized_at: OffsetDateTime,
    #[serde(with = "seconds")]
    wait: Duration,
    #[serde(with = "seconds")]
    run: Duration,
}

impl Finished {
    fn of_sample<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Ok(Self::of(Vec::deserialize(deserializer)?))
    }

    /// The times of a sample. `None`: it is empty.
    fn of(sample: Vec<FinishedJob>) -> Option<Self> {
        let since = sample.iter().map(|job| job.finalized_at).min()?;
        let percentiles = |of: fn(&FinishedJob) -> Duration| Percentiles::of(sample.iter().map(of).collect());
        let (wait, run) = (percentiles(|job| job.wait), percentiles(|job| job.run));
        Some(Self { jobs: sample.len() as u64, since, wait, run, sample: sample.into() })
    }
}

/// Percentiles of a length of time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Percentiles {
    /// The median.
    #[serde(with = "seconds")]
    pub p50: Duration,
    /// The 90th percentile.
    #[serde(with = "seconds")]
    pub p90: Duration,
    /// The 99th percentile.
    #[serde(with = "seconds")]
    pub p99: Duration,
    /// The maximum.
    #[serde(with = "seconds")]
    pub max: Duration,
}

impl Percentiles {
    /// The percentiles of these lengths: of each the shortest length that so large a part of them does not exceed.
    fn of(mut lengths: Vec<Duration>) -> Self {
        lengths.sort_unstable();
        let at = |hundredths: usize| {
            let rank = (lengths.len() * hundredths).div_ceil(100);
            lengths.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        Self { p50: at(50), p90: at(90), p99: at(99), max: at(100) }
    }
}

impl Ask<'_, Stats> {
    /// Counts the jobs that were inserted within this time. Default: a minute. At least 1 ms.
    pub fn within(self, within: Duration) -> Self {
        self.lasting("within", within)
    }

    /// Measures the waiting and running times of this many jobs that finished last. Default: 1,000, of those that are
    /// found.
    pub fn sample(self, sample: u32) -> Self {
        self.with("sample", sample)
    }

    /// Counts the jobs of each queue and state no further than this. Default: 10,000.
    pub fn count_up_to(self, up_to: u32) -> Self {
        self.with("count_up_to", up_to)
    }
}

fn ask<'c>(
    client: &'c Client,
    connection: &'c mut PgConnection,
    statement: &'static str,
    arguments: Arguments,
) -> AnswerFuture<'c, Stats> {
    Box::pin(async move {
        let up_to = arguments.get("count_up_to").and_then(Value::as_u64).and_then(|up_to| up_to.try_into().ok());
        let queues = Admin::new(client).queues().count_up_to(up_to.unwrap_or(u32::MAX)).tx(&mut *connection).await?;
        let mut stats: Vec<Stats> = rows(client, connection, statement, &arguments).await?;
        let mut stats = stats.pop().ok_or(sqlx::Error::RowNotFound)?;
        stats.jobs = JobState::ALL
            .into_iter()
            .map(|state| (state, queues.iter().map(|queue| queue.count(state)).sum()))
            .collect();
        let working = queues.iter().filter(|queue| queue.settings.paused_at.is_none());
        stats.oldest_available_age = working.filter_map(|queue| queue.oldest_available_age).max();
        Ok(stats)
    })
}

impl<'a> Admin<'a> {
    /// Returns statistics of the queues: jobs by state, inserted and worked jobs per second, the oldest available job,
    /// and how long jobs waited and ran.
    ///
    /// ```no_run
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// let stats = uniqueue_admin::Admin::new(&client).stats().await?;
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
    pub fn stats(self) -> Ask<'a, Stats> {
        let asked = Ask::made_by(self.client, include_str!("sql/stats.sql"), 2, ask);
        asked.within(Duration::from_secs(60)).sample(1_000).count_up_to(10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statistics of a place whose jobs ran for these milliseconds, a second after another from this second on.
    fn place(from: i64, millis: &[u64]) -> Stats {
        let at = |second: i64| OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(second);
        let sample = (from..).zip(millis).map(|(second, millis)| FinishedJob {
            finalized_at: at(second),
            wait: Duration::ZERO,
            run: Duration::from_millis(*millis),
        });
        Stats {
            asked_at: at(100),
            jobs: [(JobState::Available, JobCount::Exactly(5)), (JobState::Running, JobCount::AtLeast(9))].into(),
            runners: 2,
            oldest_available_age: (from > 0).then(|| Duration::from_secs(from.unsigned_abs())),
            rates: Rates {
                inserted: 1.5,
                inserted_over: Duration::from_secs(60),
                completed: 2.0,
                failed: 0.5,
                worked_over: Some(Duration::from_secs(5)),
            },
            finished: Finished::of(sample.collect()),
        }
    }

    #[test]
    fn a_percentile_is_the_shortest_length_that_its_part_does_not_exceed() {
        let of = |count: u64| Percentiles::of((1..=count).map(Duration::from_millis).collect());
        let millis = |times: Percentiles| [times.p50, times.p90, times.p99, times.max].map(|time| time.as_millis());
        assert_eq!(millis(of(100)), [50, 90, 99, 100]);
        assert_eq!(millis(of(7)), [4, 7, 7, 7]);
        assert_eq!(millis(of(1)), [1; 4]);
        assert_eq!(millis(of(0)), [0; 4]);
    }

    #[test]
    fn places_are_summed_and_their_percentiles_are_those_of_one_sample() {
        // The quick place has 99 jobs of 1 ms and the slow one 99 of 1 s. The mean of their medians is the median of neither.
        let quick = place(1, &[1; 99]);
        let slow = place(1, &[1_000; 99]);
        let merged = Stats::merged([quick.clone(), slow]).unwrap();
        let times = merged.finished.as_ref().unwrap();
        assert_eq!((times.jobs, times.run.p50.as_millis(), times.run.p90.as_millis()), (99, 1, 1_000));
        assert_eq!(merged.jobs[&JobState::Available], JobCount::Exactly(10));
        assert_eq!(merged.jobs[&JobState::Running], JobCount::AtLeast(18));
        assert_eq!((merged.runners, merged.rates.inserted, merged.rates.completed), (4, 3.0, 4.0));
        assert_eq!(merged.rates.worked_over, Some(Duration::from_secs(5)));
        // The sample has the jobs that finished last, in whichever place: of the later one all from second 75 on.
        let later = Stats::merged([quick, place(50, &[7; 99])]).unwrap();
        let times = later.finished.unwrap();
        assert_eq!((times.jobs, times.run.p50.as_millis(), times.since.unix_timestamp()), (99, 7, 75));
        assert_eq!(later.oldest_available_age, Some(Duration::from_secs(50)));
        assert_eq!(Stats::merged([place(0, &[])]).unwrap().finished, None);
        assert_eq!(Stats::merged([]), None);
    }
}
