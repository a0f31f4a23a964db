//! Counters, histograms and gauges, through the [`metrics`](https://docs.rs/metrics) facade (feature `metrics`).
//!
//! They go to the recorder that the application installs, such as a Prometheus exporter. Install it before the client is
//! made and the runner is started: a runner keeps what the recorder gave it at the first use.
//!
//! | name | type | unit | labels | |
//! |---|---|---|---|---|
//! | `uniqueue_inserted_total` | counter | jobs | `kind`, `queue` | inserted by this process, committed or not |
//! | `uniqueue_duplicates_total` | counter | jobs | `kind`, `queue` | inserts that met the holder of their key; the labels are the holder's |
//! | `uniqueue_started_total` | counter | attempts | `kind`, `queue` | begun by a worker |
//! | `uniqueue_completed_total` | counter | attempts | `kind`, `queue` | ended with the work done |
//! | `uniqueue_retried_total` | counter | attempts | `kind`, `queue` | failed and to be tried again, or retried by hand |
//! | `uniqueue_snoozed_total` | counter | attempts | `kind`, `queue` | to come back later, the attempt not used up |
//! | `uniqueue_cancelled_total` | counter | jobs | `kind`, `queue` | stopped for good, by their worker or by hand |
//! | `uniqueue_discarded_total` | counter | jobs | `kind`, `queue` | given up |
//! | `uniqueue_rescued_total` | counter | jobs | `kind`, `queue` | taken from a runner that died, and available again |
//! | `uniqueue_given_back_total` | counter | attempts | `kind`, `queue` | fetched and not worked to an end, the attempt not used up |
//! | `uniqueue_stale_total` | counter | attempts | `kind`, `queue` | whose result came too late and was dropped |
//! | `uniqueue_wait_seconds` | histogram | seconds | `kind`, `queue` | from when the job was due to the fetch that started it, by the database's clock |
//! | `uniqueue_work_seconds` | histogram | seconds | `kind`, `queue` | from the start of an attempt to its end, whatever the outcome |
//! | `uniqueue_fetch_seconds` | histogram | seconds | | a fetch there and back, with the wait for a connection, without that for a turn |
//! | `uniqueue_fetch_jobs` | histogram | jobs | | fetched at once, 0 for a look that found none |
//! | `uniqueue_finish_seconds` | histogram | seconds | | a batch of results there and back, with the wait for a connection |
//! | `uniqueue_finish_jobs` | histogram | results | | recorded at once |
//! | `uniqueue_running_jobs` | gauge | jobs | `queue` | being worked now, by all runners of the process |
//! | `uniqueue_free_slots` | gauge | slots | `queue` | that could work a job now |
//! | `uniqueue_buffered_jobs` | gauge | jobs | `queue` | fetched ahead and not started |
//!
//! The counters count what [`Happened`] tells, so they are told when the database has taken it.
//! Series appear with their first use. Gauges are brought up to date whenever the runner looks for jobs, at least every
//! poll interval.

mod job;
mod runner;

use ::metrics::{Label, SharedString, Unit};

pub(crate) use self::job::{JobMeter, count, inserted};
pub(crate) use self::runner::{Load, RunnerMeter, Timer};

use crate::event::Happened;

/// Whether anybody counts.
pub(crate) const IS_COUNTING: bool = true;

/// Each counter's name and meaning, in the order of [`place`].
const COUNTERS: [(&str, &str); 11] = [
    ("uniqueue_inserted_total", "Jobs inserted by this process"),
    ("uniqueue_duplicates_total", "Inserts that met the holder of their unique key"),
    ("uniqueue_started_total", "Attempts begun by a worker"),
    ("uniqueue_completed_total", "Attempts that ended with the work done"),
    ("uniqueue_retried_total", "Attempts that failed and will be tried again, or jobs retried by hand"),
    ("uniqueue_snoozed_total", "Attempts whose worker wants the job to come back later"),
    ("uniqueue_cancelled_total", "Jobs stopped for good by their worker or by hand"),
    ("uniqueue_discarded_total", "Jobs given up"),
    ("uniqueue_rescued_total", "Jobs taken from a runner that died and made available again"),
    ("uniqueue_given_back_total", "Attempts that were not worked to an end and not used up"),
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
    (FETCH_SECONDS, Unit::Seconds, "A fetch there and back"),
    (FETCH_JOBS, Unit::Count, "Jobs fetched at once"),
    (FINISH_SECONDS, Unit::Seconds, "A batch of results there and back"),
    (FINISH_JOBS, Unit::Count, "Results recorded at once"),
];

const RUNNING_JOBS: &str = "uniqueue_running_jobs";
const FREE_SLOTS: &str = "uniqueue_free_slots";
const BUFFERED_JOBS: &str = "uniqueue_buffered_jobs";

const GAUGES: [(&str, &str); 3] = [
    (RUNNING_JOBS, "Jobs that are being worked"),
    (FREE_SLOTS, "Slots that could work a job now"),
    (BUFFERED_JOBS, "Jobs fetched ahead and not started"),
];

/// Tells the recorder what each metric means, and in which unit it is. A client does so when it is
/// made and a runner when it is started; call it where the recorder is installed later.
pub fn describe() {
    for (name, meaning) in COUNTERS {
        ::metrics::describe_counter!(name, Unit::Count, meaning);
    }
    for (name, unit, meaning) in HISTOGRAMS {
        ::metrics::describe_histogram!(name, unit, meaning);
    }
    for (name, meaning) in GAUGES {
        ::metrics::describe_gauge!(name, Unit::Count, meaning);
    }
}

/// The place of an event's counter.
const fn place(happened: &Happened) -> usize {
    match happened {
        Happened::Inserted { .. } => 0,
        Happened::Duplicate { .. } => 1,
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
        let gauges = GAUGES.iter().map(|(name, _)| (name, "gauge"));
        let named: Vec<_> = counters.chain(histograms).chain(gauges).collect();
        for (name, what) in &named {
            assert!(table.contains(&format!("//! | `{name}` | {what} | ")), "{name}");
        }
        let rows = table.lines().filter(|line| line.starts_with("//! | `uniqueue_"));
        assert_eq!(rows.count(), named.len());
    }

    #[test]
    fn each_counter_is_named_after_its_event() {
        let events = [Happened::Completed, Happened::Rescued, Happened::GivenBack, Happened::Stale];
        for event in events {
            assert_eq!(COUNTERS[place(&event)].0, format!("uniqueue_{}_total", event.as_str()));
        }
    }
}
