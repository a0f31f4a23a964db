//! The gauges of queues, which are read from the database.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::{AVAILABLE_JOBS, OLDEST_AVAILABLE_AGE};
use crate::words::ident::QueueName;
use crate::words::queue::QueueInfo;

/// The queues that have gauges. A queue that is not listed any more has no jobs.
static KNOWN: Mutex<BTreeSet<QueueName>> = Mutex::new(BTreeSet::new());

/// Sets the gauges of all queues.
pub(crate) fn record_queues(queues: &[QueueInfo]) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut gone = std::mem::take(&mut *known);
    for queue in queues {
        let name = queue.settings.name.clone();
        let age = queue.oldest_available_age.unwrap_or_default();
        set(&name, queue.available.counted() as f64, age.as_secs_f64());
        gone.remove(&name);
        known.insert(name);
    }
    for name in gone {
        set(&name, 0.0, 0.0);
    }
}

fn set(queue: &QueueName, available: f64, age: f64) {
    ::metrics::gauge!(AVAILABLE_JOBS, "queue" => queue.to_string()).set(available);
    ::metrics::gauge!(OLDEST_AVAILABLE_AGE, "queue" => queue.to_string()).set(age);
}
