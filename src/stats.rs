//! The statistics of a queue.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
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

impl Stats {
    /// The statistics of several places together, such as [`Places::ask`](crate::Places::ask) gets them: counts and rates are
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
    #[serde(with = "time::serde::rfc3339")]
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FinishedJob {
    pub(crate) finalized_at: OffsetDateTime,
    pub(crate) wait: Duration,
    pub(crate) run: Duration,
}

impl Finished {
    /// The times of a sample. `None`: it is empty.
    pub(crate) fn of(sample: Vec<FinishedJob>) -> Option<Self> {
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
