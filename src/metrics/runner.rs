//! The metrics of a runner.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use ::metrics::{Gauge, Histogram};

use super::{BUFFERED_JOBS, FETCH_JOBS, FETCH_SECONDS, FINISH_JOBS, FINISH_SECONDS, FREE_SLOTS, RUNNING_JOBS};
use crate::words::ident::QueueName;

/// The slots and the buffer of one queue in a runner.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    pub(crate) running: usize,
    pub(crate) free: usize,
    pub(crate) buffered: usize,
}

/// The metrics of one runner. Each is looked up at its first use and then kept.
#[derive(Debug, Default)]
pub(crate) struct RunnerMeter {
    fetches: RoundTrips,
    finishes: RoundTrips,
    queues: Vec<QueueGauges>,
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
    pub(crate) fn new<'a>(queues: impl Iterator<Item = &'a QueueName>) -> Self {
        Self { queues: queues.map(QueueGauges::new).collect(), ..Self::default() }
    }

    pub(crate) fn fetched(&self, since: Instant, jobs: usize) {
        self.fetches.record((FETCH_SECONDS, FETCH_JOBS), since, jobs);
    }

    pub(crate) fn finished(&self, since: Instant, results: usize) {
        self.finishes.record((FINISH_SECONDS, FINISH_JOBS), since, results);
    }

    /// Updates the gauges of the queue with this index.
    pub(crate) fn load(&self, index: usize, load: Load) {
        if let Some(queue) = self.queues.get(index) {
            queue.running.set(load.running);
            queue.free.set(load.free);
            queue.buffered.set(load.buffered);
        }
    }
}

#[derive(Debug)]
struct QueueGauges {
    running: GaugeShare,
    free: GaugeShare,
    buffered: GaugeShare,
}

impl QueueGauges {
    fn new(queue: &QueueName) -> Self {
        let share =
            |name| GaugeShare { name, queue: queue.to_string(), value: AtomicI64::new(0), gauge: OnceLock::new() };
        Self { running: share(RUNNING_JOBS), free: share(FREE_SLOTS), buffered: share(BUFFERED_JOBS) }
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
