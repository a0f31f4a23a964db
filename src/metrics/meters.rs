//! The metrics of runners and of jobs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ::metrics::{Counter, Gauge, Histogram, Label};

use super::{
    BUFFERED_JOBS, COUNTERS, FETCH_JOBS, FETCH_SECONDS, FINISH_JOBS, FINISH_SECONDS, FREE_SLOTS, RUNNING_JOBS,
    WAIT_SECONDS, WORK_SECONDS, counter_index, labels,
};
use crate::words::event::Happened;
use crate::words::ident::{Kind, QueueName};
use crate::words::job::Inserted;

/// The metrics of one runner. Each is looked up at its first use and then kept.
#[derive(Debug, Default)]
pub(crate) struct RunnerMeter {
    fetches: RoundTrips,
    finishes: RoundTrips,
}

/// The histograms of a statement that carries a batch.
#[derive(Debug, Default)]
struct RoundTrips {
    handles: OnceLock<(Histogram, Histogram)>,
}

impl RoundTrips {
    fn record(&self, (seconds, jobs): (&'static str, &'static str), since: Instant, batch: usize) {
        let handles = || (::metrics::histogram!(seconds), ::metrics::histogram!(jobs));
        let (seconds, jobs) = self.handles.get_or_init(handles);
        seconds.record(since.elapsed());
        jobs.record(batch as f64);
    }
}

impl RunnerMeter {
    pub(crate) fn fetched(&self, since: Instant, jobs: usize) {
        self.fetches.record((FETCH_SECONDS, FETCH_JOBS), since, jobs);
    }

    pub(crate) fn finished(&self, since: Instant, results: usize) {
        self.finishes.record((FINISH_SECONDS, FINISH_JOBS), since, results);
    }
}

/// The gauges of one queue in a runner.
#[derive(Debug)]
pub(crate) struct QueueMeter {
    running: GaugeShare,
    free: GaugeShare,
    buffered: GaugeShare,
}

impl QueueMeter {
    pub(crate) fn new(queue: &QueueName) -> Self {
        let share =
            |name| GaugeShare { name, queue: queue.to_string(), value: AtomicI64::new(0), gauge: OnceLock::new() };
        Self { running: share(RUNNING_JOBS), free: share(FREE_SLOTS), buffered: share(BUFFERED_JOBS) }
    }

    pub(crate) fn set(&self, running: usize, free: usize, buffered: usize) {
        self.running.set(running);
        self.free.set(free);
        self.buffered.set(buffered);
    }
}

/// This runner's share of a gauge. It is updated by differences, so that the shares of several runners add up.
#[derive(Debug)]
struct GaugeShare {
    name: &'static str,
    queue: String,
    value: AtomicI64,
    gauge: OnceLock<Gauge>,
}

impl GaugeShare {
    fn set(&self, now: usize) {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let before = self.value.swap(now, Ordering::Relaxed);
        if now != before {
            let gauge = || ::metrics::gauge!(self.name, "queue" => self.queue.clone());
            self.gauge.get_or_init(gauge).increment((now - before) as f64);
        }
    }
}

impl Drop for GaugeShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The metrics of one kind in one queue. Each is looked up at its first use and then kept.
#[derive(Debug)]
pub(crate) struct JobMeter {
    labels: Vec<Label>,
    counters: [OnceLock<Counter>; COUNTERS.len()],
    waited: OnceLock<Histogram>,
    worked: OnceLock<Histogram>,
}

impl JobMeter {
    pub(crate) fn new(kind: &Kind, queue: &QueueName) -> Self {
        Self {
            labels: labels(kind.as_str(), queue.as_str()),
            counters: [const { OnceLock::new() }; COUNTERS.len()],
            waited: OnceLock::new(),
            worked: OnceLock::new(),
        }
    }

    pub(crate) fn count(&self, happened: &Happened) {
        let index = counter_index(happened);
        let counter = || ::metrics::counter!(COUNTERS[index].0, self.labels.iter());
        self.counters[index].get_or_init(counter).increment(1);
    }

    pub(crate) fn waited(&self, waited: Duration) {
        let histogram = || ::metrics::histogram!(WAIT_SECONDS, self.labels.iter());
        self.waited.get_or_init(histogram).record(waited);
    }

    pub(crate) fn worked(&self, since: Instant) {
        let histogram = || ::metrics::histogram!(WORK_SECONDS, self.labels.iter());
        self.worked.get_or_init(histogram).record(since.elapsed());
    }
}

/// Counts an event that is too rare for a meter.
pub(crate) fn count(happened: &Happened, kind: &Kind, queue: &QueueName) {
    add(counter_index(happened), kind.as_str(), queue.as_str(), 1);
}

/// Counts the results of an insert, with one look-up for neighbours of the same kind and queue.
pub(crate) fn inserted(answers: &[Inserted]) {
    let like = |a: &Inserted, b: &Inserted| {
        a.duplicate == b.duplicate && a.job.kind == b.job.kind && a.job.queue == b.job.queue
    };
    for run in answers.chunk_by(like) {
        let index = usize::from(run[0].duplicate);
        add(index, run[0].job.kind.as_str(), run[0].job.queue.as_str(), run.len() as u64);
    }
}

fn add(index: usize, kind: &str, queue: &str, jobs: u64) {
    ::metrics::counter!(COUNTERS[index].0, labels(kind, queue)).increment(jobs);
}
