//! Counters, histograms and gauges, through the [`metrics`](https://docs.rs/metrics) facade (feature `metrics`).
//!
//! They go to the recorder that the application installs, such as a Prometheus exporter. Install it before the client is
//! created and the runner is started, because a runner keeps the handles that the recorder gave it at the first use.
//!
//! | name | type | unit | labels | |
//! |---|---|---|---|---|
//! | `uniqueue_inserted_total` | counter | jobs | `kind`, `queue` | inserted by this process, committed or not |
//! | `uniqueue_duplicates_total` | counter | jobs | `kind`, `queue` | inserts that met the holder of their key; the labels are the holder's |
//! | `uniqueue_started_total` | counter | attempts | `kind`, `queue` | started by a worker |
//! | `uniqueue_completed_total` | counter | attempts | `kind`, `queue` | succeeded |
//! | `uniqueue_retried_total` | counter | attempts | `kind`, `queue` | failed and to be retried, or retried by an operator |
//! | `uniqueue_snoozed_total` | counter | attempts | `kind`, `queue` | postponed by their worker, the attempt not used up |
//! | `uniqueue_cancelled_total` | counter | jobs | `kind`, `queue` | cancelled by their worker or by an operator |
//! | `uniqueue_discarded_total` | counter | jobs | `kind`, `queue` | discarded |
//! | `uniqueue_rescued_total` | counter | jobs | `kind`, `queue` | rescued from a dead runner, and not discarded |
//! | `uniqueue_given_back_total` | counter | attempts | `kind`, `queue` | fetched and given back, the attempt not used up |
//! | `uniqueue_stale_total` | counter | attempts | `kind`, `queue` | whose result came too late and was dropped |
//! | `uniqueue_wait_seconds` | histogram | seconds | `kind`, `queue` | from when the job was due to the fetch that started it, by the database's clock |
//! | `uniqueue_work_seconds` | histogram | seconds | `kind`, `queue` | from the start of an attempt to its end, with any outcome |
//! | `uniqueue_fetch_seconds` | histogram | seconds | | the round trip of a fetch, with the wait for a connection |
//! | `uniqueue_fetch_jobs` | histogram | jobs | | returned by a fetch, 0 if it found none |
//! | `uniqueue_finish_seconds` | histogram | seconds | | the round trip of a batch of results, with the wait for a connection |
//! | `uniqueue_finish_jobs` | histogram | results | | in a batch |
//! | `uniqueue_running_jobs` | gauge | jobs | `queue` | running now, in all runners of the process |
//! | `uniqueue_free_slots` | gauge | slots | `queue` | free for a job now |
//! | `uniqueue_buffered_jobs` | gauge | jobs | `queue` | fetched ahead and not started |
//! | `uniqueue_available_jobs` | gauge | jobs | `queue` | that wait for a free worker, counted no further than 10,000 |
//! | `uniqueue_oldest_available_age_seconds` | gauge | seconds | `queue` | how long the oldest of them has been due, 0 without one |
//!
//! The counters count the events of [`Happened`], after the database has recorded them. A series appears with its first
//! use. Gauges are updated with every fetch, and at least every poll interval. The last two are read from the database by
//! `Admin::record_queue_metrics` of `uniqueue-admin`, which the application calls.

mod meters;

use ::metrics::{Label, SharedString, Unit};

pub(crate) use self::meters::{JobMeter, QueueMeter, RunnerMeter, count, inserted};

use crate::words::event::Happened;

/// Whether metrics are recorded.
pub(crate) const IS_COUNTING: bool = true;

/// Each counter's name and meaning, in the order of [`counter_index`].
const COUNTERS: [(&str, &str); 11] = [
    ("uniqueue_inserted_total", "Jobs inserted by this process"),
    ("uniqueue_duplicates_total", "Inserts that met the holder of their unique key"),
    ("uniqueue_started_total", "Attempts started by a worker"),
    ("uniqueue_completed_total", "Attempts that succeeded"),
    ("uniqueue_retried_total", "Attempts that failed and will be retried, or jobs retried by an operator"),
    ("uniqueue_snoozed_total", "Attempts whose worker postponed the job"),
    ("uniqueue_cancelled_total", "Jobs cancelled by their worker or by an operator"),
    ("uniqueue_discarded_total", "Jobs discarded"),
    ("uniqueue_rescued_total", "Jobs rescued from a dead runner"),
    ("uniqueue_given_back_total", "Attempts that were given back and not used up"),
    ("uniqueue_stale_total", "Attempts whose result came too late and was dropped"),
];

