//! What is measured of a runner.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ::metrics::{Gauge, Histogram};

use super::{BUFFERED_JOBS, FETCH_JOBS, FETCH_SECONDS, FINISH_JOBS, FINISH_SECONDS, FREE_SLOTS, RUNNING_JOBS};
use crate::ident::QueueName;

/// A time that is being taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer(Instant);

impl Timer {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// What a queue of a runner is busy with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    pub(crate) running: usize,
    pub(crate) free: usize,
    pub(crate) buffered: usize,
}

/// The metrics of one runner, each looked up at its first use and kept.
#[derive(Debug, Default)]
pub(crate) struct RunnerMeter {
    fetches: Trips,
    finishes: Trips,
    queues: Vec<QueueGauges>,
}

/// Statements that carry a batch.
#[derive(Debug, Default)]
struct Trips {
    handles: OnceLock<(Histogram, Histogram)>,
}

impl Trips {
    fn record(&self, (seconds, jobs): (&'static str, &'static str), since: Timer, batch: usize) {
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

    pub(crate) fn fetched(&self, since: Timer, jobs: usize) {
        self.fetches.record((FETCH_SECONDS, FETCH_JOBS), since, jobs);
    }

    pub(crate) fn finished(&self, since: Timer, results: usize) {
        self.finishes.record((FINISH_SECONDS, FINISH_JOBS), since, results);
    }

    /// Brings the gauges of the queue at this place up to date.
    pub(crate) fn load(&self, place: usize, load: Load) {
        if let Some(queue) = self.queues.get(place) {
            queue.running.set(load.running);
            queue.free.set(load.free);
            queue.buffered.set(load.buffered);
        }
    }
}

#[derive(Debug)]
struct QueueGauges {
    running: Part,
    free: Part,
    buffered: Part,
}

impl QueueGauges {
    fn new(queue: &QueueName) -> Self {
        let part = |name| Part { name, queue: queue.to_string(), told: AtomicI64::new(0), gauge: OnceLock::new() };
        Self { running: part(RUNNING_JOBS), free: part(FREE_SLOTS), buffered: part(BUFFERED_JOBS) }
    }
}

/// This runner's part of a gauge. Told by differences, so that the parts of several runners add up.
#[derive(Debug)]
struct Part {
    name: &'static str,
    queue: String,
    told: AtomicI64,
    gauge: OnceLock<Gauge>,
}

impl Part {
    fn set(&self, now: usize) {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let before = self.told.swap(now, Ordering::Relaxed);
        if now != before {
            let gauge = || ::metrics::gauge!(self.name, "queue" => self.queue.clone());
            self.gauge.get_or_init(gauge).increment((now - before) as f64);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set(0);
    }
}
