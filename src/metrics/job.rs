//! What is counted of jobs.

use std::sync::OnceLock;
use std::time::Duration;

use ::metrics::{Counter, Histogram, Label};

use super::runner::Timer;
use super::{COUNTERS, WAIT_SECONDS, WORK_SECONDS, labels, place};
use crate::event::Happened;
use crate::ident::{Kind, QueueName};
use crate::job::Inserted;

/// The metrics of one kind in one queue, each looked up at its first use and kept.
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
        let place = place(happened);
        let counter = || ::metrics::counter!(COUNTERS[place].0, self.labels.iter());
        self.counters[place].get_or_init(counter).increment(1);
    }

    pub(crate) fn waited(&self, waited: Duration) {
        let histogram = || ::metrics::histogram!(WAIT_SECONDS, self.labels.iter());
        self.waited.get_or_init(histogram).record(waited);
    }

    pub(crate) fn worked(&self, since: Timer) {
        let histogram = || ::metrics::histogram!(WORK_SECONDS, self.labels.iter());
        self.worked.get_or_init(histogram).record(since.elapsed());
    }
}

/// Counts what happens too rarely to keep a meter for.
pub(crate) fn count(happened: &Happened, kind: &Kind, queue: &QueueName) {
    add(place(happened), kind.as_str(), queue.as_str(), 1);
}

/// Counts what an insert did: a look-up for each run of one kind in one queue.
pub(crate) fn inserted(answers: &[Inserted]) {
    let like = |a: &Inserted, b: &Inserted| {
        a.duplicate == b.duplicate && a.job.kind == b.job.kind && a.job.queue == b.job.queue
    };
    for run in answers.chunk_by(like) {
        let place = usize::from(run[0].duplicate);
        add(place, run[0].job.kind.as_str(), run[0].job.queue.as_str(), run.len() as u64);
    }
}

fn add(place: usize, kind: &str, queue: &str, jobs: u64) {
    ::metrics::counter!(COUNTERS[place].0, labels(kind, queue)).increment(jobs);
}