const WAIT_SECONDS: &str = "uniqueue_wait_seconds";
const WORK_SECONDS: &str = "uniqueue_work_seconds";
const FETCH_SECONDS: &str = "uniqueue_fetch_seconds";
const FETCH_JOBS: &str = "uniqueue_fetch_jobs";
const FINISH_SECONDS: &str = "uniqueue_finish_seconds";
const FINISH_JOBS: &str = "uniqueue_finish_jobs";

const HISTOGRAMS: [(&str, Unit, &str); 6] = [
    (WAIT_SECONDS, Unit::Seconds, "From when a job was due to the fetch that started it"),
    (WORK_SECONDS, Unit::Seconds, "From the start of an attempt to its end"),
    (FETCH_SECONDS, Unit::Seconds, "The round trip of a fetch"),
    (FETCH_JOBS, Unit::Count, "Jobs returned by a fetch"),
    (FINISH_SECONDS, Unit::Seconds, "The round trip of a batch of results"),
    (FINISH_JOBS, Unit::Count, "Results in a batch"),
];

const RUNNING_JOBS: &str = "uniqueue_running_jobs";
const FREE_SLOTS: &str = "uniqueue_free_slots";
const BUFFERED_JOBS: &str = "uniqueue_buffered_jobs";

/// The name of the gauge of waiting jobs.
#[doc(hidden)]
pub const AVAILABLE_JOBS: &str = "uniqueue_available_jobs";
/// The name of the gauge of the oldest of them.
#[doc(hidden)]
pub const OLDEST_AVAILABLE_AGE: &str = "uniqueue_oldest_available_age_seconds";

const GAUGES: [(&str, Unit, &str); 5] = [
    (RUNNING_JOBS, Unit::Count, "Jobs that run now"),
    (FREE_SLOTS, Unit::Count, "Slots that are free for a job now"),
    (BUFFERED_JOBS, Unit::Count, "Jobs fetched ahead and not started"),
    (AVAILABLE_JOBS, Unit::Count, "Jobs that wait for a free worker"),
    (OLDEST_AVAILABLE_AGE, Unit::Seconds, "How long the oldest available job has been due"),
];

/// Describes each metric and its unit to the recorder. A client does so when it is created, and a
/// runner when it is started. Call it yourself if the recorder is installed later.
pub fn describe() {
    for (name, meaning) in COUNTERS {
        ::metrics::describe_counter!(name, Unit::Count, meaning);
    }
    for (name, unit, meaning) in HISTOGRAMS {
        ::metrics::describe_histogram!(name, unit, meaning);
    }
    for (name, unit, meaning) in GAUGES {
        ::metrics::describe_gauge!(name, unit, meaning);
    }
}

/// The index of an event's counter.
const fn counter_index(happened: &Happened) -> usize {
    match happened {
        Happened::Inserted { .. } => 0,
        Happened::Duplicate { .. } | Happened::Updated { .. } | Happened::Covered { .. } => 1,
        Happened::Started { .. } => 2,
        Happened::Completed => 3,
        Happened::Retried { .. } => 4,
        Happened::Snoozed { .. } => 5,
        Happened::Cancelled { .. } => 6,
        Happened::Discarded { .. } => 7,
        Happened::Rescued => 8,
        Happened::GivenBack => 9,
        Happened::Stale => 10,
    }
}

fn labels(kind: &str, queue: &str) -> Vec<Label> {
    vec![Label::new("kind", SharedString::from(kind.to_owned())), Label::new("queue", queue.to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_metric_and_its_type() {
        let table = include_str!("mod.rs");
        let counters = COUNTERS.iter().map(|(name, _)| (name, "counter"));
        let histograms = HISTOGRAMS.iter().map(|(name, _, _)| (name, "histogram"));
        let gauges = GAUGES.iter().map(|(name, _, _)| (name, "gauge"));
        let named: Vec<_> = counters.chain(histograms).chain(gauges).collect();
        for (name, kind) in &named {
            assert!(table.contains(&format!("//! | `{name}` | {kind} | ")), "{name}");
        }
        let rows = table.lines().filter(|line| line.starts_with("//! | `uniqueue_"));
        assert_eq!(rows.count(), named.len());
    }

    #[test]
    fn each_counter_is_named_after_its_event() {
        let events = [Happened::Completed, Happened::Rescued, Happened::GivenBack, Happened::Stale];
        for event in events {
            assert_eq!(COUNTERS[counter_index(&event)].0, format!("uniqueue_{}_total", event.as_str()));
        }
    }
}
