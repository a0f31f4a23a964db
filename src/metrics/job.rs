//! The metrics of jobs.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ::metrics::{Counter, Histogram, Label};

use super::{COUNTERS, WAIT_SECONDS, WORK_SECONDS, counter_index, labels};
use crate::words::event::Happened;
use crate::words::ident::{Kind, QueueName};
use crate::words::job::Inserted;

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
